"""A temporary site, real ReFrame runs on it, and what ReFrame reported of each test case.

Faults are injected below ReFrame: a program on PATH replays a recorded real run through a filter,
or changes what the real program does. The tests of the suite are the real ones.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import forked
import pytest
import shell
import yaml
from msgspec.structs import replace
from shell import ROOT

from assay.describe import detect
from assay.judge import Verdict
from assay.show import nodes
from assay.store import session

DATA = ROOT / "tests" / "data"
PORTS = ROOT / ".cache" / "osu-py"
REFRAME = Path(sys.executable).with_name("reframe")

SITE = """\
import json
from pathlib import Path

from reframe.core.backends import getlauncher, register_launcher

from assay import sites


@register_launcher("replay")
class Replay(getlauncher("local")):
    'Starts the program once: it replays what all ranks did.'


spec = json.loads((Path(__file__).parent / "site.json").read_text())
site_configuration = sites.site_configuration(__file__, spec["system"], spec["environments"])
"""

#: Says nothing of this machine's kernel. What it logs during a test, such as a process that waited
#: long for its processor, would be a finding of the suite.
NO_DMESG = "#!/bin/sh\n"

#: In the file of a site: this machine stands for a node with more processors.
LARGER = """
from assay.prove import identity

identity.unlike = lambda *_: []
"""

#: Counters of this machine that a hot processor moves during a test; none is too many.
HOT = {"core_throttled": 10**9, "package_throttled": 10**9}

#: The file of an MPI test whose ranks meet once; `python` starts them.
HELLO = """\
import reframe as rfm

from assay.run.mpi import MpiCheck
from assay.parse import Parsed


@rfm.simple_test
class Hello(MpiCheck):
    kind = "network"
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["*"]
    executable = {python!r}
    executable_opts = ["-c", "'from mpi4py import MPI; MPI.COMM_WORLD.Barrier()'"]

    def read(self):
        return Parsed("hello", "hello", None, True, (), {{}})
"""

#: The head of a test file of a test of the suite. `Own` is a test whose program ends with 0.
OWN = """\
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, performance_function, run_after, run_before
from reframe.core.builtins import sanity_function
from reframe.core.exceptions import PerformanceError
from reframe.utility import udeps

from assay.run.strict import StrictCheck
from assay.parse import Parsed, Quantity, osu_py


class Own(StrictCheck):
    kind = "compute"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"

    def read(self):
        return Parsed("own", "own", None, True, (), {})


"""

#: Shell function that prints a recorded file as one of this launch: with its date, on this host.
OF_NOW = r"""
date=$(LC_ALL=C date '+%a %b %e %T %Y')
of_now() {
    sed -E "s/\[vm:/[$(uname -n):/g
        s/(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4}/$date/" "$1"
}
"""

#: Prints a recorded run. The real program printed all of this output.
REPLAY = (
    "#!/bin/sh"
    + OF_NOW
    + """
here=HERE
of_now "$here/stderr" >&2
of_now "$here/stdout"
# In the directory of a storage test the recorded program held a file open. A process that is left
# behind holds it until the watch over open files has looked a last time, and written what it saw.
case $PWD in */assay.??????)
    read -r _ _ _ _ _ job _ </proc/$$/stat # ReFrame begins a session for each job
    (while [ -d "/proc/$job" ] && [ ! -e "$OLDPWD/storage.files.json" ]; do sleep 0.01; done
    ) 2>/dev/null | dd of=written OFLAG >/dev/null 2>&1 &
    until [ -e written ]; do sleep 0.01; done
    # The rates are of another machine, so this one's copy in memory is no measure of them.
    sed -i -E 's/("memory_copy": )[0-9.e+]+/\\130000000000/' "$OLDPWD/storage.json" ;;
