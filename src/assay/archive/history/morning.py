"""``assay`` alone: what changed since the last accepted run, and which nodes are proven."""

from __future__ import annotations

import argparse
import datetime
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from assay import files
from assay.archive.history import command, series, store
from assay.exits import Exit
from assay.quantities import quantity
from assay.show import nodes, remedies, summary
from assay.show.view import View
from assay.store import promise, session
from assay.store.cases import Session

#: How many changes are listed; the others are counted.
MOST = 20


def show(_: argparse.Namespace) -> int:
    """Print the state of each site of the newest run, and return the exit code."""
    results = session.results()
    try:
        run = session.load_session(session.newest(results))
        command.added(results, [results])
        with store.open_history(results) as connection:
            # A part of a run is no fault: that is how single nodes are measured.
            codes = {summary.exit_code(run)} - {Exit.PARTIAL}
            codes |= {_site(connection, run, system) for system in run.systems}
    except (session.ReportError, store.StoreError) as error:
        print(f"assay: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    return next(code for code in (1, 3, 4, 0) if code in codes)


def _site(connection: sqlite3.Connection, run: Session, system: str) -> Exit:
    proven: dict[str, tuple[str, set[str]]] = {}  # the session and the tests
    accused: dict[str, nodes.Row] = {}
    days = run.plan.promise.get("proven_within_days", promise.DAYS)
    oldest = datetime.datetime.fromtimestamp(time.time() - days * 86400, datetime.timezone.utc)
    for node, verdict, tests, why, drained, start in connection.execute(
        "SELECT node, verdict, tests, why, drained, strftime('%Y-%m-%d %H:%M', start, 'unixepoch') "
        "FROM nodes JOIN sessions ON id = session WHERE system = ? ORDER BY start", (system,),
    ):  # fmt: skip
        its = set(tests.split())
        proven.setdefault(node, ("never", set()))
        if verdict == nodes.PASS:
            proven[node] = start, its
            # Only the tests that accuse a node clear it.
            if node in accused and its.issuperset(accused[node].tests):
                del accused[node]
        elif verdict == nodes.FAIL or (verdict == nodes.UNDECIDED and node not in accused):
            accused[node] = nodes.Row(
                nodes.NODE, node, (node,), verdict, (why,), tuple(its), bool(drained)
            )
    late = [node for node, (at, _) in proven.items() if at == "never" or at < f"{oldest:%F %H:%M}"]
    print(f"{system}: {summary.closing_lines(View.of(run))[-1]}")
    print(*_changes(connection, run, system), sep="\n")
    print("\nnode | last proven (UTC) | by | state")
    for node, (at, its) in sorted(proven.items()):
        states = [f"{row.verdict}: {row.reasons[0]}" for row in [accused.get(node)] if row]
        states += [f"overdue: not proven within {days} days"] * (node in late)
        print(node, at, ", ".join(sorted(its)) or "-", "; ".join(states) or "-", sep=" | ")
    alone = {test.split()[0] for (test,) in connection.execute(
        "SELECT DISTINCT test FROM history WHERE system = ? AND node != ''", (system,)
    )}  # fmt: skip
    names = sorted(filter(remedies.NAME.fullmatch, {*accused, *late}))
    accusing = {test for row in accused.values() for test in row.tests}
    asked = {test for node in names for test in proven[node][1]} | accusing
    on = f"--distribute=all -J nodelist={','.join(names)}" if {*proven} != {run.host} else ""
    measure = [remedies.again(system, asked & alone or alone, on)] if names and alone else []
    if accusing - alone or (names and not alone):  # these take several nodes at once
        measure.append(remedies.again(system, accusing - alone))
    rows = [accused.get(node) or nodes.Row(nodes.NODE, node, (node,)) for node in proven]
    nodes.show_commands(*nodes.drains(run, rows), measure)
    codes = {nodes.CODES[row.verdict] for row in accused.values()}
    return Exit(min(codes)) if codes else Exit.PARTIAL if late else Exit.PASS


def _changes(connection: sqlite3.Connection, run: Session, system: str) -> Iterator[str]:
    """What is beyond its tolerance, against the last accepted run before this one."""
    found = connection.execute(
        "SELECT uuid, word = 'PASS', strftime('%Y-%m-%dT%H:%M:%SZ', start, 'unixepoch') "
        "FROM sessions WHERE word NOT IN ('PARTIAL', 'INTERRUPTED') AND start < ? AND id IN "
        "(SELECT session FROM nodes WHERE system = ?) ORDER BY word = 'PASS' DESC, start DESC",
        (run.start.timestamp() if run.start else time.time(), system),
    ).fetchone()
    if not found:
        yield "changes: there is no whole run before this one"
        return
    before: dict[tuple[str, ...], float | None] = {}
    after: dict[tuple[str, ...], float | None] = {}
    for uuid, value, *key in connection.execute(
        "SELECT session, value, node, test || ' @' || partition || '+' || environ, metric, unit "
        "FROM history WHERE start >= ? AND system = ? ORDER BY start", (found[2], system),
    ):  # fmt: skip
        (before if uuid == found[0] else after)[tuple(key)] = value
    folder = Path(str(run.plan.promise.get("file", ""))).parent.parent
    site = series.site_of(folder if folder.name else files.SUITE / "site-config", system)
    lines = []
    for key in sorted(before.keys() & after.keys()):
        old, new, unit = before[key], after[key], key[3]
        part = (new - old) / abs(old) if old and new is not None else float(old != new)
        if abs(part) > series.tolerance(site, unit):
            shown = ("no value" if v is None else quantity(v, unit) for v in (old, new))
            was, now = (text.replace("\N{NO-BREAK SPACE}", " ") for text in shown)
            far = f" ({100 * part:+.1f} %)" if old and new is not None else ""
            lines.append(" | ".join([key[0] or "several nodes", *key[1:3], f"{was} -> {now}{far}"]))
    kind = "accepted run" if found[1] else "whole run (none was accepted)"
    yield f"changes since the last {kind}, {found[2]}: {len(lines) or 'none'}"
    yield from promise.few(lines, MOST)
