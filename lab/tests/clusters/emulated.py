"""An emulated cluster for a test, driven through its command as a user drives it.

The machine that carries it may be busy. So no test waits for it with a limit, and none judges a
rate that was measured on it. A fault is shown by what the kernel was told (:meth:`Cluster.rate`,
:meth:`Cluster.held`, :meth:`Cluster.share_of_a_core`, :meth:`Cluster.disk_limits`), and by bounds
that no slow machine breaks: a limited link is never faster, a delayed packet never earlier. What
the suite says of a fault is tested on the numbers of a model (modelled.py).
"""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench import HOT, NO_DMESG, REFRAME, ROOT

COMMAND = ROOT / "lab/vcluster/vcluster"

#: Records every rate. Evidence is demanded all the same, and a test that compares nodes does so.
UNJUDGED = ("-S", "purpose=calibration")

PROGRAMS = (
    *("slurmctld", "munged", "iptables-restore", "mkfs.xfs", "gcc", "nsenter"),
    *("mpirun", "ucx_perftest"),
)


def reason_to_skip():
    if os.geteuid() != 0:
        return "needs root: it makes namespaces, mounts and control groups"
    for program in PROGRAMS:
        if shutil.which(program) is None:
            return f"needs {program}: ci/system-stack.sh, lab/vcluster/packages.sh"
    if subprocess.run(["unshare", "-mpun", "true"], capture_output=True, check=False).returncode:
        return "needs namespaces, which this machine refuses"
    return None


#: Factors of tc's units of a rate [bit/s].
UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}


def shaped(space, device):
    """The rate that tc lets through at one end of a link [bit/s]; None without a limit.

    :param space: the network namespace of the device.
    """
    said = subprocess.run(
        ["tc", "-n", space, "qdisc", "show", "dev", device],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    match = re.search(r"^qdisc tbf .* rate ([\d.]+)([KMG]?)bit", said, re.MULTILINE)
    return float(match[1]) * UNITS[match[2]] if match else None


def cluster_name(state):
    """Name of the cluster below `state`, as its control groups and namespaces have it."""
    spec = importlib.util.spec_from_file_location("layout", ROOT / "lab/vcluster/layout.py")
    layout = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layout)
    return layout.name_of(state)


#: A link that is slow enough for all pairs of nodes at once, for copied sites.
SLOW_LINK = """\
  vcluster-100mbit: {bandwidth: 12.5, source: "up --rate 100mbit"}
"""

#: The end of a copied site: changes its extras.
CHANGED = """
for partition in site_configuration["systems"][0]["partitions"]:
    for extra, changed in {changed!r}.items():
        partition["extras"][extra] = {{**partition["extras"].get(extra, {{}}), **changed}}
"""


