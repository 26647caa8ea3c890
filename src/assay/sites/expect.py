"""``assay expect``: writes ``expected.yaml`` of a site from a dry run of the suite there."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from reframe.core.exceptions import ReframeError

from assay import catalogue, files, sites
from assay.results import promise, session
from assay.results.cases import Case
from assay.results.promise import PROFILES, PromiseError
from assay.sites import ideal, listing

HEAD = """\
# The cases that must run on this site, and the skips that are allowed: docs/sites.md explains the
# file. The sections `cases` and `skips` are of `assay expect --site {site}`; review what changes.
"""

#: Where a line of the file is broken: after the first word beyond it.
WIDTH = 90


@dataclass(frozen=True)
class Planned:
    """A case of the dry run.

    :ivar on: where it is promised: ``partition+stack``, or the partition.
    :ivar needs: alternatives of words that it needs of a machine.
    :ivar smoke: whether the smoke profile has it, too.
    """

    case: Case
    on: str
    needs: tuple[str, ...] = ()
    smoke: bool = False


def command(args: argparse.Namespace) -> int:
    """Write the file, or with ``--check`` compare with it; returns the exit code."""
    site_file = args.folder / args.site / "reframe.py"
    if not site_file.is_file():
        known = ", ".join(path.parent.name for path in listing.find(args.folder)) or "none"
        print(f"assay expect: no site {args.site!r}; known are {known}", file=sys.stderr)
        return 2
    path = site_file.with_name(promise.FILE)
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        text = of_site(site_file, files.read_yaml(path, PromiseError) if before else {})
    except (PromiseError, session.ReportError, ReframeError, OSError) as error:
        print(f"assay expect: {error}", file=sys.stderr)
        return 2
    same = text == before
    if args.check:
        said = "is current" if same else f"is not current; type assay expect --site {args.site}"
        print(f"{path}: {said}")
        return 0 if same else 1
    if not same:
        files.write(path, text)
    print(f"{path}: {'has it already' if same else 'written; review it, and commit it'}")
    return 0


def of_site(site_file: Path, words: Mapping[str, Any]) -> str:
    """The content of the file.

    :param words: the present content. The site's own words in it are kept.
    :raises PromiseError: the dry run ended without a report.
    :raises ReframeError: the site is refused.
    """
    before_it = promise.of(str(site_file), {"cases": [], **words})
    before = os.environ.get(ideal.VARIABLE)
    os.environ[ideal.VARIABLE] = "1"
    try:
        with tempfile.TemporaryDirectory() as scratch:
            os.environ["ASSAY_RESULTS"], kept = scratch, os.environ.get("ASSAY_RESULTS")
            try:
                configuration, _ = listing.load(site_file)
                found, _ = listing.found(site_file)
                every = _planned(site_file, "full", found, Path(scratch))
                every = [one for one in every if before_it.counts(one.case)]
                runs = {"full": every, "smoke": [one for one in every if one.smoke]}
                # Only what a partition says about its smoke profile skips cases of this profile.
                if any(
                    "smoke" in partition.get("extras", ())
                    for system in configuration["systems"]
                    for partition in system["partitions"]
                ):
                    every = [*every, *_planned(site_file, "smoke", found, Path(scratch))]
            finally:
                _restore("ASSAY_RESULTS", kept)
    finally:
        _restore(ideal.VARIABLE, before)
    raw = {
        "nothing_judged": words.get("nothing_judged", promise.NOTHING_JUDGED[0]),
        **{name: words[name] for name in promise.OWN_WORDS[1:] if words.get(name)},
        "cases": cases(runs),
        "skips": skips(every, bool(found)),
    }
    return HEAD.format(site=site_file.parent.name) + _yaml(raw)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _planned(
    site_file: Path, profile: str, found: promise.Found | None, scratch: Path
) -> list[Planned]:
    """The cases of a dry run of a profile."""
    results = scratch / profile
    suite = sites.repository(site_file)
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("reframe")),
            *("-C", str(site_file.resolve()), f"--system={site_file.parent.name}"),
            *("-c", "reframe", "-R", "--dry-run"),
            # A mode would repeat the cases that fail, for example where the site is not complete.
            *("-S", f"profile={profile}", *(["--tag=smoke"] if profile == "smoke" else [])),
        ],
        cwd=suite,
        env={
            **{name: text for name, text in os.environ.items() if name != "ASSAY_STACK"},
            **{"ASSAY_RESULTS": str(results), "RFM_COLORIZE": "n", "HOME": str(scratch)},
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    reports = list(results.glob("reports/run-report-*.json"))
    if not reports:
        raise PromiseError(f"{site_file}: the dry run has no case:\n{done.stdout[-2000:]}")
    cases = {(c.unique_name, c.where): c for c in session.load(reports[0]).attempts}
    planned = []
    for entry in json.loads(reports[0].read_text())["runs"][0]["testcases"]:
        if entry["fixture"]:
            continue
        case = cases[entry["unique_name"], session.named(entry).where]
        on, smoke = f"{case.partition}+{case.environ}", "smoke" in entry["tags"]
        if found is None:
            planned.append(Planned(case, on, (), smoke))
            continue
        looked_for = {*found.words.get(case.partition, ())}
        programs = {*catalogue.WORDS} if found.any_stack else set()
        needs = needed(
            _alternatives(entry["valid_systems"], looked_for),
            _alternatives(entry["valid_prog_environs"], programs),
        )
        planned.append(Planned(case, case.partition if found.any_stack else on, needs, smoke))
    # The second stack only lacks a program, so it has most cases of the first one.
    if found:
        unique: dict[tuple[str, str], Planned] = {}
        for one in planned:
            unique.setdefault((one.case.display_name, one.on), one)
        planned = list(unique.values())
    return planned


def _alternatives(expressions: Iterable[str], looked_for: set[str]) -> list[frozenset[str]]:
    """For each expression of a selection: the words in it that are looked for on a machine."""
    return [
        frozenset(
            word.removeprefix("+")
            for word in expression.split()
            if word[0] in "+-" and word[1:] in looked_for
        )
        for expression in expressions
    ]


def needed(systems: Sequence[frozenset[str]], stacks: Sequence[frozenset[str]]) -> tuple[str, ...]:
    """The alternatives of words that a case needs, without those that need more than another."""
    both = {one | other for one in systems for other in stacks}
    least = [one for one in both if not any(other < one for other in both)]
    return () if frozenset() in least else tuple(sorted(" ".join(sorted(one)) for one in least))


def cases(runs: Mapping[str, Sequence[Planned]]) -> list[dict[str, Any]]:
    """The section ``cases``: places with the same tests are one entry."""
    groups: dict[tuple[str, str], dict[str, list[Planned]]] = {}
    for profile, run in runs.items():
        for one in run:
            group = groups.setdefault((one.on, one.case.test), {})
            group.setdefault(profile, []).append(one)
    places: dict[str, dict[str, Any]] = {}
    for (on, test), by_profile in sorted(groups.items()):
        said = _of_test(by_profile)
        places.setdefault(on, {})[test] = said[0] if len(said) == 1 else said
    alike: dict[str, list[str]] = {}
    for on, tests in places.items():
        alike.setdefault(json.dumps(tests), []).append(on)
    return [{"at": places, "tests": json.loads(tests)} for tests, places in alike.items()]


def _of_test(by_profile: Mapping[str, Sequence[Planned]]) -> list[Any]:
    """The entries of a test in one place, one for each set of words that its cases need."""
    groups: dict[tuple[str, ...], dict[str, list[Planned]]] = {}
    for profile, run in by_profile.items():
        for one in run:
            groups.setdefault(_template(one), {}).setdefault(profile, []).append(one)
    entries: list[Any] = []
    for needs, group in sorted(groups.items()):
        by = next(iter(re.findall(r"\{(\w+)\}", " ".join(needs))), None)
        if by is None or _even(group, by):
            entries.append(_entry(needs, group))
            continue
        for value in dict.fromkeys(o.case.parameters[by] for run in group.values() for o in run):
            part = {
                profile: [one for one in run if one.case.parameters[by] == value]
                for profile, run in group.items()
            }
            entries.append(_entry(tuple(n.replace(f"{{{by}}}", value) for n in needs), part))
    return entries


def _template(one: Planned) -> tuple[str, ...]:
    """What a case needs, with ``{parameter}`` for the one word that is the value of a parameter."""
    for name, value in one.case.parameters.items():
        if any(value in need.split() for need in one.needs):
            return tuple(
                " ".join(sorted(f"{{{name}}}" if w == value else w for w in need.split()))
                for need in one.needs
            )
    return one.needs


def _even(group: Mapping[str, Sequence[Planned]], by: str) -> bool:
    """Whether each value of the parameter has equally many cases, in each profile."""
    for run in group.values():
        counts = {value: 0 for full in group.values() for value in
                  (one.case.parameters[by] for one in full)}  # fmt: skip
        for one in run:
            counts[one.case.parameters[by]] += 1
        if len({*counts.values()}) > 1:
            return False
    return True


def _entry(needs: Sequence[str], group: Mapping[str, Sequence[Planned]]) -> Any:
    counts = {profile: len(group.get(profile, ())) for profile in PROFILES}
    every = [one.case for run in group.values() for one in run]
    values = {
        name: list(dict.fromkeys(case.parameters[name] for case in every))
        for name in every[0].parameters
    }
    if not values and not needs and len({*counts.values()}) == 1:
        return counts[PROFILES[0]]
    said: dict[str, Any] = {"needs": list(needs)} if needs else {}
    if len({*counts.values()}) == 1:
        said["cases"] = counts[PROFILES[0]]
    else:
        said |= counts
    return {**said, **values}


def skips(planned: Iterable[Planned], any_machine: bool) -> list[dict[str, Any]]:
    """The section ``skips``: the cases that the dry run skipped, by their reasons.

    :param any_machine: numbers in the reasons depend on the machine.
    """
    every = list(planned)
    groups: dict[tuple[str, str, str], list[Planned]] = {}
    for one in every:
        if one.case.verdict is None and one.case.why not in session.NOT_RUN.values():
            key = one.case.test, _general(one.case, any_machine), one.on
            groups.setdefault(key, []).append(one)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for (test, why, on), group in sorted(groups.items()):
        others = [o for o in every if (o.case.test, o.on) == (test, on) and o not in group]
        values = {}
        for name in group[0].case.parameters:
            here = dict.fromkeys(one.case.parameters[name] for one in group)
            if not {*here} >= {o.case.parameters[name] for o in others}:
                values[name] = list(here)
        said = {"test": test, "at": [], **values, "why": why}
        found.setdefault((test, json.dumps(said)), said)["at"].append(on)
    alike: dict[str, dict[str, Any]] = {}
    for said in found.values():
        same = alike.setdefault(json.dumps({**said, "test": ""}), {**said, "test": []})
        same["test"].append(said["test"])
    return list(alike.values())


def _general(case: Case, any_machine: bool) -> str:
    """A reason for any such case: without its place and its parameters, cut at its details."""
    why = re.split(r" \(|: |; ", case.why)[0]
    cut = why != case.why
    words = {f"{case.system}:{case.partition}", *case.parameters.values()}
    for word in sorted(words, key=len, reverse=True):
        if len(word) > 1 and not word.isdigit():
            why = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", "*", why)
    if any_machine:
        why = re.sub(r"\d+", "*", why)
    return re.sub(r"\*+", "*", why + ("*" if cut else ""))


class _Flow(dict):  # type: ignore[type-arg]
    """A mapping that is written in one line."""


class _FlowList(list):  # type: ignore[type-arg]
    """A list that is written in one line."""


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_Dumper.add_representer(
    _Flow, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, True)
)
_Dumper.add_representer(
    _FlowList, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, True)
)


def _yaml(raw: Mapping[str, Any]) -> str:
    """YAML with one entry on each line."""
    for group in raw["cases"]:
        group["at"] = _FlowList(group["at"])
        group["tests"] = {test: _inline(said) for test, said in group["tests"].items()}
    shaped = {**raw, "skips": [_inline(one) for one in raw["skips"]]}
    if "may_skip" in raw:
        shaped["may_skip"] = [_inline(one) for one in raw["may_skip"]]
    if "grows" in raw:
        shaped["grows"] = {test: _inline(said) for test, said in raw["grows"].items()}
    return yaml.dump(shaped, Dumper=_Dumper, sort_keys=False, width=WIDTH, allow_unicode=True)


def _inline(said: Any) -> Any:
    if isinstance(said, list) and said and isinstance(said[0], dict):
        return [_inline(one) for one in said]
    if isinstance(said, dict):
        return _Flow({k: _FlowList(v) if isinstance(v, list) else v for k, v in said.items()})
    return said