esac
for file in "$here"/files/*; do [ -e "$file" ] && of_now "$file" >"${file##*/}"; done
exit RC
"""
)


@dataclass(frozen=True)
class Recorded:
    """A recorded run: what a program left behind. `files` are copied to the stage directory.

    :ivar direct: whether a storage test finds the file of the program open with O_DIRECT.
    """

    stdout: str
    stderr: str = ""
    files: dict[str, str] = field(default_factory=dict)
    rc: int = 0
    direct: bool = False

    @classmethod
    def load(cls, name: str, data: Path = DATA) -> Recorded:
        """A run under `data`/replay; a stream without a file was empty."""
        found = (data / "replay" / name).glob("*")  # a list may have all of its run in `changes`
        files = {path.name: path.read_text() for path in sorted(found)}
        return cls(files.pop("stdout", ""), files.pop("stderr", ""), files)

    def but(self, **change: Any) -> Recorded:
        """The same run with something changed."""
        return Recorded(**{**self.__dict__, **change})

    def changed(self, changes: list[dict[str, str]]) -> Recorded:
        """The same run with other texts; test_recorded_faults.py says what `changes` means."""
        texts = {"stdout": self.stdout, "stderr": self.stderr, **self.files}
        for change in changes:
            names = [name for name in texts if fnmatch(name, change["file"])]
            assert names, f"the run has no {change['file']}"
            for name in names:
                if "with" in change:
                    texts[name] = (DATA / change["with"]).read_text(errors="replace")
                    continue
                assert change["old"] in texts[name], f"{name} has no {change['old']!r}"
                texts[name] = texts[name].replace(change["old"], change["new"])
        return self.but(stdout=texts.pop("stdout"), stderr=texts.pop("stderr"), files=texts)


#: A correct run of two ranks.
HPL = Recorded.load("hpl")


#: Three orders. They were recorded on a node of the emulated cluster, whose site does not bind
#: ranks; without the lines about these settings, the run is one of any other site.
STUDY = Recorded.load("hpl-study")
STUDY = STUDY.but(
    stderr="".join(
        line.replace("[node01:", "[vm:")
        for line in STUDY.stderr.splitlines(keepends=True)
        if "yield_when_idle" not in line and "binding_policy" not in line
    )
)


@dataclass(frozen=True)
class Outcome:
    """What ReFrame reported of one test case."""

    result: str
    reason: str
    record: dict[str, Any]

    def says(self, *causes: str) -> Outcome:
        """Checks that the case failed for all these causes, or that it passed if each is empty."""
        assert self.result == ("fail" if any(causes) else "pass"), self.reason
        # ReFrame's reason has only the first problems of a record.
        said = "\n".join([self.reason, *self.record.get("problems", [])])
        for cause in causes:
            assert cause in said, f"not the reason: {cause}\n{said}"
        return self


@dataclass(frozen=True)
class Run:
    """One invocation of ReFrame."""

    returncode: int
    output: str
    cases: dict[tuple[str, str, str], Outcome]

    def case(self, test: str, environ: str = "", partition: str = "") -> Outcome:
        """The only case with a test name that starts with `test`, on that stack and partition."""
        hits = [
            outcome
            for (name, env, part), outcome in self.cases.items()
            if name.startswith(test) and environ in ("", env) and partition in ("", part)
        ]
        assert len(hits) == 1, f"{len(hits)} cases of {test} on {environ}:\n{self.output[-3000:]}"
        return hits[0]

    def says(self, test: str, *causes: str, environ: str = "", partition: str = "") -> Outcome:
        """The only case of `test`. It and the run failed for all these causes, or it passed."""
        outcome = self.case(test, environ, partition).says(*causes)
        assert self.returncode != 0 or not any(causes)
        return outcome


def processor(cores: int) -> dict[str, int]:
    """A processor with so many cores, in the words of ReFrame."""
    return {
        "num_cpus": cores,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": cores,
        "num_sockets": 1,
    }


class Bench:
    """A site below `folder`. First partitions and stacks are added, then the site is run.

    :ivar strict: whether every metric needs a reference, also if :meth:`expect` adds none.
    :ivar code: what the file of the site does beside loading the site.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "site-config" / "bench"
        self.site.mkdir(parents=True)
        for name in ("vocabulary.yaml", "hardware", "tolerances.yaml"):
            (self.site.parent / name).symlink_to(ROOT / "site-config" / name)
        self.results = folder / "results"
        self.quiet = self.program("quiet", "dmesg", NO_DMESG)
        self.partitions: list[dict[str, Any]] = []
        self.environments: list[dict[str, Any]] = []
        self.references: dict[str, Any] = {"references": []}
        self.strict = False
        self.code = ""

    def partition(self, name: str = "here", launcher: str = "mpirun", **more: Any) -> None:
        """A partition of this machine with two cores."""
        self.partitions.append(
            {
                "name": name,
                "scheduler": "local",
                "launcher": launcher,
                "environs": [],
                "processor": processor(2),
                "features": ["intra-node", "posix", "sysv", "cma", "tcp"],
                "extras": {
                    "memory_bytes": 2**33,
                    "memory_fraction": 0.02,
                    "network_device": "lo",
                },
                "env_vars": [
                    ["OMPI_ALLOW_RUN_AS_ROOT", "1"],
                    ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"],
                ],
                **more,
            }
        )

    def storage(self, directory: Path, **more: Any) -> None:
        """A partition for measurements of the file system of `directory`."""
        extras = {"directory": str(directory), "memory_bytes": 2**33, **more.pop("extras", {})}
        self.partition(features=["storage"], extras=extras, **more)

    def stack(
        self, name: str, features: list[str], path: Path | None = None, **extras: Any
    ) -> None:
        """A stack. The programs in `path` come before all others on its PATH."""
        variables = [["PATH", f"{path}:{self.quiet}:{os.environ['PATH']}"]] if path else []
        self.environments.append(
            {"name": name, "features": features, "extras": extras, "env_vars": variables}
        )

    def ready(self, stack: str = "any", **partition: Any) -> Bench:
        """One partition and one stack, and no metric needs a reference."""
        self.partition(**partition)
        self.stack(stack, ["mpi"])
        self.record_all()
        return self

    def program(self, stack: str, name: str, script: str) -> Path:
        """Writes an executable script; returns its folder, which can be the path of a stack."""
        folder = self.folder / "programs" / stack
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
        return folder

    def replay(self, stack: str, program: str, recorded: Recorded) -> Path:
        """A program that repeats a recorded run; returns the folder of the program."""
        data = self.folder / "recorded" / stack / program
        (data / "files").mkdir(parents=True)
        (data / "stdout").write_text(recorded.stdout)
        (data / "stderr").write_text(recorded.stderr)
        for name, text in recorded.files.items():
            (data / "files" / name).write_text(text)
        script = REPLAY.replace("HERE", shlex.quote(str(data)))
        script = script.replace("exit RC", f"exit {recorded.rc}")
        script = script.replace("OFLAG", "oflag=direct" * recorded.direct)
        return self.program(stack, program, script)

    def replays(
        self, program: str, features: list[str], runs: Mapping[str, Recorded], **extras: Any
    ) -> None:
        """A stack for each recorded run, with its name. Its `program` repeats the run."""
        for name, run in runs.items():
            self.stack(name, features, self.replay(name, program, run), **extras)

    def replayed_hpl(self, recorded: Recorded, *arguments: str, **partition: Any) -> Run:
        """Runs the HPL test on a recorded run of xhpl."""
        self.partition(launcher="replay", **partition)
        self.replays("xhpl", ["hpl"], {"replayed": recorded})
        words = ("-n", "^Hpl$", "--mode", "smoke", *arguments)
        return self.run(*words, path="reframe/compute/hpl.py")

    def replayed_btio(
        self, directory: Path, recorded: Recorded, cases: str = "BtIo.*full.*ompio"
    ) -> Run:
        """Runs the BT-IO test on a recorded run, on a partition with this directory."""
        self.storage(directory, launcher="replay")
        built = {"btio_built": {"classes": ["S"], "subtypes": ["full"]}}
        self.replays("bt.S.x.mpi_io_full", ["btio"], {"replayed": recorded}, **built)
        return self.run("-n", cases, path="reframe/storage/btio.py")

    def live_latency(self, *before: object, **variables: str) -> Run:
        """Runs osu_latency.py over posix with the MPI of this machine, started by `before`.

        Skips the test if the machine has no MPI, no UCX or no Python ports of the OSU tests.
        """
        version = live_ucx()
        if not (PORTS / "osu_latency.py").exists():
            pytest.skip("needs the Python ports of the OSU tests: make setup")
        command = shlex.join(map(str, (*before, sys.executable, PORTS))) + "/osu_{benchmark}.py"
        self.partition()
        self.stack("live", ["osu-py"], ucx_version=version, osu_py_command=command)
        few = ("-n", "OsuPy.*posix.*=latency$", "--mode", "smoke")
        return self.run(*few, path="reframe/network/osu.py", **variables)

    def catches(self, spec: dict[str, Any], recorded: Recorded, path: str | Path) -> None:
        """The run passes, and with each fault it fails; test_recorded_faults.py explains `spec`."""
        runs = {}
        for name, said in {"healthy": {}, **spec["faults"], **spec.get("sound", {})}.items():
            mode = said.get("storage", spec.get("storage"))
            runs[name] = recorded.changed(said.get("changes", [])).but(direct=mode == "direct")
        if "storage" in spec:
            (self.folder / "storage").mkdir()
            self.storage(self.folder / "storage", launcher="replay")
        else:
            self.partition(launcher="replay")
        stack = spec["stack"]
        self.replays(spec["program"], stack["features"], runs, **stack.get("extras", {}))
        if compiler := spec.get("compiler"):
            for name in runs:
                made = self.folder / "programs" / name / spec["program"]
                self.program(name, compiler, f"#!/bin/sh\ncp {shlex.quote(str(made))} .\n")
        done = self.run("-n", spec["case"], *spec.get("arguments", ()), path=path)
        healthy = done.case("", "healthy")
        assert healthy.result == "pass", healthy.reason
        assert spec["healthy"].items() <= healthy.record.items()
        for name, expected in spec.get("sound", {}).items():
            outcome = done.case("", name)
            assert outcome.result == "pass", outcome.reason
            assert expected["proof"].items() <= outcome.record["proof"].items()
        for fault, expected in spec["faults"].items():
            outcome = done.case("", fault)
            verdict = expected.get("verdict", "FAIL")
            assert (outcome.result, outcome.record["verdict"]) == ("fail", verdict), fault
            problems = outcome.record["problems"]
            assert any(expected["reason"] in problem for problem in problems), (fault, problems)
        self.nobody_is_deceived()

    def nobody_is_deceived(self) -> None:
        """Of a run with a fault no node is PASS, also if it was busy, and no command drains one."""
        found = session.load_session(session.newest(self.results))
        red = [case for case in found.cases if case.verdict is Verdict.FAIL]
        busy = [replace(case, verdict=Verdict.INCONCLUSIVE, busy="other work") for case in red]
        for cases in (found.cases, (*found.cases, *busy), busy):
            run = replace(found, cases=tuple(cases))
            rows = nodes.rows(run)
            assert {row.verdict for row in rows} <= {nodes.FAIL, nodes.UNDECIDED}
            assert not nodes.drains(run, rows)[0]

    def check(self, name: str, source: str) -> Path:
        """Writes a ReFrame test file of its own; returns the folder, to be passed to `run`."""
        folder = self.folder / "checks"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(source)
        return folder

    def own(self, source: str, *arguments: str) -> Run:
        """Runs tests of a test: their file begins with :data:`OWN`."""
        return self.run(*arguments, path=self.check("own", OWN + source))

    def expect(self, test: str, metrics: dict[str, dict[str, Any]], **where: Any) -> None:
        """Adds a reference."""
        entry = {"for": {"partition": "*", "test": test, **where}, "metrics": metrics}
        source = "made for this test of the suite"
        self.references["references"].append({**entry, "source": source})

    def record_all(self) -> None:
        """Allows metrics without a reference: they are recorded and not judged."""
        self.references["recorded"] = [{"for": {"partition": "*"}, "why": "a test of the suite"}]

    def write(self) -> Path:
        """Writes the files of the site; returns its `reframe.py`. Keeps existing references."""
        names = [environment["name"] for environment in self.environments]
        for partition in self.partitions:
            partition["environs"] = partition["environs"] or names
            health = partition["extras"].get("health", {})
            hot = {"counters_max": {**HOT, **health.get("counters_max", {})}}
            partition["extras"]["health"] = {**health, **hot}
        system = {
            "name": "bench",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "max_local_jobs": 1,
            "partitions": self.partitions,
        }
        spec = {"system": system, "environments": self.environments}
        (self.site / "site.json").write_text(json.dumps(spec))
        most = max(each["processor"].get("num_cpus", 0) for each in self.partitions)
        larger = LARGER if most > (os.cpu_count() or 1) else ""
        (self.site / "reframe.py").write_text(SITE + larger + self.code)
        if not self.strict and not self.references["references"]:
            self.record_all()
        references = self.site / "references.yaml"
        if not references.exists():
            references.write_text(yaml.safe_dump(self.references))
        return self.site / "reframe.py"

    def run(self, *arguments: str, path: str | Path = "reframe", **variables: str) -> Run:
        """Runs ReFrame with `-r` and the arguments on the tests below `path`."""
        common = ("-c", str(path), "-R", "-r")
        path_of_all = f"{self.quiet}:{variables.pop('PATH', os.environ['PATH'])}"
        config = self.write()
        return run_reframe(config, self.results, *common, *arguments, PATH=path_of_all, **variables)