class Cluster:
    """A cluster below `state`, driven through its command as a user drives it."""

    def __init__(self, state):
        self.state = state
        #: Of the last run of the suite: (test, partition) -> record of its last launch.
        self.records = {}

    def __call__(self, *words, check=True, timeout=None, **variables):
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
            [str(COMMAND), "run", "login", "--", "srun", "-w", "node01,node02", "sleep", "inf"],
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
        _, said = job.communicate()
        return job.returncode, said

    def rate(self, node):
        """What the link of a node carries in each direction [bit/s]."""
        name = cluster_name(self.state)
        out, into = shaped(f"{name}.{node}", "eth0"), shaped(f"{name}.switch", f"p-{node}")
        assert out == into
        return out

    def trunk(self):
        """What the link between the two switches carries [bit/s]; None without a limit."""
        one, other = (shaped(f"{cluster_name(self.state)}.switch", f"trunk{n}") for n in (0, 1))
        assert one == other
        return one

    def held(self, node):
        """For how long the relays of a node hold packets [us], the shortest time first."""
        space = f"{cluster_name(self.state)}.{node}"
        said = subprocess.run(
            ["ip", "netns", "pids", space], capture_output=True, text=True, check=True
        ).stdout
        found = []
        for pid in said.split():
            with contextlib.suppress(OSError):  # it has ended
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                found += [int(words[2])] if words[0].endswith(b"/nfdelay") else []
        return sorted(found)

    def group(self, node, file):
        """The text of a file of a node's control groups; empty if none has the file."""
        top, name = Path("/sys/fs/cgroup"), cluster_name(self.state)
        paths = (path for at in ("", "*/") for path in top.glob(f"{at}{name}/{node}/{file}"))
        found = {path.resolve() for path in paths}  # two controllers may have one hierarchy
        return "".join(path.read_text() for path in found)

    def share_of_a_core(self, node):
        """The processor time that the kernel gives a node, in cores; None without a limit."""
        said = self.group(node, "cpu.max") or (
            self.group(node, "cpu.cfs_quota_us") + self.group(node, "cpu.cfs_period_us")
        )
        quota, period = said.split()
        return None if quota in ("max", "-1") else int(quota) / int(period)

    def disk_limits(self, node):
        """The rates at which a node may read and write its disk [B/s]; empty without a limit."""
        said = self.group(node, "io.max") or "".join(
            self.group(node, f"blkio.throttle.{what}_bps_device") for what in ("read", "write")
        )
        return [int(number) for number in re.findall(r"(?:bps=|:\d+ )(\d+)", said)]

    def suite(self, tests, *arguments, results, site="vcluster", mode="smoke", **variables):
        """Runs the suite on the login machine; returns its process and case -> (result, reason).

        :param site: its name below lab/sites, or the folder of another, as of :meth:`site`.
        :param mode: of ReFrame; empty for the full profile.
        """
        folder = site if isinstance(site, Path) else ROOT / "lab/sites" / site
        path = variables.pop("PATH", os.environ["PATH"])
        variables["PATH"] = f"{self.without_kernel_log()}:{path}"
        self("run", "login", "--", "mkdir", "-p", str(results))
        before = set(results.glob("reports/*.json"))
        done = self(
            *("run", "login", "--", "env", f"ASSAY_RESULTS={results}", "RFM_COLORIZE=n"),
            *(f"{name}={value}" for name, value in variables.items()),
            *(str(REFRAME), "-C", str(folder / "reframe.py")),
            *("-c", str(ROOT / "reframe"), "-R", "-r", "-n", tests),
            *(("--mode", mode) if mode else ()),
            *arguments,
            check=False,
        )
        reports = set(results.glob("reports/run-report-*.json")) - before
        assert len(reports) == 1, done.stdout[-3000:] + done.stderr[-1000:]
        (report,) = reports
        cases, self.records = {}, {}
        for part in json.loads(report.read_text())["runs"]:
            for case in part["testcases"]:
                name = case["display_name"].split()[0], case["partition"]
                cases[name] = case["result"], case["fail_reason"] or ""
                for kept in (case.get("outputdir"), case.get("stagedir")):
                    record = Path(kept or "/nonexistent") / "assay.json"
                    if record.is_file():
                        self.records[name] = json.loads(record.read_text())
                        break
        return done, cases

    def without_kernel_log(self):
        """A folder with a program for dmesg: what the host logs is no fault of a node."""
        folder = self.state / "home" / "quiet"
        folder.mkdir(exist_ok=True)
        (folder / "dmesg").write_text(NO_DMESG)
        (folder / "dmesg").chmod(0o755)
        return folder

    def site(self, **changed):
        """A copy of the site `vcluster` for numbers that the host does not change.

        Other work and heat of the host excuse nobody there, and accuse nobody.

        :param changed: extra -> what is changed of it, on all partitions.
        """
        changed["health"] = {"counters_max": HOT, **changed.get("health", {})}
        checkout = self.state / "home" / "checkout"
        folder = checkout / "lab/sites/vcluster"
        if not checkout.exists():
            shutil.copytree(
                ROOT / "lab/sites/vcluster", folder, ignore=shutil.ignore_patterns("calibrated.*")
            )
            for name in (
                *(".git_archival.txt", ".venv", ".cache", "build", "requirements"),
                *("site-config", "lab/sites/emulation.py", "lab/sites/facts.py"),
            ):
                (checkout / name).symlink_to(ROOT / name)
            tolerances = folder / "tolerances.yaml"
            text = tolerances.read_text().replace("other_work: 1.0", "other_work: 1000000")
            tolerances.write_text(text)
            with (folder / "hardware.yaml").open("a") as file:
                file.write(SLOW_LINK)
        text = (ROOT / "lab/sites/vcluster/reframe.py").read_text()
        (folder / "reframe.py").write_text(f"{text}\n{CHANGED.format(changed=changed)}")
        return folder

    def addresses(self):
        """Machine -> its IPv4 address."""
        return dict(re.findall(r"^(login|node\d+) +(\S+)", self("status").stdout, re.MULTILINE))

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
def up(*words):
    """A running cluster, started by `vcluster up` with these words. It is removed afterwards."""
    with place() as state:
        made = Cluster(state)
        try:
            made("up", *words)
            yield made
        finally:
            made("down")
