"""Programs of an image run under ReFrame, with the cases that must be red.

Needs Apptainer and an image with the programs of Debian: ASSAY_IMAGE, or what `make image` left.
"""

import dataclasses
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from bench import DATA, ROOT, live_ucx
from reframe.core.exceptions import ConfigError

from assay.describe import container, machine
from assay.run.mpi import CMA_IS_OFF

#: Records every rate. Evidence is demanded all the same: a busy machine has no plausible curves.
UNJUDGED = ("-S", "purpose=calibration")

pytestmark = [pytest.mark.slow, pytest.mark.image]


@pytest.fixture(scope="module")
def image():
    path = Path(os.environ.get("ASSAY_IMAGE", ROOT / "build" / "assay.sif"))
    if not path.exists():
        pytest.skip(f"needs an image: {path} does not exist (make image, or ASSAY_IMAGE)")
    try:
        found = container.look(path, ROOT)
    except ConfigError as error:
        if "apptainer" in str(error):
            pytest.skip(str(error))
        raise
    if "NPopenmpi" not in found.programs:
        pytest.skip(f"{path} has no NetPIPE")
    return found


@pytest.fixture
def site(bench, image):
    """A bench with the stack `container`."""
    return with_stack(bench, image)


def with_stack(bench, image):
    live_ucx()
    bench.partition()
    bench.environments.append(container.container_stack(bench.site / "reframe.py", image))
    bench.record_all()
    return bench


def netpipe(site, transport, **variables):
    words = ("-n", f"NetPipe.*={transport}$", *UNJUDGED)
    return site.run(*words, path="reframe/network", **variables)


@pytest.mark.parametrize("transport", ["posix", "cma"])
def test_the_ranks_come_up_as_one_world_over_the_transport(site, image, transport):
    outcome = netpipe(site, transport).case("NetPipe", "container")
    assert outcome.result == "pass", outcome.reason
    assert outcome.record["proof"]["ranks"]["seen"] == 2
    assert outcome.record["proof"]["lanes"] == {f"{transport}/memory": 1.0}
    assert image.sha256 in outcome.record["stack"]


#: What Apptainer says before it unpacks an image, because it cannot mount it.
UNPACKS = "Converting SIF file to temporary sandbox"


def test_a_user_namespace_of_each_rank_turns_cma_off_and_nothing_else(bench, image, tmp_path):
    # The Apptainer of an unprivileged user does this by itself: one namespace for each container.
    own = tmp_path / "apptainer"
    own.write_text(f'#!/bin/sh\nAPPTAINER_USERNS=1 exec unshare -Ur {image.apptainer} "$@"\n')
    own.chmod(0o755)
    started = [own, "exec", image.path, "true"]
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as start:
        for line in start.stderr:
            if UNPACKS in line:
                start.kill()
                pytest.skip(
                    "Apptainer unpacks the image for each rank, which takes minutes: squashfuse?"
                )
    if start.returncode:
        # Apptainer cannot give files to users that do not exist in the namespace.
        pytest.skip("needs an image that Apptainer starts in a user namespace: squashfuse?")
    site = with_stack(bench, dataclasses.replace(image, apptainer=str(own)))
    run = netpipe(site, "(cma|posix)")
    cma, posix = (run.case(f"NetPipe %transport={over}", "container") for over in ("cma", "posix"))
    assert (cma.result, posix.result) == ("skip", "pass"), (cma.reason, posix.reason)
    assert CMA_IS_OFF in run.output


def test_ranks_that_lost_the_environment_are_no_world(site):
    outcome = netpipe(site, "posix", APPTAINER_CLEANENV="1").case("NetPipe", "container")
    assert outcome.result == "fail"
    assert "Open MPI printed nothing about its world" in outcome.reason


FOREIGN = """\
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift 2; done
"$@" & "$@"
wait
"""


def test_the_launcher_of_another_mpi_starts_two_worlds(site):
    # The ranks know nothing about this launcher: it sets neither PMIx nor other Open MPI variables.
    foreign = site.program("foreign", "mpirun", FOREIGN)
    site.environments[0]["env_vars"].append(["PATH", f"{foreign}:$PATH"])
    outcome = netpipe(site, "posix").case("NetPipe", "container")
    assert outcome.result == "fail"
    assert "2 worlds came up instead of one of 2 ranks" in outcome.reason


