"""``assay sites`` and ``assay check``: what would run on a site, what is missing, what a test is.

A configuration is loaded as ReFrame would. The cases come from the list of the suite.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from reframe.core.config import load_config
from reframe.core.exceptions import ConfigError, ReframeError

from assay import files, sites
from assay.describe import foreign
from assay.exits import Exit
from assay.judge import References, ReferencesError
from assay.judge.reference_files import listed
from assay.judge.references import describe
from assay.reframe_compat.selection import PLACES
from assay.run.job_request import EMPTY, Request
from assay.store import promise
from assay.store.promise import Listed
from assay.store.words import Site

#: Extra -> words of a place or of its stack whose cases are skipped without it, or fail. A place
#: for files alone runs no program over its processors.
NEEDED = {
    "network_device": ("inter-node", "tcp"),
    "directory": ("storage",),
    "memory_bytes": ("hpl", "hpcc"),
    "memory_fraction": ("hpl", "hpcc"),
    "ucx_version": ("mpi", "ucx"),
    "osu_version": ("osu",),
}


def find(folder: Path) -> list[Path]:
    """The ``reframe.py`` of each site below a ``site-config`` folder, by name."""
    return sorted(folder.glob("*/reframe.py"))


@contextlib.contextmanager
def leaving_no_results() -> Iterator[None]:
    """Loading a site creates its results directory. Nothing is run here, so none is left."""
    kept = os.environ.get("ASSAY_RESULTS")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["ASSAY_RESULTS"] = scratch
        try:
            yield
        finally:
            os.environ.pop("ASSAY_RESULTS")
            os.environ.update({"ASSAY_RESULTS": kept} if kept is not None else {})


def words_found(site_file: Path) -> tuple[Site, list[str]]:
    """The words that a site has on this machine.

    The second value names the stack if ``ASSAY_STACK`` leaves out others of the site.

    :raises reframe.core.exceptions.ReframeError: the configuration is not valid, or is not of
        Assay.
    """
    with leaving_no_results():
        load_config("<builtin>", str(site_file))
    if words := sites.found_on.get(site_file.resolve()):
        return words
    raise ConfigError(
        f"{site_file}: has no words of Assay that could be promised: make its site_configuration "
        "by assay.sites, see docs/adding-a-site.md"
    )


def run_sites(args: argparse.Namespace) -> int:
    found = {path.parent.name: path for path in find(args.folder)}
    if not found:
        print(f"{args.folder}: no site here; run from the repository, or give --folder",
              file=sys.stderr)  # fmt: skip
        return Exit.UNKNOWN
    if unknown := [name for name in args.names if name not in found]:
        print(f"unknown site {unknown[0]!r}; known are {', '.join(found)}", file=sys.stderr)
        return Exit.USAGE
    bad = 0
    for name in args.names or found:
        try:
            _, lines, _ = selected_cases(found[name].resolve())
            judged = References.load(found[name].with_name("references.yaml"))
            more = f"rules to record: {judged.recorded}"
            lines.append(f"references: {judged.judged} metrics judged, {more}")
        except (ReframeError, ReferencesError, promise.PromiseError) as error:
            bad += 1
            lines = [f"REFUSED: {error}"]
        print(name)
        print("".join(f"  {line}\n" for line in lines), end="")
    return Exit.FAIL if bad else Exit.PASS


def check_site(args: argparse.Namespace) -> int:
    try:
        if args.test:
            print(*of_test(args.test, args.config), sep="\n")
            return Exit.PASS
        if not args.config:
            raise argparse.ArgumentError(None, "name a test, or a configuration by -C FILE")
        cases, lines, empty = selected_cases(args.config.resolve(), args.system)
    except argparse.ArgumentError as error:
        print(f"assay check: {error}", file=sys.stderr)
        return Exit.USAGE
    except (ReframeError, ReferencesError, promise.PromiseError) as error:
        print(f"assay check: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    print(*lines, sep="\n")
    if not cases:
        do = "say what its places and stacks have in assay.yaml"
        print(f"nothing of Assay runs here: {do} (assay site new NAME --from FILE writes it)")
    if empty:
        print("resources are empty: fill them, or give the place resources without them")
    return Exit.PASS if cases and not empty else Exit.FAIL


def of_test(test: str, config: Path | None) -> Iterator[str]:
    """The head of the file of a test, and each line of the references of a site that judges it.

    :raises argparse.ArgumentError: there is no such test.
    """
    heads: dict[str, str] = {}
    for path in files.SUITE.glob("reframe/*/*.py"):
        module = ast.parse(path.read_text(encoding="utf-8"))
        text = f"{os.path.relpath(path)}\n\n{ast.get_docstring(module)}\n"
        heads.update({n.name: text for n in module.body if isinstance(n, ast.ClassDef)})
    if test not in heads:
        raise argparse.ArgumentError(None, f"no test {test!r}; {files.nearest(test, heads)}")
    yield heads[test]
    beside = config.resolve().with_name("references.yaml") if config else None
    for path in References.load(beside).files if beside else ():
        yield from _judging(test, path) if path.exists() else ()


def _judging(test: str, path: Path) -> Iterator[str]:
    """The lines of a file of references that judge a test or say why not, each with its place."""
    text = path.read_text(encoding="utf-8")
    said, tree = yaml.safe_load(text), yaml.compose(text, yaml.SafeLoader)
    nodes = {key.value: value for key, value in tree.value} if tree else {}
    for kind, part in (("references", "metrics"), ("recorded", "why")):
        for entry, node in zip(said.get(kind) or (), nodes[kind].value if kind in nodes else ()):
            blocks = [entry["for"], *(each["for"] for each in entry.get("also", ()))]
            for block in (b for b in blocks if {test, "*"} & {*listed(b.get("test", "*"))}):
                inside = next(value for key, value in node.value if key.value == part)
                for at in [key for key, _ in inside.value] if part == "metrics" else [inside]:
                    where = f"{os.path.relpath(path)}:{at.start_mark.line + 1}"
                    line = text.splitlines()[at.start_mark.line].strip()
                    yield f"{where}: {describe(block)}: {line}"


def selected_cases(file: Path, name: str | None = None) -> tuple[int, list[str], list[str]]:
    """What would run on the systems of a configuration, or on one.

    :returns: the number of cases; lines about them; those of them that name an empty resource.
    :raises ReframeError, promise.PromiseError: a file cannot be read, or there is no such system.
    """
    listed = promise.cases(files.repository(file.parent) / "reframe" / promise.CASES)
    with leaving_no_results():
        config = foreign.load_foreign([file])
    systems = foreign.sections(config)["systems"]
    if name or file in sites.found_on:
        systems = [foreign.system_named(config, name or systems[0]["name"], str(file))]
    cases, lines, empty = 0, [], []
    for system in systems:
        lines.append(f"system {system['name']}")
        # No test selects a stack without features.
        stacks = {each["name"]: each for each in config["environments"] if each.get("features")}
        unknown: dict[str, list[str]] = {}
        lacking: dict[str, list[str]] = {}
        for partition in system["partitions"]:
            number, said = describe_partition(partition, stacks, listed)
            cases += number
            lines += [f"  {line}" for line in said]
            theirs = [stacks.get(each, {}) for each in partition["environs"]]
            for what in _unknown(partition, theirs):
                unknown.setdefault(what, []).append(partition["name"])
            for each in unfilled(partition, theirs) if number else ():
                lacking.setdefault(EMPTY.format(*each), []).append(partition["name"])
        lines += [f"  {', '.join(names)}: add {what}" for what, names in unknown.items()]
        empty += [f"  {', '.join(names)}: {what}" for what, names in lacking.items()]
    return cases, [*lines, *empty, *(f"  {line}" for line in sites.left_out.get(file, ()))], empty


def unfilled(
    partition: Mapping[str, Any], stacks: Iterable[Mapping[str, Any]] = ({},)
) -> dict[tuple[str, str], None]:
    """The resources of accounts that stay empty, each with the extras that would fill it."""
    request = Request(
        scheduler=partition["scheduler"], access=partition.get("access", ()), own=(),
        resources={r["name"]: r.get("options", ()) for r in partition.get("resources", ())},
        extras=partition.get("extras", {}), processes=1, nodes=1,
    )  # fmt: skip
    empty = (request.accounts(stack.get("resources", {}))[1] for stack in stacks)
    return dict.fromkeys(each for of_stack in empty for each in of_stack)


def describe_partition(
    partition: Mapping[str, Any], stacks: Mapping[str, Any], listed: Sequence[Listed]
) -> tuple[int, list[str]]:
    """What the suite would run on a partition: the number of cases, and lines."""
    name, features = partition["name"], frozenset(partition.get("features", ()))
    if not features & {*PLACES}:
        return 0, [f"{name}: nothing, it has none of {', '.join(PLACES)}"]
    cases, lines = 0, []
    for stack in sorted(partition["environs"]):
        programs = frozenset(stacks.get(stack, {}).get("features", ()))
        tests: Counter[str] = Counter()
        more: Counter[str] = Counter()
        for one in listed:
            lost = one.lacks(features, programs)
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
    return f": {', '.join(promise.few(each, 6))}" if each else ""


def _unknown(partition: Mapping[str, Any], stacks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What tests need to know of a place and nobody says: how to say it."""
    words, extras = {*partition.get("features", ())}, {*partition.get("extras", {})}
    if not words & {*PLACES}:
        return
    for stack in stacks:
        words |= {*stack.get("features", ())}
        extras |= {*stack.get("extras", {})}
    if not (partition.get("processor") or {}).get("num_cpus"):
        yield "processor: {num_cpus: 128, num_cpus_per_core: 1}, with your numbers"
    if "gpu" in words and not partition.get("devices"):
        yield "devices: [{type: gpu, num_devices: 4}], with your number"
    for extra, of in NEEDED.items():
        if extra.startswith("memory_") and not words & {"intra-node", "inter-node"}:
            continue
        # A stack that states another MPI by the extra mpi has no cases over its UCX.
        skipped = [word for word in of if word in words and not {extra, word} & extras]
        if skipped:
            yield f"the extra {extra}, without which no case of {' and '.join(skipped)} passes"
