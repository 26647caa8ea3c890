"""Two ways to run a program in turn: the job script, NativeAgainstContainer and ProofCost."""

import os
import re

import pytest
import shell
from bench import run_reframe
from shell import ROOT

from assay.describe import machine
from studies import paired


def test_who_begins_alternates():
    order = [f"{way}.{number}" for way, number, _ in paired.launches(("native", "container"), 3)]
    assert order == [
        "container.0", "native.0", "native.1", "container.1", "container.2", "native.2"
    ]  # fmt: skip


@pytest.fixture
def job(tmp_path):
    """Runs the rounds with a wrapper on PATH, which the native stack must not find."""
    wrappers, native = tmp_path / "wrappers", tmp_path / "native-programs"
    shell.program(wrappers, "in-image")
    shell.program(wrappers, "program", "echo wrapped $UCX_A $UCX_B")
    shell.program(native, "program", "echo native $UCX_A $UCX_B; exit ${FAIL:-0}")

    def run(**variables):
        without = ["wrappers=$(dirname $(command -v in-image))", 'PATH=${PATH//"$wrappers:"/}']
        body = [*without, "loaded=yes", *paired.settings({"UCX_A": "x y", "UCX_B": ""})]
        lines = paired.script(2, {"native": [*body, "program"], "container": ["program"]})
        variables |= {"PATH": f"{wrappers}:{native}:{os.environ['PATH']}", "UCX_A": "a"}
        script = "\n".join([*lines, paired.ROUNDS])
        return shell.run("bash", "-c", script, cwd=tmp_path, UCX_B="b", **variables).returncode

    return run


def test_each_launch_has_its_programs_its_variables_and_its_directory(job, tmp_path):
    assert job() == 0
    said = {path.parent.name: path.read_text() for path in tmp_path.glob("*.*/stdout")}
    assert said == {
        "container.0": "wrapped a b\n",
        "native.0": "native x y\n",
        "native.1": "native x y\n",
        "container.1": "wrapped a b\n",
    }


def test_the_first_launch_that_fails_ends_the_rounds_with_its_code(job, tmp_path):
    assert job(FAIL="7") == 7
    assert not (tmp_path / "native.1").exists()


def compared(bench, **native):
    """Dry-runs a comparison of two stacks; returns the run."""
    bench.partition()
    bench.stack("native", ["osu", "mpi"], **native)
    bench.stack("container", ["osu", "mpi", "container"], image="/x.sif", ucx_version="1.18.1")
    name = "NativeAgainstContainer%transport=posix%probe=osu-latency"
    options = ("--dry-run", "-c", "studies/containers/against_native.py", "-n", name)
    return run_reframe(bench.write(), bench.results, *options)


@pytest.mark.slow
def test_a_comparison_gives_each_stack_the_switches_of_its_own_ucx(bench):
    assert compared(bench, ucx_version="1.13.1").case("NativeAgainst").result == "pass"
    (script,) = bench.results.glob("stage/**/rfm_job.sh")
    text = script.read_text()
    assert "export UCX_PROTO_INFO=y" in text  # of the container's UCX
    native = text.split("native() {")[1].split("}\ncontainer()")[0]
    assert {"unset UCX_PROTO_INFO", "export UCX_TLS=posix,self"} <= set(native.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("native", "why"),
    [
        ({}, "the stack native does not say which UCX it has (ucx_version)"),
        ({"ucx_version": "1.12.0"}, "the stack native: UCX 1.12.0: the logs of UCX before 1.13"),
    ],
)
def test_a_comparison_with_a_stack_whose_path_cannot_be_proven_is_skipped(bench, native, why):
    run = compared(bench, **native)
    assert run.case("NativeAgainst").result == "skip"
    assert why in run.output


# --- what the proof costs -------------------------------------------------------------------------

#: NetPIPE, a thousand times slower if UCX logs.
SLOWED = """\
[ -n "${UCX_LOG_FILE:-}" ] || exec COMMAND "$@"
COMMAND "$@" 2>"rows.$$"
status=$?
awk '$3 == "bytes" { $10 *= 1000; $7 = sprintf("%.6f", $2 * 8 / $10 / 1.048576) } 1' "rows.$$" >&2
exit $status"""


@pytest.mark.slow
def test_the_launch_without_a_proof_asks_for_no_logs(bench):
    bench.partition()
    bench.stack("netpipe", ["netpipe", "mpi"], ucx_version="1.13.1")
    options = ("--dry-run", "-c", "studies/proof", "-n", "ProofCost%transport=cma%bench.*=latency")
    assert run_reframe(bench.write(), bench.results, *options).case("ProofCost").result == "pass"
    (script,) = bench.results.glob("stage/**/rfm_job.sh")
    bare, proven = script.read_text().split("bare() {")[1].split("}\nproven() {")
    lost = {line.strip() for line in bare.splitlines() if line.strip().startswith("unset ")}
    assert {"unset UCX_LOG_FILE", "unset OMPI_MCA_pml_base_verbose", "unset UCX_LOG_LEVEL"} <= lost
    assert "witness.sh" not in bare and "witness.sh rank NPmpi" in proven.partition("}")[0]


