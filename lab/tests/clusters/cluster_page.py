"""Writes the page, table and figure of the faults of the emulated cluster from the recorded runs.

The measurement is docs/cluster-faults.jsonl. All three depend on this file only.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import checkout
import fault_tables

ROOT = checkout.ROOT
RUNS = ROOT / "docs/cluster-faults.jsonl"
PAGE = ROOT / "docs/sensitivity.md"
TABLE = fault_tables.file("cluster")
FIGURE = ROOT / "docs/cluster-faults.svg"
HEAD = ("fault", "severity", "caught", "by (number of runs)", "names the node", "time", "message")
BEGIN, END = "<!-- begin: cluster faults -->", "<!-- end: cluster faults -->"

#: The node that receives every fault of a single node.
NODE = "node02"

#: Test -> beginnings of the kinds of fault that it cannot detect. If it fails with such a fault,
#: the host was busy.
BLIND = {
    "EachNode": ("link", "packet", "binding", "wrong", "stale", "slow MPI"),
    "Tournament": ("wrong UCX_TLS",),  # it measures over tcp anyway
    "NetPipe": ("stale",),  # the stale UCX is that of another program
}

#: Beginnings of the kinds of fault that are not in one node, so a failure may name any node.
EVERYWHERE = ("binding", "wrong", "stale", "slow MPI", "rail unused", "all ")

Run = dict[str, Any]


def load(file: Path = RUNS) -> list[Run]:
    """All runs so far, in the order of their measurement."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def groups(runs: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    """The runs of each fault at each severity. The healthy runs come first."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run["kind"] != "healthy"):
        found.setdefault((run["kind"], run["severity"]), []).append(run)
    return found


def test(case: str) -> str:
    """The test of a case, which is its class without parameters and partition."""
    return re.split(r"[ @]", case)[0]


def of_the_fault(run: Run, case: str) -> bool:
    """Whether the fault can be the cause of a failed case. In a healthy run: a false alarm."""
    if run["kind"] == "healthy":
        return True
    if run["kind"].startswith(BLIND.get(test(case), ())):
        return False
    named = set(re.findall(r"\bnode\d+\b", run["reasons"].get(case, "")))
    return not named or NODE in named or run["kind"].startswith(EVERYWHERE)


def verdicts(run: Run) -> dict[str, str]:
    """Test -> the worst verdict of its cases: FAIL, INCONCLUSIVE, DISTURBED or PASS.

    DISTURBED: the case failed, but not because of the fault.
    """
    worst = {}
    order = ("FAIL", "INCONCLUSIVE", "DISTURBED", "PASS")
    for case, result in run["verdicts"].items():
        if result == "skip":
            continue
        said = "PASS"
        if result != "pass":
            reason = run["reasons"].get(case, "")
            only = "INCONCLUSIVE" in reason and ": FAIL" not in reason
            said = "INCONCLUSIVE" if only else "FAIL" if of_the_fault(run, case) else "DISTURBED"
        worst[test(case)] = min(worst.get(test(case), "PASS"), said, key=order.index)
    return worst


def caught(runs: Sequence[Run]) -> dict[str, int]:
    """Test -> number of runs in which it failed."""
    count: dict[str, int] = {}
    for run in runs:
        for name, verdict in verdicts(run).items():
            count[name] = count.get(name, 0) + (verdict == "FAIL")
    return count


def names_it(run: Run) -> bool:
    """Whether a reason of the run names the faulty node. False for faults without such a node."""
    return not run["kind"].startswith(EVERYWHERE) and any(
        NODE in reason for reason in reasons_of_the_fault(run)
    )


def reasons_of_the_fault(run: Run) -> list[str]:
    return [reason for case, reason in run["reasons"].items() if of_the_fault(run, case)]


def message(run: Run) -> str:
    """The shortest reason that names the node; without such a reason, the shortest of all."""
    reasons = sorted(reasons_of_the_fault(run), key=lambda r: (NODE not in r, len(r)))
    first = re.sub(r"^\w+ error: ", "", reasons[0]).split("; ")[0] if reasons else ""
    return re.sub(r"\S*/(\w+\.yaml)", r"\1", first)[:160]


