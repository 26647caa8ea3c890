"""Job scripts under a configuration that Assay did not write: each can work, or says why not.

One dry run over many made-up partitions. Each differs in what its site left to its own tests.
"""

import json
import re

import pytest
from bench import processor, run_reframe
from job_scripts import without_slurm

#: Launchers that a site made itself, and the configuration around them.
SITE = """\
import json
from pathlib import Path

from reframe.core.backends import getlauncher, register_launcher
from reframe.core.launchers import JobLauncher

from assay import reframe_compat

reframe_compat.install()  # else ReFrame pauses after each case


@register_launcher("theirs")
class Theirs(getlauncher("mpirun")):
    def command(self, job):
        return ["/opt/site/start", "-np", str(job.num_tasks), f"-pe={job.num_cpus_per_task}"]


@register_launcher("bare")
class Bare(JobLauncher):
    def command(self, job):
        return ["numactl", "-l", "/opt/mpi/bin/mpiexec", "--mca", "oob_tcp_if_include", "eth0"]


@register_launcher("own")
class Own(JobLauncher):
    def command(self, job):
        return ["/opt/site/start"]


site_configuration = json.loads((Path(__file__).parent / "site.json").read_text())
"""

TESTS = """\
import reframe as rfm
from reframe.core.builtins import run_after, run_before

from assay.parse import Parsed
from assay.gpu.bases import GpusOfNode
from assay.run.linpack import HplCheck
from assay.run.mpi import MpiCheck
from assay.run.strict import StrictCheck
from assay.run.ucx import UcxMixin


class Two(MpiCheck):
    kind = "network"
    valid_prog_environs = ["*"]
    executable = "two"

    def read(self):
        return Parsed("two", "two", None, True, (), {})


@rfm.simple_test
class Pair(UcxMixin, Two):
    valid_systems = ["+pair +intra-node", "+pair +inter-node"]
    time_limit = "10m"

    @run_before("run")
    def force(self):
        self._steer_ucx({"UCX_TLS": "tcp"})


@rfm.simple_test
class OnGpus(GpusOfNode, Two):
    valid_systems = ["+intra-node +gpu", "+inter-node +gpu"]

    @run_after("setup")
    def gpus(self):
        self.take_gpus(2)


@rfm.simple_test
class Big(HplCheck):
    valid_systems = ["+big"]
    valid_prog_environs = ["*"]
    executable = "big"
    time_limit = "4h"


@rfm.simple_test
class Quick(Two):
    profile = "smoke"
    valid_systems = ["+big"]
    time_limit = "4h"


@rfm.simple_test
class Look(StrictCheck):
    kind = "node"
    valid_systems = ["+look"]
    valid_prog_environs = ["*"]
    executable = "true"

    def read(self):
        return Parsed("look", "look", None, True, (), {})
"""

GPUS = [{"type": "gpu", "num_devices": 4}]
MEMORY = {"memory_bytes": 2**33, "memory_fraction": 0.5}


def resource(name, *options):
    return {"resources": [{"name": name, "options": [*options]}]}


def gpus(**more):
    return {"features": ["intra-node", "gpu"], "devices": GPUS, **more}


def pair(*features, **more):
    return {"features": ["pair", *(features or ["intra-node"])], **more}


def link(**more):
    extras = {"network_device": "eth0", **more.pop("extras", {})}
    return pair("inter-node", "tcp", extras=extras, **more)


def big(**more):
    return {"features": ["intra-node", "big"], "extras": MEMORY, **more}


def both(*said):
    return {"Big": said, "Quick": said}


