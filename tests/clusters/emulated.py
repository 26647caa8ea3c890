"""An emulated cluster for a test, driven through its command as a user drives it."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench import REFRAME, ROOT

COMMAND = ROOT / "vcluster/vcluster"
PROGRAMS = (
    *("slurmctld", "munged", "iptables-restore", "mkfs.xfs", "gcc", "nsenter"),
    *("mpirun", "ucx_perftest"),
)


def reason_to_skip():
    if os.geteuid() != 0:
        return "needs root: it makes namespaces, mounts and control groups"
    for program in PROGRAMS:
        if shutil.which(program) is None:
            return f"needs {program}: ci/system-stack.sh, vcluster/packages.sh"
    if subprocess.run(["unshare", "-mpun", "true"], capture_output=True, check=False).returncode:
        return "needs namespaces, which this machine refuses"
    return None


def cluster_name(state):
    """Name of the cluster below `state`, as its control groups and namespaces have it."""
    spec = importlib.util.spec_from_file_location("layout", ROOT / "vcluster/layout.py")
    layout = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layout)
    return layout.name_of(state)


class Cluster:
    """A cluster below `state`, driven through its command as a user drives it."""

    def __init__(self, state):
        self.state = state

    def __call__(self, *words, check=True, timeout=90, **variables):
        done = subprocess.run(
            [str(COMMAND), *words],
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done

    @property
    def environment(self):
        return {**os.environ, "ASSAY_VCLUSTER": str(self.state)}

    def job(self, command, nodes="node01,node02", check=True):
        """Runs a job; returns what each node printed: host -> last line."""
        count = str(nodes.count(",") + 1)
        srun = ["srun", "--label", "-w", nodes, "-N", count, "-n", count, "sh", "-c", command]
        done = self("run", "login", "--", *srun, check=check)
        said = dict(re.findall(r"^(\d+): (.*)$", done.stdout, re.MULTILINE))
        return {
            host: said[str(rank)] for rank, host in enumerate(nodes.split(",")) if str(rank) in said
        }

    def crash_in_a_job(self):
        """Crashes node02 while a job runs there; returns the job's exit code and its errors."""
        job = subprocess.Popen(
            [str(COMMAND), "run", "login", "--", "srun", "-w", "node01,node02", "sleep", "60"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not self.states()["node02"].startswith("alloc"):
            assert job.poll() is None, job.stderr.read()
        self("fault", "crash", "node02")
        assert self.states()["node02"] == "crashed"
        _, said = job.communicate(timeout=60)
        return job.returncode, said

    def suite(
        self, tests, *arguments, results, site="vcluster", timeout=600, mode="smoke", **variables
    ):
        """Runs the suite on the login machine; returns its process and case -> (result, reason).

        :param mode: of ReFrame; empty for the full profile.
        """
        self("run", "login", "--", "mkdir", "-p", str(results))
        before = set(results.glob("reports/*.json"))
        done = self(
            *("run", "login", "--", "env", f"ASSAY_RESULTS={results}", "RFM_COLORIZE=n"),
            *(f"{name}={value}" for name, value in variables.items()),
            *(str(REFRAME), "-C", str(ROOT / f"site-config/{site}/reframe.py")),
            *("-c", str(ROOT / "reframe"), "-R", "-r", "-n", tests),
            *(("--mode", mode) if mode else ()),
            *arguments,
            check=False,
            timeout=timeout,
        )
        reports = set(results.glob("reports/run-report-*.json")) - before
        assert len(reports) == 1, done.stdout[-3000:] + done.stderr[-1000:]
        (report,) = reports
        cases = {}
        for part in json.loads(report.read_text())["runs"]:
            for case in part["testcases"]:
                name = case["display_name"].split()[0], case["partition"]
                cases[name] = case["result"], case["fail_reason"] or ""
        return done, cases

    def states(self):
        lines = self("status").stdout.splitlines()
        return dict(
            re.match(r"(\S+) +\S+ +(.*)", line).groups() for line in lines if line[0] in "ln"
        )


@contextlib.contextmanager
def place():
    """A directory for a cluster. Its path is short, because sockets are created below it."""
    with tempfile.TemporaryDirectory(prefix="assay-vc-", dir="/var/tmp") as folder:
        yield Path(folder)


@contextlib.contextmanager
def up(*words, timeout=90):
    """A running cluster, started by `vcluster up` with these words. It is removed afterwards."""
    with place() as state:
        made = Cluster(state)
        try:
            made("up", *words, timeout=timeout)
            yield made
        finally:
            made("down")