@pytest.mark.slow
def test_between_gpus_a_rank_takes_its_gpu_in_both_launches(bench):
    gpus = [{"type": "gpu", "arch": "any", "num_devices": 2}]
    bench.partition(features=["intra-node", "gpu", "cuda"], devices=gpus)
    bench.stack("cuda", ["osu-cuda", "ucx", "mpi"], ucx_version="1.20.1", osu_version="7.4")
    options = ("--dry-run", "-c", "studies/proof", "-n", "ProofCostGpu%bench.*=bandwidth%.*=all")
    assert run_reframe(bench.write(), bench.results, *options).case("ProofCostGpu").result == "pass"
    (script,) = bench.results.glob("stage/**/rfm_job.sh")
    bare, proven = script.read_text().split("bare() {")[1].split("}\nproven() {")
    command = "rank-gpu.sh osu_bw -m 8:1048576 -i 100 -d cuda D D"
    assert command in bare.replace('"$assay_stage"/', "")
    assert "unset UCX_PROTO_INFO" in bare and "-x UCX_PROTO_INFO" not in bare
    assert "rank-gpu.sh witness.sh rank osu_bw" in proven.replace('"$assay_stage"/', "")


#: NetPIPE, of which UCX logs although nobody asked for it.
TALKATIVE = """\
[ -n "${UCX_LOG_FILE:-}" ] || export UCX_LOG_LEVEL=info UCX_LOG_FILE=ucx.%h.%p.log
exec COMMAND "$@\""""


def cost(bench, *options, body=""):
    """Runs ProofCost: latency over posix, with NetPIPE of this machine, which `body` may start."""
    stack = machine.distribution(ROOT / "site-config/local/reframe.py")
    if not {"netpipe", "ucx"} <= {*stack["features"]}:
        pytest.skip("needs NetPIPE and UCX on this machine")
    if body:
        body = body.replace("COMMAND", stack["extras"].get("netpipe_command", "NPmpi"))
        started = shell.program(bench.folder / "started", "NPstarted", body)
        stack["extras"]["netpipe_command"] = str(started)
    bench.partition()
    bench.environments.append(stack)
    name = "ProofCost.*posix.*latency"
    return bench.run("-n", name, *options, path="studies/proof").case("ProofCost")


@pytest.mark.long
def test_only_the_launches_with_a_proof_write_logs(bench):
    # Two ratios decide nothing.
    outcome = cost(bench, "-S", "rounds=2")
    assert "5 pairs are needed to decide" in outcome.reason
    assert outcome.record["verdict"] == "INCONCLUSIVE"
    assert {*outcome.record["proof"]} == {"proven"}
    assert list(bench.results.glob("**/proven.1/ucx.*.log"))
    assert not list(bench.results.glob("**/bare.*/ucx.*.log"))


@pytest.mark.long
def test_a_proof_that_changes_the_number_is_a_fault(bench):
    outcome = cost(bench, "-S", "rounds=5", body=SLOWED)
    assert outcome.record["verdict"] == "FAIL"
    assert "ratio_8B: DIFFERENT: ratio " in outcome.reason


@pytest.mark.long
def test_two_launches_that_both_log_do_not_say_what_the_logs_cost(bench):
    outcome = cost(bench, "-S", "rounds=1", body=TALKATIVE)
    assert outcome.record["verdict"] == "FAIL"
    assert "bare, round 0: it wrote logs, though it was to write none" in outcome.reason


@pytest.mark.long
@pytest.mark.parametrize("study", ["containers", "proof"])
def test_the_command_of_its_page_finds_the_test(study, tmp_path):
    """-c adds to the tests of the suite, and -S sets a variable in each test that has it."""
    page = (ROOT / "studies" / study / "README.md").read_text()
    (words,) = re.findall(r'REFRAME_ARGS="(.*?)"', page)
    name = re.search(r" -S (\w+)\.rounds=", words)[1]
    site = ROOT / "site-config/local/reframe.py"
    anywhere = ("-l", "--skip-system-check", "--skip-prgenv-check")
    listed = run_reframe(site, tmp_path, "-c", "reframe", "-R", *words.split(), *anywhere)
    assert listed.returncode == 0, listed.output
    assert f"- {name} %" in listed.output