@contextmanager
def mounted(kind: str, folder: Path, *options: str) -> Iterator[Path]:
    """A file system of type `kind`; skips the test if it cannot be mounted."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a file system")
    folder.mkdir()
    done = shell.run("mount", "-t", kind, *options, "none", folder)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stdout.strip()}")
    try:
        yield folder
    finally:
        assert shell.run("umount", folder).returncode == 0


def live_program(name: str) -> str:
    """Path of a program of this machine; skips the test if there is no such program."""
    found = shutil.which(name)
    if not found:
        pytest.skip(f"needs {name} on this machine")
    return found


def live_ucx() -> str:
    """Version of the UCX of this machine; skips the test if there is no mpirun or no UCX."""
    live_program("mpirun")
    version = detect.version("ucx_version")
    if not version:
        pytest.skip("needs UCX on this machine")
    return version


def run_reframe(config: Path, results: Path, *arguments: str, **variables: str) -> Run:
    """Runs the real ReFrame and reads its newest run report."""
    before = set(results.glob("reports/run-report-*.json"))
    # ReFrame keeps what it detected of a partition in ~/.reframe. It would use this for a partition
    # with the same name on another bench.
    with tempfile.TemporaryDirectory() as home:
        fixed = {"HOME": home, "ASSAY_RESULTS": str(results), "RFM_COLORIZE": "no"}
        given = {**os.environ, **fixed, **variables}
        done = forked.reframe(REFRAME, "-C", config, *arguments, cwd=ROOT, environment=given)
    cases = {}
    for report in set(results.glob("reports/run-report-*.json")) - before:
        # A retry is a separate run of the failed cases. The last result of each case counts.
        for run in json.loads(report.read_text())["runs"]:
            for entry in run["testcases"]:
                key = (entry["display_name"], entry["environ"], entry["partition"])
                cases[key] = Outcome(entry["result"], entry["fail_reason"] or "", _record(entry))
    return Run(done.returncode, done.stdout, cases)


def _record(entry: dict[str, Any]) -> dict[str, Any]:
    for folder in ("outputdir", "stagedir"):
        path = Path(entry.get(folder) or "/nonexistent") / "assay.json"
        if path.is_file():
            return json.loads(path.read_text())
    return {}