#: Partition -> its description, the tests that it selects, and what must be said of each: lines of
#: the job script, lines that it must not have (with a "!"), or the reason of a skip (with a "?").
PLACES = {
    "rfm": (gpus(**resource("_rfm_gpu", "--gres=gpu:{num_gpus_per_node}")), ["--gres=gpu:2"]),
    "named": (gpus(**resource("gpu", "--gpus-per-node={num_gpus}")), ["--gpus-per-node=2"]),
    "gres": (gpus(**resource("gres", "--gres={gres}")), ["--gres=gpu:2"]),
    "task": (gpus(**resource("gpus", "--gpus-per-task={gpus}")), ["--gpus-per-task=1"]),
    "total": (
        {**gpus(**resource("gpus", "-G {n}")), "features": ["inter-node", "gpu"],
         "extras": {"network_device": "eth0"}},
        ["-G 4"],
    ),
    "typed": (
        gpus(extras={"gpu_type": "a100"}, **resource("gpu", "--gres=gpu:{gpu_type}:{num}")),
        ["--gres=gpu:a100:2"],
    ),
    "untyped": (
        gpus(**resource("gpu", "--gres=gpu:{gpu_type}:{num}")),
        ["?undescribed: partition 'untyped': resources: gpu: {gpu_type} is not known"],
    ),
    "by-access": (gpus(access=["-p gpu", "--gres=gpu:4"]), ["--gres=gpu:4"]),
    "no-gpus": (
        gpus(access=["--partition=gpu"]),
        ["?undescribed: partition 'no-gpus': resources: _rfm_gpu is missing"],
    ),
    "for-all": (gpus(**resource("_rfm_gpu")), ["!gres", "!gpus"]),
    "uncounted": (
        gpus(devices=[]),
        ["?undescribed: partition 'uncounted': devices: the number of GPUs (type gpu) is missing"],
    ),
    "gpu-pbs": (
        gpus(scheduler="pbs", launcher="mpirun", **resource("gpus", "ngpus={num_gpus_per_node}")),
        ["-l select=1:mpiprocs=2:ncpus=2:ngpus=2"],
    ),
    "gpu-local": (gpus(scheduler="local", launcher="mpirun"), ["mpirun -np 2"]),
    # ReFrame selects by the names of resources, too; the suite does not.
    "no-feature": ({"features": ["intra-node"], **resource("gpu", "--gres=gpu:{num}")}, {}),
    "whole": (big(), both("--exclusive", "--mem=0")),
    "added": (
        big(access=["--exclusive", "--partition=p", "--account=a"]),
        both("--exclusive", "--mem=0", "--account=a"),
    ),
    "shared": (
        big(access=["--oversubscribe", "--mem=10G"]),
        both("!--exclusive", "!--mem=0", "--mem=10G"),
    ),
    "look": ({"features": ["look"]}, ["!--exclusive", "!--mem"]),
    "short": (
        big(time_limit="40m"),
        {
            "Big": ["?too-small: theirs:short ends a job after 40 min (time_limit); the case may"],
            "Quick": ["--time=0:40:0"],
        },
    ),
    "minutes": (
        big(access=["-t 30"]),
        {
            "Big": ["?too-small: theirs:minutes ends a job after 30 min (access: -t 30)"],
            "Quick": ["--time=0:30:0"],
        },
    ),
    "uncores": (
        big(processor={}),
        {
            "Big": ["?undescribed: partition 'uncores': processor: num_cpus is missing"],
            "Quick": ["--ntasks=2"],
        },
    ),
    "unsized": (
        big(extras={}),
        {
            "Big": ["?undescribed: partition 'unsized': extras: Big needs 'memory_bytes'"],
            "Quick": ["--ntasks=2"],
        },
    ),
    "account": (
        pair(extras={"account": "physics"}, **resource("account", "--account={account}")),
        ["--account=physics"],
    ),
    "no-disk": (pair(**resource("filesystem", "--disk={fs}")), ["!--disk"]),
    "no-qos": (pair(**resource("qos", "--qos={qos}")), ["!--qos"]),
    "chosen": (pair(**resource("queue-of-nights", "--qos=night")), ["!--qos"]),
    "pbs": (link(scheduler="pbs", launcher="mpirun"), ["-l place=scatter:excl", "-np 2"]),
    "mpiexec": (link(scheduler="pbs", launcher="mpiexec"), ["mpiexec -n 2 -x UCX_TLS"]),
    "packed": (
        link(scheduler="pbs", launcher="mpirun", access=["-l place=pack"]),
        ["?undescribed: partition 'packed': access: place=pack lets 2 nodes of a job be one"],
    ),
    "torque": (link(scheduler="torque", launcher="mpirun"), ["-W x=NACCESSPOLICY:SINGLEJOB"]),
    "lsf": (link(scheduler="lsf", launcher="lrun"), ["-nnodes 2", "lrun -N 2"]),
    "oar": (link(scheduler="oar", launcher="mpirun-openmpi"), ["/host=2/core=1", "-x UCX_TLS"]),
    "sge": (
        pair(scheduler="sge", launcher="mpirun"),
        ["?not-here: theirs:sge: ReFrame asks sge for one slot, 2 ranks"],
    ),
    "hosts": (
        link(scheduler="ssh", launcher="mpirun", sched_options={"ssh_hosts": ["a", "b"]}),
        ["?not-here: theirs:hosts: a job by ssh has one node, 2 ranks on 2 nodes are needed"],
    ),
    "host": (
        pair(scheduler="ssh", launcher="mpirun", sched_options={"ssh_hosts": ["a"]}),
        ["mpirun -np 2"],
    ),
    "alone": (
        pair(launcher="local"),
        ["?not-here: theirs:alone: the launcher local starts one process, 2 ranks"],
    ),
    "squeue": (link(scheduler="squeue", launcher="alps"), ["--exclusive", "aprun -n 2 -N 1"]),
    "intel": (link(launcher="mpirun-intelmpi"), ["mpirun -np 2 -x UCX_TLS"]),
    "theirs": (link(launcher="theirs"), ["/opt/site/start -np 2 -pe=1 -x UCX_TLS"]),
    "bare": (link(launcher="bare"), ["mpiexec --mca oob_tcp_if_include eth0 -n 2 -x UCX_TLS"]),
    "own": (pair(launcher="own"), ['/opt/site/start "$assay_stage"', "export UCX_TLS=tcp"]),
    "own-link": (
        link(launcher="own"),
        ["?not-here: the launcher own is not known to hand variables on to other nodes"],
    ),
    **{
        shell: (
            pair(launcher=shell),
            [f"?not-here: theirs:{shell}: the launcher {shell} starts a shell, and no ranks"],
        )
        for shell in ("ssh", "clush", "pdsh")
    },
    "srunalloc": (
        pair(scheduler="local", launcher="srunalloc"),
        ["?not-here: theirs:srunalloc: the launcher srunalloc leaves the job script where"],
    ),
    "login": ({"scheduler": "local", "launcher": "local", "features": []}, {}),
}  # fmt: skip


