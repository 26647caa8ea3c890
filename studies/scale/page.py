#!/usr/bin/env python3
"""Writes the summary and the figure of README.md, and tables.md.

``.venv/bin/python studies/scale/page.py`` writes all. With ``--only switches --trials 10`` it
writes one simulated part alone, with fewer trials.

Each part stands between two marks, and is the same in every run. Without SimGrid, the part that
comes from SimGrid stays as it is.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cost
import gpu_sweep
import matplotlib as mpl
import power
import simgrid
import switches
from matplotlib.figure import Figure

from assay.show.plots import BLACK, BLUE, GREEN, MARKERS, ORANGE, PURPLE, STYLE, VERMILLION

PAGE, TABLES = (Path(__file__).with_name(name) for name in ("README.md", "tables.md"))
FIGURE = Path(__file__).with_name("power.svg")

#: A fault counts as found if the tournament names exactly this fault in this share of the trials.
FOUND = 0.95

COLOURS = (BLUE, GREEN, ORANGE, VERMILLION, PURPLE, BLACK)

Outcomes = dict[power.Cell, power.Outcome]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def amount(size: float) -> str:
    for unit, one in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size / 1e6:.3g} MB"


def hours(node_seconds: float) -> str:
    return f"{node_seconds / 3600:,.3g}" if node_seconds < 3.6e6 else f"{node_seconds / 3600:,.0f}"


def part_cost() -> str:
    parameters = cost.load()
    machine = cost.values(parameters["production"])
    rows, runs = [], []
    for n in cost.SIZES:
        full, few = cost.schedule.count(n), cost.schedule.sparse(n)
        row = [f"{n}"]
        for rounds in (full, few):
            total = cost.tournament(machine, n, rounds)
            row += [f"{rounds}", duration(total.wall), hours(total.node_seconds)]
        row += [amount(total.bytes), duration(cost.by_steps(machine, n, few).wall)]
        rows.append(row)
        whole = cost.acceptance(parameters, n)
        named = dict(cost.tests(parameters, n))
        longest = max(named, key=lambda what: named[what].wall)
        runs.append(
            [
                f"{n}",
                duration(whole.wall),
                hours(whole.node_seconds),
                duration(cost.harness_seconds(parameters, n)),
                f"{100 * total.node_seconds / whole.node_seconds:.1f} %",
                f"{longest} ({duration(named[longest].wall)})",
            ]
        )
    head = ["nodes", "all rounds", "wall", "node-h", "sparse rounds", "wall", "node-h"]
    head += ["bytes", "wall, by steps"]
    whole_head = [
        "nodes",
        "wall",
        "node-h",
        "of the wall: harness",
        "of the node-h: tournament",
        "longest test",
    ]
    between = "A full acceptance run, if it played the sparse tournament instead of all rounds:"
    return "\n\n".join([table(head, rows), between, table(whole_head, runs)])


def part_summary() -> str:
    """What a reader asks of the costs first."""
    parameters = cost.load()
    machine = cost.values(parameters["production"])
    rows = []
    for n in cost.SIZES:
        full, few = cost.schedule.count(n), cost.schedule.sparse(n)
        walls = [cost.tournament(machine, n, rounds).wall for rounds in (full, few)]
        whole = cost.acceptance(parameters, n)
        rows.append([f"{n}", *map(duration, (*walls, whole.wall)), hours(whole.node_seconds)])
    head = ["nodes", "all rounds", "sparse rounds", "an acceptance, sparse", "node-h of it"]
    return table(head, rows)


def part_check() -> str:
    """Compares the model with measurements on the emulated cluster."""
    parameters = cost.load()
    machine = cost.values(parameters["emulated"])
    rows = []
    for run in parameters["checks"]:
        n = run["nodes"]
        model = cost.by_steps(machine, n, cost.schedule.count(n), run["at_once"]).wall
        seconds = run["seconds"]
        rows.append(
            [
                f"{n}",
                f"{run['at_once']}",
                f"{run['load']}",
                f"{model:.1f} s",
                " ".join(f"{value:.1f}" for value in seconds) + " s",
                f"{100 * (model / (sum(seconds) / len(seconds)) - 1):+.0f} %",
            ]
        )
    return table(
        ["nodes", "pairs at once", "load of the host", "model", "measured", "model is off by"], rows
    )


def simulated(tournaments: tuple[power.Tournament, ...]) -> Outcomes:
    """All cells, on all processors."""
    cells = [cell for tournament in tournaments for cell in power.cells(tournament)]
    return at_once(power.simulate, cells)


def at_once(simulate: Callable[[Any], power.Outcome], cells: Iterable[Any]) -> dict[Any, Any]:
    """The outcome of each cell, on all processors."""
    listed = list(cells)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(listed, pool.map(simulate, listed, chunksize=4)))


def least(outcomes: Outcomes, tournament: power.Tournament, fault: str, noise: float) -> str:
    """The smallest severity from which on the fault is found."""
    found = ""
    for severity in sorted(tournament.severities, reverse=True):
        if outcomes[power.Cell(tournament, fault, severity, noise)].right < FOUND:
            break
        found = f"{100 * severity:g} %"
    return found or "-"


def power_entry(outcomes: Outcomes, tournament: power.Tournament, noise: float) -> str:
    """An entry of the table: smallest slow node and pair that are found, and false alarms."""
    if noise not in tournament.noises:
        return ""
    node, pair = (least(outcomes, tournament, fault, noise) for fault in ("node", "pair"))
    alarms = outcomes[power.Cell(tournament, "", 0.0, noise)].wrong
    return f"{node} / {pair} / {100 * alarms:.1f} %"


def part_power(outcomes: Outcomes) -> str:
    head = ["tournament", *(f"noise {100 * noise:g} %" for noise in power.NOISES)]
    rows = [
        [f"{t}", *(power_entry(outcomes, t, noise) for noise in power.NOISES)]
        for t in power.TOURNAMENTS
    ]
    return table(head, rows)


def entry(outcomes: dict[Any, power.Outcome], of: Any, faults: Sequence[str], noise: float) -> str:
    """An entry of a table: the smallest fault of each kind that is found, and false alarms.

    :param of: the tournament or sweep of the cells.
    """
    if noise not in of.noises:
        return ""
    there = {
        (cell.fault, cell.severity): outcome
        for cell, outcome in outcomes.items()
        if cell.noise == noise and cell.tournament == of
    }
    found = []
    for fault in faults:
        smallest = "-"
        for severity in sorted(of.severities, reverse=True):
            if there[fault, severity].right < FOUND:
                break
            smallest = f"{100 * severity:g} %"
        found.append(smallest)
    alarms = there["", 0.0].wrong
    wrong = max(outcome.wrong for (fault, _), outcome in there.items() if fault)
    return f"{' / '.join(found)} / {100 * alarms:.1f} % / {100 * wrong:.1f} %"


def part_of(of_all: Sequence[Any], outcomes: dict[Any, power.Outcome], module: Any) -> str:
    """The table of a simulation; `module` has its faults and noises."""
    head = ["machine", "trials", *(f"noise {100 * noise:g} %" for noise in module.NOISES)]
    rows = [
        [f"{of}", f"{of.trials}", *(entry(outcomes, of, module.FAULTS, n) for n in module.NOISES)]
        for of in of_all
    ]
    return table(head, rows)


#: Part of the page -> the module that simulates it, and its tournaments or sweeps.
SIMULATED: dict[str, tuple[Any, Sequence[Any]]] = {
    "switches": (switches, switches.TOURNAMENTS),
    "gpus": (gpu_sweep, gpu_sweep.SWEEPS),
}


def write_simulated(name: str, trials: int | None) -> None:
    module, usual = SIMULATED[name]
    most = sys.maxsize if trials is None else trials
    of_all = [replace(of, trials=min(most, of.trials)) for of in usual]
    outcomes = at_once(module.simulate, (cell for of in of_all for cell in module.cells(of)))
    write({name: part_of(of_all, outcomes, module)})


def part_simgrid() -> str:
    """A healthy cluster, and one with a slower link: the range over three places of that link."""
    lefts, rows = (0.9, 0.5, 0.1), []
    with tempfile.TemporaryDirectory() as scratch:
        program = simgrid.build(Path(scratch))
        for hosts in (32, 64):
            cluster = simgrid.Cluster(hosts)
            healthy = simgrid.run(program, cluster)
            slow = {
                left: [
                    simgrid.run(program, cluster, host, left) for host in (0, hosts // 2, hosts - 1)
                ]
                for left in lefts
            }
            for key, us in healthy.items():
                name, size = key
                row = [f"{hosts}", name, f"{size}", f"{us:.1f} us"]
                for left in lefts:
                    factors = sorted(run[key] / us for run in slow[left])
                    ends = [f"{factor:.2f}" for factor in (factors[0], factors[-1])]
                    row.append(" - ".join(dict.fromkeys(ends)))
                rows.append(row)
    head = ["ranks", "collective", "bytes", "healthy"]
    return table(head + [f"one link at {100 * left:g} %" for left in lefts], rows)


def draw(outcomes: Outcomes) -> Figure:
    """Probability of naming exactly the fault, over its severity: one line for each noise."""
    shown = [t for t in power.TOURNAMENTS if t.noises == power.NOISES]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.1 * len(shown), 4.6), layout="constrained")
        grid = figure.subplots(2, len(shown), sharex=True, sharey=True)
        for row, fault in zip(grid, ("node", "pair")):
            for axes, tournament in zip(row, shown):
                for noise, colour, marker in zip(tournament.noises, COLOURS, MARKERS):
                    cells = [
                        power.Cell(tournament, fault, severity, noise)
                        for severity in tournament.severities
                    ]
                    axes.plot(
                        [100 * cell.severity for cell in cells],
                        [100 * outcomes[cell].right for cell in cells],
                        color=colour,
                        marker=marker,
                        label=f"noise {100 * noise:g} %",
                    )
                axes.set_xscale("log")
                axes.set_xticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
                axes.minorticks_off()
                axes.axvline(100 * power.METRIC.tolerance, color="#888888", linewidth=0.8)
                axes.grid()
                if fault == "node":
                    axes.set_title("\n".join(f"{tournament}".split(", ")), fontsize=10)
            row[0].set_ylabel(f"slow {fault} named [%]")
        for axes in grid[1]:
            axes.set_xlabel("severity [%]")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def save(figure: Figure) -> None:
    with mpl.rc_context(STYLE):
        figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})
    # Matplotlib ends lines with blanks. The committed file has none.
    text = FIGURE.read_text(encoding="utf-8")
    FIGURE.write_text("".join(f"{line.rstrip()}\n" for line in text.splitlines()), encoding="utf-8")


def marks(name: str) -> tuple[str, str]:
    return f"<!-- begin: {name} -->\n", f"\n<!-- end: {name} -->"


def file_of(name: str) -> Path:
    return PAGE if name == "summary" else TABLES


def written(name: str) -> str:
    """A generated part in its current form."""
    begin, end = marks(name)
    return file_of(name).read_text(encoding="utf-8").split(begin)[1].split(end)[0]


def write(parts: dict[str, Any]) -> None:
    for name, part in parts.items():
        begin, end = marks(name)
        head, rest = file_of(name).read_text(encoding="utf-8").split(begin)
        text = head + begin + part + end + rest.split(end)[1]
        file_of(name).write_text(text, encoding="utf-8")


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description="Writes README.md and its tables.")
    parser.add_argument("--only", choices=[*SIMULATED], help="write this part alone")
    parser.add_argument("--trials", type=int, help="at most so many trials of each of its cells")
    options = parser.parse_args()
    if options.only:
        write_simulated(options.only, options.trials)
        print(f"scale: {options.only} written in {time.monotonic() - began:.0f} s")
        return
    write({"summary": part_summary(), "cost": part_cost(), "check": part_check()})
    if why := simgrid.missing():
        print(f"scale: the part of SimGrid stays as it was: {why}", file=sys.stderr)
    else:
        write({"simgrid": part_simgrid()})
    outcomes = simulated(power.TOURNAMENTS)
    write({"power": part_power(outcomes)})
    for name in SIMULATED:
        write_simulated(name, options.trials)
    save(draw(outcomes))
    print(f"scale: page, tables and figure written in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
