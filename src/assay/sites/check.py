"""``assay check -C FILE``: what the suite would run on each partition of a configuration.

The cases come from the list of the suite, so nothing is loaded but the configuration.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reframe.core.exceptions import ReframeError

from assay import catalogue, files, sites
from assay.exits import Exit
from assay.reframe_compat.selection import PLACES
from assay.sites import foreign, listing
from assay.store import promise
from assay.store.promise import Listed, Site

#: How many tests, and how many words that would select more, a line names.
NAMED = 6

#: Extra -> words of a place or of its stack whose cases are skipped without it.
NEEDED = {
    "network_device": ("inter-node", "tcp"),
    "directory": ("storage",),
    "memory_bytes": ("hpl", "hpcc"),
    "memory_fraction": ("hpl", "hpcc"),
    "ucx_version": ("mpi", "ucx"),
}


def command(args: argparse.Namespace) -> int:
    """Runs ``assay check``; returns the exit code."""
    file = args.config.resolve()
    try:
        listed = promise.cases(files.repository(file.parent) / "reframe" / promise.CASES)
        with listing.leaving_no_results():
            config = foreign.load([file])
    except (ReframeError, promise.PromiseError) as error:
        print(f"assay check: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    systems = foreign.sections(config)["systems"]
    words = sites.found_on.get(file, (None, ()))[0]
    if args.system or words:
        name = args.system or systems[0]["name"]
        systems = [system for system in systems if system["name"] == name]
    if not systems:
        print(f"assay check: {file} has no system {args.system!r}", file=sys.stderr)
        return Exit.USAGE
    cases = 0
    for system in systems:
        print(f"system {system['name']}")
        here = words or _plain(system, config["environments"])
        stacks = {each["name"]: each for each in config["environments"] if each.get("features")}
        unknown: dict[str, list[str]] = {}
        for partition in system["partitions"]:
            number, lines = described(partition, here, listed)
            cases += number
            print("".join(f"  {line}\n" for line in lines), end="")
            for what in _unknown(partition, [stacks.get(e, {}) for e in partition["environs"]]):
                unknown.setdefault(what, []).append(partition["name"])
        for what, names in unknown.items():
            print(f"  {', '.join(names)}: add {what}")
    for line in sites.left_out.get(file, ()):
        print(f"  {line}")
    if not cases:
        do = "say what its places and stacks have in assay.yaml"
        print(f"nothing of Assay runs here: {do} (assay site new NAME --from FILE writes it)")
    return Exit.PASS if cases else Exit.FAIL


def _plain(system: Mapping[str, Any], environments: Iterable[Mapping[str, Any]]) -> Site:
    """The words of a system that has none of Assay's on purpose."""
    places = system["partitions"]
    return Site(
        {p["name"]: frozenset(p.get("features", ())) for p in places},
        {p["name"]: frozenset(p["environs"]) for p in places},
        {e["name"]: frozenset(e.get("features", ())) & {*catalogue.WORDS} for e in environments},
    )


def described(
    partition: Mapping[str, Any], site: Site, listed: Sequence[Listed]
) -> tuple[int, list[str]]:
    """What the suite would run on a partition: the number of cases, and lines."""
    name = partition["name"]
    features = site.partitions.get(name, frozenset())
    if not features & {*PLACES}:
        return 0, [f"{name}: nothing, it has none of {', '.join(PLACES)}"]
    cases, lines = 0, []
    for stack in sorted(site.environs[name]):
        tests: Counter[str] = Counter()
        more: Counter[str] = Counter()
        for one in listed:
            lost = one.lacks(features, site.stacks.get(stack, frozenset()))
            if lost == ():
                tests[one.name.split()[0]] += 1
            elif lost:
                more[" ".join(lost)] += 1
        cases += sum(tests.values())
        said = f"{sum(tests.values())} cases of {len(tests)} tests" if tests else "nothing"
        lines.append(f"{name}, stack {stack}: {said}{_few(tests)}")
        if more:
            lines.append(f"{name}, stack {stack}: these words would add cases{_few(more)}")
    return cases, lines


def _few(counted: Counter[str]) -> str:
    each = [f"{word} ({number})" for word, number in counted.most_common()]
    return f": {', '.join(promise.few(each, NAMED))}" if each else ""


def _unknown(partition: Mapping[str, Any], stacks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What tests need to know of a place and nobody says: how to say it."""
    words, extras = {*partition.get("features", ())}, {*partition.get("extras", {})}
    if not words & {*PLACES}:
        return
    for stack in stacks:
        words |= {*stack.get("features", ())}
        extras |= {*stack.get("extras", {})}
    if not (partition.get("processor") or {}).get("num_cpus"):
        yield "set: {processor: {num_cpus: 128, num_cpus_per_core: 1}}, with your numbers"
    if "gpu" in words and not partition.get("devices"):
        yield "set: {devices: [{type: gpu, num_devices: 4}]}, with your number"
    for extra, of in NEEDED.items():
        # A stack that states another MPI by the extra mpi has no cases over its UCX.
        skipped = [word for word in of if word in words and not {extra, word} & extras]
        if skipped:
            yield f"the extra {extra}, without which cases of {' and '.join(skipped)} are skipped"