def healthy_lines(runs: Sequence[Run]) -> list[str]:
    cases = [(run, name, verdict) for run in runs for name, verdict in verdicts(run).items()]
    failed = [(run, name) for run, name, verdict in cases if verdict == "FAIL"]
    unsure = [name for _, name, verdict in cases if verdict == "INCONCLUSIVE"]
    ran = sum(result != "skip" for run in runs for result in run["verdicts"].values())
    lines = [
        f"Healthy: {len(runs)} runs, {ran} cases, "
        f"{statistics.median(run['seconds'] for run in runs):.0f} s each (median). "
        f"False alarms: {len(failed)} FAIL ({100 * len(failed) / ran:.1f} % of the cases), "
        f"{len(unsure)} INCONCLUSIVE ({100 * len(unsure) / ran:.1f} %).",
        "",
    ]
    lines += [f"- false alarm of {name}: `{message(run)}`" for run, name in failed]
    return lines + ([""] if failed else [])


def hit(runs: Sequence[Run]) -> int:
    """In how many runs any test caught the fault."""
    return sum("FAIL" in verdicts(run).values() for run in runs)


def table(found: dict[tuple[str, str], list[Run]]) -> list[list[str]]:
    """One row a fault; the columns of :data:`HEAD`."""
    lines = []
    for (kind, severity), runs in found.items():
        hits = {name: count for name, count in caught(runs).items() if count}
        n = len(runs)
        by = ", ".join(f"{name} {count}" for name, count in sorted(hits.items())) or "**none**"
        disturbed = Counter(
            name for run in runs for name, said in verdicts(run).items() if said == "DISTURBED"
        )
        if disturbed:
            by += "; disturbed: " + ", ".join(f"{name} {n}" for name, n in disturbed.items())
        named = "" if kind.startswith(EVERYWHERE) else f"{sum(map(names_it, runs))} of {n}"
        seconds = statistics.median(run["seconds"] for run in runs)
        said = next(filter(None, map(message, runs)), "")
        quoted = f"`{said}`" if said else ""
        lines.append([kind, severity, f"{hit(runs)} of {n}", by, named, f"{seconds:.0f} s", quoted])
    return lines


def sums(found: dict[tuple[str, str], list[Run]]) -> str:
    """How many faults were caught in each run, and which were not."""
    missed = [
        f"{' '.join(fault).strip()} in {hit(runs)} of {len(runs)}"
        for fault, runs in found.items()
        if hit(runs) < len(runs)
    ]
    said = f"{len(found) - len(missed)} of {len(found)} faults were caught in each of their runs"
    return f"{said}{'; ' if missed else ''}{', '.join(missed)}."


def document(runs: Sequence[Run]) -> str:
    """The generated part of docs/sensitivity.md."""
    healthy = [run for run in runs if run["kind"] == "healthy"]
    found = without_healthy(runs)
    body = healthy_lines(healthy) if healthy else []
    figure = f"![fault by test, runs in which it was caught]({FIGURE.name})"
    return "\n".join([BEGIN, "", *body, sums(found), "", figure, "", END])


def without_healthy(runs: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    return {fault: each for fault, each in groups(runs).items() if fault[0] != "healthy"}


def written(runs: Sequence[Run]) -> str:
    """The text of the table."""
    return fault_tables.text(HEAD, table(without_healthy(runs)))


def replaced(text: str, generated: str, begin: str = BEGIN, end: str = END) -> str:
    """Replaces the generated part of the page."""
    head, rest = text.split(begin)
    return head + generated + rest.split(end)[1]


def draw(runs: Sequence[Run]) -> None:
    """Draws the figure: one field for each fault and test, darker if more runs caught the fault."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "assay"  # the same file from the same data
    import matplotlib.pyplot as plt

    found = groups(runs)
    rows = list(found)
    columns = sorted({name for key in rows for run in found[key] for name in verdicts(run)})
    failing = {name for key in rows for name, count in caught(found[key]).items() if count}
    columns = [name for name in columns if name in failing]
    figure, axes = plt.subplots(figsize=(2.6 + 0.9 * len(columns), 1.2 + 0.26 * len(rows)))
    share = [
        [caught(found[key]).get(name, float("nan")) / len(found[key]) for name in columns]
        for key in rows
    ]
    mpl.colormaps["Blues"].set_bad("0.92")
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
    for y, key in enumerate(rows):
        for x, name in enumerate(columns):
            if name in caught(found[key]):
                axes.text(x, y, caught(found[key])[name] or "", ha="center", va="center")
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="left")
    axes.xaxis.tick_top()
    axes.set_yticks(
        range(len(rows)), [f"{' '.join(key).strip()} ({len(found[key])})" for key in rows]
    )
    axes.set_title("runs in which the test failed (of how many); grey: not run", fontsize="medium")
    figure.savefig(FIGURE, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def write() -> None:
    """Writes page, table and figure from all runs in the file."""
    runs = load()
    PAGE.write_text(replaced(PAGE.read_text(), document(runs)))
    TABLE.write_text(written(runs))
    draw(runs)
