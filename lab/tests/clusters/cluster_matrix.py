"""Faults of a running cluster against the suite: what is caught, how small, what is named.

It runs on an emulated cluster that is up and calibrated (`make vcluster-up`, `make calibrate
SITE=vcluster PROFILE=smoke`): the suite healthy, and then with each fault. It writes every run as
one line of docs/cluster-faults.jsonl. From this file it writes the page docs/sensitivity.md and its
figure. A run that is already in the file is not repeated, so an interrupted matrix continues where
it stopped. To start again, remove the file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import cluster_page
from cluster_page import ROOT

COMMAND = ROOT / "lab/vcluster/vcluster"
STATE = Path(os.environ.get("ASSAY_VCLUSTER", "/var/tmp/assay-vcluster"))
#: The node that is made faulty. Every job of two or more nodes uses it.
NODE = "node02"

#: The tests that run with a fault: they test nodes and links, and each kind of link once.
TESTS = r"Tournament|Census|EachNode|NetPipe.*=tcp|UcxPerftest.*posix.*tag_lat"

#: An older UCX, for the fault "stale library". If it is missing, that fault is left out. Make it by
#: `pip install --no-deps --require-hashes -t .cache/stale-ucx -r lab/tests/clusters/stale-ucx.txt`
STALE = ROOT / ".cache/stale-ucx/libucx/lib"

#: Whether programs that Debian lacks are on PATH. If one is missing, their faults are left out.
HAVE_OTHERS = all(map(shutil.which, ("stream_c.exe", "xhpcg", "mpiGraph", "ior", "mdtest")))

#: Slurm chooses the node of a test that takes one node, so each node gets the fault.
EVERY = ("node01", "node02", "node03", "node04")

#: Limit for one run [s], whatever fails in it. It leaves time for the time limit of a job and for
#: the time after which Slurm gives up a node that does not respond.
LIMIT_S = 900


@dataclass(frozen=True)
class Fault:
    """A fault at one severity.

    :ivar words: arguments of `vcluster fault`.
    :ivar program: a program that a wrapper breaks, and the shell line of the wrapper that does so.
    :ivar during: inject while a job runs on the node, and not before.
    :ivar partition: of the site, on which alone the tests run; empty: on all.
    :ivar nodes: that get the fault, each in the place of :data:`NODE` in the words.
    """

    kind: str
    severity: str
    words: tuple[str, ...] = ()
    program: tuple[str, str] | None = None
    during: bool = False
    tests: str = TESTS
    partition: str = ""
    nodes: Sequence[str] = (NODE,)

    @property
    def name(self) -> str:
        return f"{self.kind} {self.severity}".strip()


def severities(kind: str, word: str, values: dict[str, str], **more: object) -> Iterator[Fault]:
    """One fault of `vcluster fault` at several severities: label -> value."""
    for label, value in values.items():
        yield Fault(kind, label, (word, NODE, *value.split()), **more)


# A stale library, slow settings and lost switches reach a program through its environment. A
# wrapper that comes first on PATH sets this environment, and neither site nor test notices.
def wrapped(kind: str, severity: str, program: str, line: str) -> Fault:
    return Fault(kind, severity, program=(program, line))


FAULTS = [
    *severities("link rate", "rate", {"-10 %": "900mbit"}),
    *severities("link latency", "delay", {"+50 %": "135"}),
    *severities("packet loss", "loss", {"0.1 %": "0.1%", "1 %": "1%"}),
    *severities("slow processor", "cpu", {"50 % of a core": "50", "20 % of a core": "20"}),
    *severities("slow disk", "disk", {"50 MB/s": "50"}),
    Fault("disk full", "", ("disk-full", NODE)),
    *severities("memory", "memory", {"200 MiB": "200"}),
    *severities("config drift", "drift", {"MTU": "mtu", "no mount": "mount", "sync": "options"}),
    Fault("binding", "all ranks on one core", ("one-core",)),
    wrapped("wrong UCX_TLS", "tcp", "ucx_perftest", "export UCX_TLS=tcp,self"),
    wrapped("wrong UCX_NET_DEVICES", "lo", "ucx_perftest", "export UCX_NET_DEVICES=lo"),
    *[wrapped("stale library", "UCX 1.16.0", "ucx_perftest", f"export LD_LIBRARY_PATH={STALE}")
      for _ in [STALE] if STALE.is_dir()],
    wrapped("slow MPI parameters", "rendezvous from 0 B", "NPopenmpi",
            "export UCX_RNDV_THRESH=0"),
    Fault("rank hangs", "in a job", ("hang", NODE, "ucx_perftest"), during=True),
    Fault("node crashes", "in a job", ("crash", NODE), during=True),
    Fault("cable out", "", ("link-down", NODE)),
    Fault("slurmd dead", "", ("slurmd", NODE)),
    Fault("node drained", "", ("drain", NODE)),
]  # fmt: skip

#: Without a fault, the same tests run.
HEALTHY = [Fault("healthy", "")]

if HAVE_OTHERS:
    HEALTHY.append(
        Fault("healthy", "other programs", tests="Stream|Hpcg|MpiGraph.*=tcp|Ior|Mdtest")
    )
    BETWEEN, INSIDE = {"partition": "inter-node"}, {"partition": "intra-node"}
    FILES = {"partition": "scratch", "nodes": EVERY}
    MOUNT = ("drift", NODE, "mount")
    FAULTS += [
        Fault("link rate", "-50 %, mpiGraph", ("rate", NODE, "500mbit"), tests="MpiGraph.*=tcp",
              **BETWEEN),
        Fault("node drained", "mpiGraph and HPCG", ("drain", NODE), tests="MpiGraph.*=tcp|Hpcg",
              **BETWEEN),
        Fault("wrong problem", "24 points in place of 16",
              program=("xhpcg", "set -- --nx=24 --rt=1"), tests="Hpcg", **INSIDE),
        # No launcher starts STREAM, so its wrapper binds it.
        Fault("binding", "STREAM on one core",
              program=("stream_c.exe", "taskset -p -c 0 $$ >/dev/null"), tests="Stream", **INSIDE),
        Fault("binding", "HPCG on one core", ("one-core",), tests="Hpcg", **INSIDE),
        Fault("all disks full", "IOR", ("disk-full", NODE), tests="Ior", **FILES),
        Fault("all disks full", "mdtest", ("disk-full", NODE), tests="Mdtest", **FILES),
        Fault("all mounts gone", "IOR", MOUNT, tests="Ior", **FILES),
        Fault("all mounts gone", "mdtest", MOUNT, tests="Mdtest", **FILES),
    ]  # fmt: skip


@dataclass(frozen=True)
class Matrix:
    """Faults against the suite on a site of an emulated cluster.

    :ivar healthy: the runs without a fault.
    :ivar runs: the file that gets a line for each run.
    """

    faults: Sequence[Fault]
    healthy: Sequence[Fault] = tuple(HEALTHY)
    site: str = "vcluster"
    runs: Path = cluster_page.RUNS

    @property
    def results(self) -> Path:
        return ROOT / "results" / "vcluster"


@dataclass
class Seen:
    """One run: the fault, and the verdicts of the suite."""

    kind: str
    severity: str
    number: int
    seconds: float
    returncode: int
    verdicts: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def vcluster(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(COMMAND), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip() or f"vcluster {' '.join(words)} failed")
    return done


def start(matrix: Matrix, fault: Fault, path: str) -> subprocess.Popen[str]:
    """Starts the suite on the login machine."""
    only = ["--system", f"{matrix.site}:{fault.partition}"] if fault.partition else []
    return subprocess.Popen(
        [
            *(str(COMMAND), "run", "login", "--", "env", f"ASSAY_RESULTS={matrix.results}"),
            *(f"PATH={path}", "RFM_COLORIZE=n", str(ROOT / ".venv/bin/reframe")),
            *(
                "-C",
                str(ROOT / f"lab/sites/{matrix.site}/reframe.py"),
                "-c",
                str(ROOT / "reframe"),
            ),
            *("-R", "-r", "--mode", "smoke", "-n", fault.tests, *only),
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(matrix: Matrix, fault: Fault, number: int) -> Seen:
    """Runs the suite once with a fault. Afterwards the fault is removed from the cluster."""
    folder = STATE / "home" / "wrapped"
    path = os.environ["PATH"]
    if fault.program:
        program, line = fault.program
        folder.mkdir(exist_ok=True)
        real = vcluster("run", "login", "--", "sh", "-c", f"command -v {program}").stdout.strip()
        (folder / program).write_text(f'#!/bin/sh\n{line}\nexec {real} "$@"\n')
        (folder / program).chmod(0o755)
        path = f"{folder}:{path}"
    elif fault.words and not fault.during:
        for node in fault.nodes:
            vcluster("fault", *(node if word == NODE else word for word in fault.words))
    before = set(matrix.results.glob("reports/run-report-*.json"))
    begin = time.monotonic()
    suite = start(matrix, fault, path)
    try:
        if fault.during:
            inject_into_a_job(fault, suite)
        output, _ = suite.communicate(timeout=LIMIT_S)
    finally:
        suite.kill()
        vcluster("clear")
        for file in folder.glob("*"):
            file.unlink()
    seen = Seen(fault.kind, fault.severity, number, time.monotonic() - begin, suite.returncode)
    for report in set(matrix.results.glob("reports/run-report-*.json")) - before:
        read(report, seen)
    if not seen.verdicts:
        raise SystemExit(f"{fault.name}: the suite left no report:\n{output[-2000:]}")
    return seen


def inject_into_a_job(fault: Fault, suite: subprocess.Popen[str]) -> None:
    """Injects the fault while the job of the tournament runs."""
    while suite.poll() is None:
        queue = vcluster("status").stdout
        if re.search(r"^job: .* R ", queue, re.MULTILINE) and "rfm_Tour" in queue:
            vcluster("fault", *fault.words)
            return
        time.sleep(0.2)


def read(report: Path, seen: Seen) -> None:
    """Reads the last verdict and reason of each case from a run report."""
    for part in json.loads(report.read_text())["runs"]:
        for case in part["testcases"]:
            name = f"{case['display_name']} @{case['partition']}"
            seen.verdicts[name] = case["result"]
            seen.reasons.pop(name, None)
            if case["result"] == "fail":
                said = re.sub(r"\s+", " ", case["fail_reason"] or "").replace(f"{ROOT}/", "")
                seen.reasons[name] = said[:400]


def main() -> None:
    options = arguments(__doc__).parse_args()
    if not options.page:
        measure(Matrix(FAULTS), options)
    cluster_page.write()


def arguments(about: str, runs: int = 5, healthy: int = 20) -> argparse.ArgumentParser:
    """The options of a matrix.

    :param about: its documentation, of which the first line is shown.
    """
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=runs, help=f"of each fault ({runs})")
    parser.add_argument("--healthy", type=int, default=healthy, help=f"healthy runs ({healthy})")
    parser.add_argument("--only", default="", help="faults whose name has this in it")
    parser.add_argument("--page", action="store_true", help="write the page from the file only")
    return parser


def measure(matrix: Matrix, options: argparse.Namespace) -> None:
    done = {(s["kind"], s["severity"], s["number"]) for s in cluster_page.load(matrix.runs)}
    healthy = [(fault, n) for n in range(options.healthy) for fault in matrix.healthy]
    faulty = [(fault, n) for n in range(options.runs) for fault in matrix.faults]
    plan = [
        (fault, number)
        for fault, number in [*healthy, *faulty]
        if options.only in fault.name and (fault.kind, fault.severity, number) not in done
    ]
    for position, (fault, number) in enumerate(plan, 1):
        seen = run(matrix, fault, number)
        with matrix.runs.open("a") as file:
            file.write(json.dumps(asdict(seen)) + "\n")
        failed = ", ".join(seen.reasons) or "nothing"
        print(
            f"[{position}/{len(plan)}] {fault.name} run {number}: "
            f"{seen.seconds:.0f} s, failed: {failed}",
            flush=True,
        )


if __name__ == "__main__":
    main()
