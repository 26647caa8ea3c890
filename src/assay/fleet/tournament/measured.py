"""Reads the measurements of a tournament from the log that :mod:`assay.fleet.node.pairs` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.accused import Against, How
from assay.fleet.coordinator_log import CoordinatorLog, read_coordinator_log
from assay.fleet.topology.fabric import Fabric
from assay.fleet.tournament import schedule
from assay.fleet.tournament.again import second_pass
from assay.fleet.tournament.diagnosis import diagnose
from assay.fleet.tournament.model import Measurement, Metric
from assay.judge import Verdict
from assay.metrics import lower_is_better
from assay.opinions.parse import ucx_perftest
from assay.parse import ParseError, ucx_log
from assay.prove import counters, steering, transports
from assay.prove.launch import short_name
from assay.prove.plan import Machine, Note, within

#: How much worse than the others a node or a pair may be, relative. A site may set other values.
TOLERANCES = {"bandwidth": 0.05, "latency": 0.25}

#: The share that a single pair may send again is larger by this factor: a host that was delayed for
#: a moment made a healthy pair send 45 of 89 000 segments again (2026-11-22).
ALONE = 10


@dataclass(frozen=True)
class Test:
    """One test of ucx_perftest.

    :ivar size: message size [B].
    :ivar column: of the metric, in the result of :mod:`assay.opinions.parse.ucx_perftest`.
    :ivar launches: of each pair; its nodes take turns as the server. The least value counts: for
        bandwidths the slower direction, for latencies the least disturbance.
    :ivar trial: number of iterations of the first trial, by which that of the others is chosen.
    """

    size: int
    metric: str
    column: str
    unit: str
    launches: int
    trial: int


TESTS: Mapping[str, Test] = {
    "tag_lat": Test(8, "latency", "p50", "us", 6, 100),
    "tag_bw": Test(1 << 20, "bandwidth", "bandwidth", "MB/s", 2, 8),
}


@dataclass(frozen=True)
class Pair(Measurement):
    """One run between two nodes; its values are in the units of the tests.

    :ivar number: number of the pass, counted from 1; 0 for a trial that failed.
    :ivar problems: reasons why the values cannot be trusted, one line each.
    :ivar sent: number of TCP segments, or packets of InfiniBand, that both nodes sent.
    :ivar again: how many of them were sent a second time.
    :ivar uncounted: whether a network device of the two counts neither bytes nor packets.
    :ivar at: the nodes that `error` accuses: the one whose program failed, else both.
    :ivar follows: whether `error` only says that another pair of the round failed.
    """

    number: int = 0
    problems: tuple[str, ...] = ()
    sent: int = 0
    again: int = 0
    uncounted: bool = False
    at: tuple[str, ...] = ()
    follows: bool = False


def pair_metrics(tolerances: Mapping[str, float]) -> list[Metric]:
    """The metrics by which each pair is judged.

    :param tolerances: metric -> tolerance, in place of those of :data:`TOLERANCES`.
    :raises ValueError: a tolerance is not valid.
    """
    limits = {**TOLERANCES, **tolerances}
    return [
        Metric(test.metric, test.unit, not lower_is_better(test.unit), limits[test.metric])
        for test in TESTS.values()
    ]


def proven_pairs(
    log: CoordinatorLog,
    transport: str,
    ucx_version: str | None,
    asked: Mapping[str, str] | None = None,
) -> Iterator[Pair]:
    """All pairs in the order in which they ran, each with the proof of its path.

    :param ucx_version: of UCX, as the stack states it; None to accept any one.
    :param asked: the requested variables of UCX; any other is a doubt; None to accept any.
    """
    nodes = log.nodes
    for entry in log.entries:
        if "runs" not in entry:
            continue
        a, b, number = nodes[entry["a"]], nodes[entry["b"]], entry["number"]
        if entry["error"]:
            error = f"{a} did not meet {b}: {entry['error']}"
            at, follows = tuple(entry.get("at") or (a, b)), bool(entry.get("follows"))
            yield Pair(a, b, error=error, number=number, at=at, follows=follows)
            continue
        values: dict[str, float] = {}
        problems = []
        for said in entry["runs"]:
            name = said["test"]
            test = TESTS[name]
            try:
                reached = value(test, said["client"]["out"])
            except ParseError as error:
                yield Pair(a, b, error=f"{name}: {error}", number=number, at=(a, b))
                break
            values[test.metric] = min(reached, values.get(test.metric, reached))
            said_of = ucx_log.parse_ucx_log(said["server"]["log"] + said["client"]["log"])
            proof = transports.prove_transport(
                transport, said_of, [test.size], ucx_version, processes=2
            )
            others = [] if asked is None else steering.of_ucx(said_of, asked, Machine())
            others = [line for line in others if not isinstance(line, Note)]  # where the log goes
            found = [*proof.problems, *others, *uncrossed(test.size, said)]
            problems += [within(f"{a} - {b}: {name}", problem) for problem in found]
        else:
            told = tuple(dict.fromkeys(problems))
            yield Pair(a, b, values, "", number, told, *counted(entry["runs"]))


def counted(runs: Iterable[Mapping[str, Any]]) -> tuple[int, int, bool]:
    """What the devices of a pair counted in its runs: `sent`, `again`, `uncounted` of a pair."""
    sides = [said[role] for said in runs for role in ("client", "server")]
    repairs = [side["repairs"] for side in sides if side.get("repairs")]
    sent, again = (sum(of_side[i] for of_side in repairs) for i in (0, 1))
    return sent, again, any(side["bytes"] == [] for side in sides)


def lossy(found: Iterable[Pair], device: str, health: Mapping[str, Any]) -> list[str]:
    """Links that lose data, one line for each node or pair.

    A node may send again the share that ``counters.yaml`` or the partition states, a single pair
    :data:`ALONE` times this share.

    :param device: the network device; that of verbs has a port (``mlx5_0:1``).
    :param health: the extra of the partition.
    """
    row = counters.rows()["packets_resent" if ":" in device else "segments_resent"]
    limit = row.at_most(health) or 0.0
    shares: dict[tuple[str, str], list[int]] = {}
    for pair in found:
        total = shares.setdefault((min(pair.a, pair.b), max(pair.a, pair.b)), [0, 0])
        total[0] += pair.sent
        total[1] += pair.again
    of = {ends: again / sent for ends, (sent, again) in shares.items() if sent}
    bad = {ends for ends, share in of.items() if share > limit}
    if len(bad) == len(of) > 1:
        return [f"all pairs: {_share(shares, bad)}"]
    lines: list[str] = []
    for node in sorted({node for ends in of for node in ends}):
        met = {ends for ends in of if node in ends}
        if len(met) > 1 and met <= bad:
            said = f"{node}: {_share(shares, met)}, with every other node"
            lines.append(Against(said, [node], How.LOSSY))
            bad -= met
    alone = sorted(ends for ends in bad if of[ends] > ALONE * limit)
    return lines + [
        Against(f"{a} - {b}: {_share(shares, [(a, b)])}", (a, b), How.LOSSY) for a, b in alone
    ]


def _share(shares: Mapping[tuple[str, str], list[int]], ends: Iterable[tuple[str, str]]) -> str:
    sent, again = (sum(shares[pair][i] for pair in ends) for i in (0, 1))
    return f"{again} of {sent} segments were sent again ({again / sent:.2%})"


def value(test: Test, text: str) -> float:
    """What one launch measured, in the unit of the test, from the output of ucx_perftest.

    :raises ParseError: it has no such value.
    """
    parsed = ucx_perftest.parse_ucx_perftest(text)
    if not parsed.sound:
        raise ParseError("; ".join(parsed.problems) or "the output is incomplete")
    quantity = parsed.quantity(test.column)
    if quantity.unit != test.unit or not quantity.value > 0:
        raise ParseError(f"{test.column} is {quantity.value} {quantity.unit}")
    return float(quantity.value)


def uncrossed(size: int, said: Mapping[str, Any]) -> Iterator[str]:
    """A line for each device whose counter shows fewer bytes than were sent.

    :param size: of a message [B].
    :param said: one run of :mod:`assay.fleet.node.pairs`.
    """
    needed = said["iterations"] * size
    for role, direction, done in (("client", 1, "sent"), ("server", 0, "received")):
        counted = said[role]["bytes"]
        if counted is None:
            yield f"the {role}'s network device counts no bytes"
        elif counted and counted[direction] < needed:
            yield (
                f"{needed} B were sent, but the {role}'s network device has {done} "
                f"{counted[direction]} B"
            )


def known_fabric(said: Mapping[str, Any] | None, nodes: Sequence[str]) -> Fabric | None:
    """The network of a plan for nodes as they name themselves; None if it lacks one of them."""
    fabric = None if said is None else fabric_of(said, nodes)
    return None if fabric is None or fabric.lacking(nodes) else fabric


def fabric_of(said: Mapping[str, Any], nodes: Sequence[str]) -> Fabric:
    """The network of a plan, with the nodes as they name themselves."""
    known = {short_name(node): node for node in nodes}
    switches = {
        switch: [known.get(node, node) for node in there]
        for switch, there in said["switches"].items()
    }
    return Fabric(switches, said["trunks"])


def tournament_of_job(plan_file: str, log_file: str) -> tuple[dict[str, Any], CoordinatorLog]:
    """The plan and the log of a job that runs."""
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    return plan, read_coordinator_log(log_file)


def draw(plan_file: str, log_file: str) -> dict[str, Any]:
    """The rounds of a sparse tournament as pairs of ranks; half within switches that are known."""
    plan, log = tournament_of_job(plan_file, log_file)
    limit, nodes = plan["sparse"], log.nodes
    fabric = known_fabric(plan.get("topology"), nodes)
    if fabric is None:
        return {"again": False, "rounds": schedule.rounds(len(nodes), limit)}
    return {"again": False, "rounds": schedule.by_switch(fabric.leaves(nodes), limit)}


def advice(plan_file: str, log_file: str) -> dict[str, Any]:
    """What to do next: ``again``, and the ``rounds`` of the second pass as pairs of ranks."""
    plan, log = tournament_of_job(plan_file, log_file)
    fabric = known_fabric(plan.get("topology"), log.nodes)
    found = [p for p in proven_pairs(log, plan["transport"], plan["ucx_version"]) if p.number]
    diagnosis = diagnose(log.nodes, pair_metrics(plan["tolerances"]), found, fabric)
    number = {name: rank for rank, name in enumerate(log.nodes)}
    again = second_pass(diagnosis, fabric)
    return {
        "again": diagnosis.verdict is Verdict.INCONCLUSIVE,
        "rounds": [[(number[a], number[b]) for a, b in pairs] for pairs in again],
    }