#: How ReFrame says that a case ended.
STATUS = re.compile(r"\[ +(\w+) +\] \( *\d+/\d+\) (\w+)\b.*@theirs:([\w-]+)\+any(?: \[(.*)\])?")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(test, partition) -> its job script, or "?" and why it was skipped; and all that was said."""
    folder = tmp_path_factory.mktemp("theirs")
    site = folder / "site-config/theirs"
    site.mkdir(parents=True)
    results = folder / "results"
    partitions = [
        {
            "name": name, "scheduler": "slurm", "launcher": "srun", "environs": ["any"],
            "processor": processor(8), **described,
        }
        for name, (described, _) in PLACES.items()
    ]  # fmt: skip
    system = {
        "name": "theirs", "hostnames": [".*"], "partitions": partitions,
        "stagedir": str(results / "stage"), "outputdir": str(results / "output"),
    }  # fmt: skip
    stack = {"name": "any", "features": ["mpi", "ucx"], "extras": {"ucx_version": "1.18.1"}}
    report = {"report_file": str(results / "reports/run-report-{sessionid}.json")}
    screen = {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}
    said = {
        "systems": [system], "environments": [stack], "general": [report],
        "logging": [{"handlers": [screen], "handlers_perflog": []}],
    }  # fmt: skip
    (site / "site.json").write_text(json.dumps(said))
    (site / "settings.py").write_text(SITE)
    (folder / "tests.py").write_text(TESTS)
    run = run_reframe(
        site / "settings.py",
        results,
        *("-c", folder / "tests.py", "-c", "reframe/node/health.py", "--dry-run"),
        PATH=without_slurm(folder / "bin"),
    )
    found = {}
    for status, test, partition, why in STATUS.findall(run.output):
        scripts = results.glob(f"stage/theirs/{partition}/any/{test}*/rfm_job.sh")
        script = "".join(path.read_text() for path in scripts)
        found[test, partition] = f"?{why}" if why else script or status
    return found, run.output


def test_no_case_fails(made):
    assert "FAIL" not in {status for status, *_ in STATUS.findall(made[1])}, made[1][-9000:]


@pytest.mark.parametrize("partition", PLACES)
def test_a_job_can_work_or_its_case_says_what_is_missing(made, partition):
    found = {test: text for (test, where), text in made[0].items() if where == partition}
    found.pop("NodeHealth", None)
    _, expected = PLACES[partition]
    if isinstance(expected, list):
        assert len(found) == 1
        expected = dict.fromkeys(found, expected)
    assert {*found} == {*expected}
    for test, said in expected.items():
        for one in said:
            text = one.removeprefix("!")
            assert (text in found[test]) is (text == one), found[test]


def test_a_site_that_says_it_itself_is_not_asked_twice(made):
    assert made[0]["Quick", "whole"].count("--exclusive") == 1
    assert "--exclusive" not in made[0]["Quick", "shared"]
    assert made[0]["OnGpus", "by-access"].count("--gres") == 1


def test_what_may_be_missing_is_said_once(made):
    for line in (
        "theirs:no-qos: resources: qos stays empty: if the site asks for it, state qos as an extra",
        "theirs:no-disk: resources: filesystem stays empty: if the site asks for it, state fs as",
        "theirs:lsf: nothing asks lsf for whole nodes",
    ):
        assert made[1].count(line) == 1
    assert "theirs:account: resources" not in made[1]


def test_the_pre_check_of_nodes_runs_where_something_is_measured(made):
    checked = {where for test, where in made[0] if test == "NodeHealth"}
    assert checked == {
        name
        for name, (described, _) in PLACES.items()
        if {"intra-node", "inter-node"} & {*described["features"]}
    }