@pytest.mark.parametrize(
    ("rounds", "options", "result"),
    # Four ratios decide nothing, whatever they are. What others decide depends on the machine.
    [(5, UNJUDGED, "pass"), (4, (), "fail")],
    ids=["recorded", "too few"],
)
def test_native_against_container_over_a_proven_path(bench, image, rounds, options, result):
    bench.environments.append(machine.distribution(ROOT / "site-config/local/reframe.py"))
    if "netpipe" not in bench.environments[0]["features"]:
        pytest.skip("needs NetPIPE on this machine")
    with_stack(bench, image)
    # This value is the default of UCX, but the log of UCX shows it only if it is set.
    bench.environments[-1]["env_vars"].append(["UCX_POSIX_USE_PROC_LINK", "y"])
    name = "NativeAgainstContainer.*posix.*netpipe-bandwidth"
    words = ("-n", name, "-S", f"rounds={rounds}", "--max-retries=2", *options)
    outcome = bench.run(*words, path="studies/containers").case("NativeAgainst")
    decision = outcome.record["equivalence"]["ratio"]
    assert (outcome.result, decision["pairs"]) == (result, rounds), outcome.reason
    assert decision["why"].endswith("; 5 pairs are needed to decide") == (rounds < 5)
    assert decision["why"].startswith("UNDECIDED: ratio ") or rounds == 5
    # Repeating the comparison until it is decided would weaken the claim.
    assert outcome.record["attempts"] == 1
    assert len(outcome.record["metrics"]["ratio"]["samples"]) == rounds
    settings = {
        stack: "".join(log.read_text() for log in bench.results.glob(f"**/{stack}.0/ucx.*"))
        for stack in ("native", "container")
    }
    # A setting of the container's own stack is not a setting of the native stack.
    assert "UCX_POSIX_USE_PROC_LINK" in settings["container"]
    assert settings["native"]
    assert "UCX_POSIX_USE_PROC_LINK" not in settings["native"]
    for stack in ("native", "container"):
        proof = outcome.record["proof"][stack]
        assert (proof["ranks"], set(proof["lanes"])) == (2, {"posix/memory"})


WRITES = """
import reframe as rfm

from assay.run.storage import StorageMixin
from assay.run.strict import StrictCheck
from assay.parse import Parsed


@rfm.simple_test
class Writes(StorageMixin, StrictCheck):
    kind = "storage"
    descr = "a file from inside of the image"
    valid_systems = ["+storage"]
    valid_prog_environs = ["+container"]
    executable = "in-image"
    # A process that is left behind holds the file open until the watch over open files has looked a
    # last time, and written what it saw.
    hold = "while [ -d \\"$1\\" ] && [ ! -e storage.files.json ]; do sleep 0.01; done 2>/dev/null &"
    executable_opts = ["sh", "-c", f"'exec >\\"$1\\"/file; echo inside; {hold}'", "sh", '"$work"']
    postrun_cmds = ['cat "$work"/file']

    def room(self):
        return 1

    def read(self):
        problems = () if self.stdout_text() == "inside\\n" else ("nothing was written there",)
        return Parsed("writes", "writes", None, True, (), {}, problems)
"""


def test_the_directory_under_test_is_in_the_container_beside_what_the_user_binds(bench, image):
    # Apptainer binds /tmp by default, so a directory below /tmp would prove nothing.
    (ROOT / ".cache").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as directory:
        bench.storage(Path(directory))
        bench.environments.append(container.container_stack(bench.site / "reframe.py", image))
        bound = f"{DATA}:/mnt"
        outcome = bench.run(path=bench.check("writes", WRITES), APPTAINER_BIND=bound).case("Writes")
        assert outcome.result == "pass", outcome.reason
        (job,) = bench.results.glob("output/*/bench/here/container/Writes*/rfm_job.sh")
        assert f"export APPTAINER_BIND={directory}${{APPTAINER_BIND:+,$APPTAINER_BIND}}" in (
            job.read_text()
        )
