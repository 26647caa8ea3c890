"""Injects the faults of the baseline, writes docs/faults/outputs.csv, and its sums into a page.

The rows are the faults that were injected into other test suites (see the document).
`python tests/programs/fault_matrix.py` runs them all and writes the table again.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fault_tables
import replays
from bench import HPL as HEALTHY_HPL
from bench import ROOT, Bench, Recorded

from assay.parse import osu

DOCUMENT, TABLE = ROOT / "docs" / "sensitivity.md", fault_tables.file("outputs")
HEAD = ("program", "row", "fault", "caught by", "message begins")
BEGIN, END = "<!-- begin: fault matrix -->", "<!-- end: fault matrix -->"

OSU = ("latency", "bw", "allreduce")
COLUMN = {"latency": "latency", "bw": "bandwidth", "allreduce": "latency"}
SIZES = {8: "8B", 8192: "8KiB", 65536: "64KiB", 1 << 20: "1MiB"}

#: The value of a healthy recorded run equals its reference, as in the other suites.
TOLERANCE = 0.05

Change = Callable[[str, Recorded], Recorded]


@dataclass(frozen=True)
class Fault:
    """One row: what is done to the recorded run of each test, and to which tests it applies."""

    number: str
    what: str
    change: Change
    tests: tuple[str, ...] = OSU
    version: str = "5.7"
    note: str = ""


def table_row(line: str) -> bool:
    return bool(re.match(r"\d+ ", line))


def scaled(factor: float, first: int = 0, last: float = float("inf")) -> Change:
    """Multiplies every value of the table by `factor`, for sizes from `first` to `last` B."""

    def one(line: str) -> str:
        size, value, *rest = line.split()
        if not first <= int(size) <= last:
            return line
        return f"{size:<10}{float(value) * factor:>18.2f}" + "".join(f"{r:>18}" for r in rest)

    def change(_: str, run: Recorded) -> Recorded:
        lines = [one(line) if table_row(line) else line for line in run.stdout.splitlines()]
        return run.but(stdout="\n".join(lines) + "\n")

    return change


def worse(factor: float, first: int = 0, last: float = float("inf")) -> Change:
    """Makes results worse by `factor`: it raises latencies and lowers bandwidths."""

    def change(test: str, run: Recorded) -> Recorded:
        value = 1 / factor if COLUMN[test] == "bandwidth" else factor
        return scaled(value, first, last)(test, run)

    return change


def text(edit: Callable[[str], str]) -> Change:
    def change(_: str, run: Recorded) -> Recorded:
        edited = edit(run.stdout)
        assert edited != run.stdout, "the fault changes nothing"
        return run.but(stdout=edited)

    return change


def half(run: str, torn: bool) -> str:
    lines = run.splitlines(keepends=True)
    kept = "".join(lines[: len(lines) // 2])
    return kept + lines[len(lines) // 2][:6] if torn else kept


def nan(*sizes: int) -> Callable[[str], str]:
    def edit(run: str) -> str:
        rows = [line.split()[0] for line in run.splitlines() if table_row(line)]
        chosen = {str(size) for size in sizes} | {rows[-1]} if sizes else set(rows)
        return "\n".join(
            f"{line.split()[0]:<10}{'nan':>18}" if line.split()[:1] and line.split()[0] in chosen
            else line
            for line in run.splitlines()
        ) + "\n"  # fmt: skip

    return edit


def validated(fails: Callable[[int], bool]) -> Callable[[str], str]:
    """Writes the table as OSU 7.2 prints it with -c. It stops at the first row that failed."""

    def edit(run: str) -> str:
        lines = []
        for line in run.replace("v5.7", "v7.2").splitlines():
            if line.startswith("# Size"):
                lines += [f"{line}        Validation", "# Datatype: MPI_CHAR."]
            elif table_row(line):
                failed = fails(int(line.split()[0]))
                lines.append(f"{line}{'Fail' if failed else 'Pass':>18}")
                if failed:
                    break
            else:
                lines.append(line)
        return "\n".join(lines) + "\n"

    return edit


def instead(name: str) -> Change:
    """Replaces the run by another recorded run, which was recorded while the fault was active."""

    def change(test: str, _: Recorded) -> Recorded:
        rc = 1 if name == "singletons" else 0
        return Recorded.load(f"osu-{test}-{name}").but(rc=rc)

    return change


def no_change(_: str, run: Recorded) -> Recorded:
    return run


PT2PT = ("latency", "bw")
NO_CHECK = "allreduce: OSU 7.1 to 7.3 compares nothing in reductions, and prints Pass"

FAULTS = [
    Fault("0", "healthy", no_change),
    Fault("0c", "healthy, validated (`-c`)", text(validated(lambda size: False)), version="7.2"),
    Fault("1", "killed by a signal half-way, exit code 139",
          lambda t, r: r.but(stdout=half(r.stdout, torn=False), rc=139)),
    Fault("2", "full output, exit code 1", lambda t, r: r.but(rc=1)),
    Fault("3a", "UCX over tcp", instead("tcp"), note="live when recorded"),
    Fault("3b", "ob1 over the tcp btl", instead("ob1-tcp"), note="live when recorded"),
    Fault("4", "N singletons", instead("singletons"), note="live when recorded"),
    Fault("5a", "disk full: no output, exit code 0", lambda t, r: r.but(stdout="")),
    Fault("5b", "table cut in the middle of a row, exit code 0",
          text(lambda run: half(run, torn=True))),
    Fault("6a", "unknown version, v9.9", text(lambda run: run.replace("v5.7", "v9.9"))),
    Fault("6b", "unknown title", text(lambda run: run.replace("# OSU MPI", "# OSU MPI-NG"))),
    Fault("7a", "NaN in every row", text(nan())),
    Fault("7b", "NaN at 256 B and in the last row", text(nan(256))),
    Fault("8a", "bandwidth -10 %", scaled(0.9), ("bw",)),
    Fault("8b", "bandwidth -20 %", scaled(0.8), ("bw",)),
    Fault("8c", "bandwidth -50 %", scaled(0.5), ("bw",)),
    Fault("8d", "latency +50 %", scaled(1.5), ("latency", "allreduce")),
    Fault("8e", "latency +300 %", scaled(4.0), ("latency", "allreduce")),
    Fault("9a", "up to 4 KiB 5x worse, the rest untouched", worse(5, last=4096)),
    Fault("9b", "from 64 KiB 5x worse, the rest untouched", worse(5, first=65536)),
    Fault("12a", "payload corrupted at all sizes", text(validated(lambda size: True)),
          PT2PT, "7.2", note=NO_CHECK),
    Fault("12b", "payload corrupted at 2 B only", text(validated(lambda size: size == 2)),
          PT2PT, "7.2", note=NO_CHECK),
]  # fmt: skip

HPL = ("hpl",)


def hpl_from(name: str, rc: int = 0) -> Change:
    return lambda test, run: Recorded.load(f"hpl-{name}").but(rc=rc)


TEN = ("              0 tests completed and failed", "             10 tests completed and failed")

HPL_FAULTS = [
    Fault("0", "healthy", no_change, HPL),
    Fault("1", "killed by a signal half-way, exit code 139",
          lambda t, r: r.but(stdout=half(r.stdout, torn=False), rc=139), HPL),
    Fault("2", "full output, exit code 1", lambda t, r: r.but(rc=1), HPL),
    Fault("3b", "tcp btl", hpl_from("btl-tcp"), HPL, note="live when recorded"),
    Fault("4", "N singletons", hpl_from("singletons", rc=1), HPL, note="live when recorded"),
    Fault("5a", "disk full: no output, exit code 0", lambda t, r: r.but(stdout=""), HPL),
    Fault("5b", "output cut in the middle of a row, exit code 0",
          text(lambda run: half(run, torn=True)), HPL),
    Fault("6a", "unknown version, 9.9", text(lambda r: r.replace("HPLinpack 2.3", "HPLinpack 9.9")),
          HPL),
    Fault("6b", "unknown name, HPL-NG", text(lambda r: r.replace("HPLinpack", "HPL-NG")), HPL),
    Fault("7a", "NaN instead of Gflops", text(
        lambda r: re.sub(r"^(W[RC]\S+ .*?)\S+$", r"\1nan", r, flags=re.MULTILINE)), HPL),
    Fault("8a", "Gflops -10 %", lambda t, r: replays.scaled(0.9), HPL),
    Fault("8b", "Gflops -20 %", lambda t, r: replays.scaled(0.8), HPL),
    Fault("8c", "Gflops -50 %", lambda t, r: replays.scaled(0.5), HPL),
    Fault("10a", "residual FAILED, `10 tests completed and failed`",
          text(lambda r: r.replace("PASSED", "FAILED").replace(*TEN)), HPL),
    Fault("10b", "residual FAILED, true count", text(
        lambda r: r.replace("PASSED", "FAILED")
        .replace("1 tests completed and passed", "0 tests completed and passed")
        .replace("0 tests completed and failed", "1 tests completed and failed")), HPL),
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """The result for one fault: test -> the reason of the failure, empty if the test passed."""

    fault: Fault
    reasons: Mapping[str, str]

    @property
    def caught(self) -> bool:
        return all(self.reasons.values())


def measure(folder: Path) -> tuple[list[Row], list[Row]]:
    """Runs every fault; returns the rows of the OSU tests and the rows of the HPL test."""
    return _osu(Bench(folder / "osu")), _hpl(Bench(folder / "hpl"))


def metric(value: float, unit: str) -> dict[str, object]:
    return {"value": float(value), "unit": unit, "lower": -TOLERANCE, "upper": TOLERANCE}


def _osu(bench: Bench) -> list[Row]:
    bench.partition(launcher="replay")
    healthy = {test: Recorded.load(f"osu-{test}-posix") for test in OSU}
    stacks = [stack(fault) for fault in FAULTS]
    for test, run in healthy.items():
        parsed, column = osu.parse_osu(run.stdout), COLUMN[test]
        metrics = {
            f"{column}_{label}": metric(parsed.at(column, size=size), parsed.units[column])
            for size, label in SIZES.items()
        }
        bench.expect("Osu", metrics, benchmark=test, environ=stacks)
    for fault in FAULTS:
        path = None
        for test in fault.tests:
            changed = fault.change(test, healthy[test])
            path = bench.replay(stack(fault), f"osu_{test}", changed)
        bench.stack(stack(fault), ["osu"], path, ucx_version="1.13.1", osu_version=fault.version)
    run = bench.run("-n", f"Osu.*=posix.*=({'|'.join(OSU)})$", path="reframe/network/osu.py")

    def reason(fault: Fault, test: str) -> str:
        return _reason(run.case(f"Osu %transport=posix %benchmark={test}", stack(fault)))

    return [Row(fault, {test: reason(fault, test) for test in fault.tests}) for fault in FAULTS]


def _hpl(bench: Bench) -> list[Row]:
    bench.partition(launcher="replay")
    stacks = [stack(fault) for fault in HPL_FAULTS]
    performance = metric(replays.HEALTHY, "GFLOP/s")
    bench.expect("Hpl", {"performance": performance}, environ=stacks)
    runs = {stack(fault): fault.change("hpl", HEALTHY_HPL) for fault in HPL_FAULTS}
    bench.replays("xhpl", ["hpl"], runs)
    run = bench.run("-n", "^Hpl$", "--mode", "smoke", path="reframe/compute/hpl.py")
    return [Row(f, {"hpl": _reason(run.case("Hpl", stack(f)))}) for f in HPL_FAULTS]


def stack(fault: Fault) -> str:
    return f"fault-{fault.number}"


def _reason(outcome: object) -> str:
    return "" if outcome.result == "pass" else outcome.reason or "failed"


def cause(reason: str) -> str:
    """The first cause of a failure, without the parts that differ from run to run."""
    first = re.sub(r"^\w+ error: ", "", reason).split("; ")[0]
    return re.sub(r"\S*/(references\.yaml)", r"\1", first)


def table(program: str, rows: list[Row]) -> list[list[str]]:
    lines = []
    for row in rows:
        if row.fault.number.startswith("0"):
            caught = "no fault: all pass" if not any(row.reasons.values()) else "FALSE ALARM"
        else:
            hits = [test for test, reason in row.reasons.items() if reason]
            caught = "all" if row.caught else ", ".join(hits) or "**none**"
            if row.fault.tests not in (OSU, HPL):
                caught = f"{', '.join(hits)} (of {', '.join(row.fault.tests)})"
        note = f" ({row.fault.note})" if row.fault.note else ""
        message = cause(next((r for r in row.reasons.values() if r), ""))
        quoted = f"`{message}`" if message else ""
        lines.append([program, row.fault.number, f"{row.fault.what}{note}", caught, quoted])
    return lines


def tables(osu_rows: list[Row], hpl_rows: list[Row]) -> str:
    """The text of docs/faults/outputs.csv."""
    return fault_tables.text(HEAD, [*table("OSU", osu_rows), *table("HPL", hpl_rows)])


def document(osu_rows: list[Row], hpl_rows: list[Row]) -> str:
    """The generated part of docs/sensitivity.md."""

    def count(rows: list[Row]) -> str:
        faults = [row for row in rows if not row.fault.number.startswith("0")]
        return f"{sum(row.caught for row in faults)} of {len(faults)}"

    said = (
        f"OSU: {count(osu_rows)} rows caught by every test that they apply to. "
        f"HPL: {count(hpl_rows)} rows caught."
    )
    return "\n\n".join((BEGIN, said, END))


def replaced(text: str, generated: str) -> str:
    """Replaces the generated part of the document."""
    head, rest = text.split(BEGIN)
    return head + generated + rest.split(END)[1]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        measured = measure(Path(scratch))
    DOCUMENT.write_text(replaced(DOCUMENT.read_text(), document(*measured)))
    TABLE.write_text(tables(*measured))
    print(f"{DOCUMENT.relative_to(ROOT)} and {TABLE.relative_to(ROOT)} written")
