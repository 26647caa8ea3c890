"""The promise of a site: the cases that must run there, and the skips that are allowed.

``site-config/<site>/expected.yaml`` holds it. ``assay expect`` writes the file from a dry run of
the suite; a person reviews it and commits it. A run compares its cases with the file before the
first case starts. A missing case, a case that the file does not know, and a skip that it does not
list make the run red. A run that was narrowed on purpose, for example by ``-n``, is PARTIAL.

A site that describes itself has other programs and transports on each machine. Its file states
which words each case needs, and :class:`Found` states which words this machine lacks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay import files
from assay.evidence.plan import Call
from assay.results.cases import Case

FILE = "expected.yaml"

PROFILES = ("full", "smoke")

#: Values of the site's word ``nothing_judged``: whether a run that judged no metric is red.
NOTHING_JUDGED = ("red", "allowed")

#: Least share of an earlier acceptance that a later one must reach, unless the site states another
#: by its word ``reacceptance``.
REACCEPTANCE = 0.9

#: How many lines name single tests; the rest is counted.
NAMED = 12

#: Least number of letters in the reason of an allowed skip, without its stars.
LETTERS = 5

#: Start of the line about skips that no entry allows.
REFUSED = "skip not allowed"

#: The words of the file that are the site's own; ``assay expect`` keeps them.
OWN_WORDS = ("nothing_judged", "reacceptance", "may_skip", "grows")

#: The keys of an entry of ``tests`` that are not parameters, and those of an entry of the skips.
_KEYS = frozenset(["cases", "needs", *PROFILES])
_SKIP_KEYS = frozenset(["test", "at", "why", "partial"])


class PromiseError(Exception):
    """The file is refused; the message is one line with the file, the place and the remedy."""


@dataclass(frozen=True)
class Found:
    """A machine that describes itself.

    :ivar stacks: the stacks of each partition.
    :ivar lacks: partition or stack -> the words that a sound probe did not find. A word whose probe
        failed is not here, so its cases remain promised.
    :ivar words: partition -> the words that are looked for on a machine.
    :ivar any_stack: the programs of the stacks are looked for as well.
    :ivar optional: partitions that such a machine may lack, for example a link between nodes.
    :ivar problems: probes that failed, one line each.
    """

    stacks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lacks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    any_stack: bool = True
    optional: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """The cases of one test in one place.

    :ivar on: ``partition+stack``, or only the partition if the stack is looked for on the machine.
    :ivar counts: number of cases by profile.
    :ivar values: the values of each parameter, in the full profile.
    :ivar needs: alternatives; each is words in a line, and ``-word`` must be absent. A word
        ``{parameter}`` stands for the value of the parameter; each value has equally many cases.
    """

    on: str
    test: str
    counts: Mapping[str, int]
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def within(self, lacking: frozenset[str]) -> Entry:
        """The part of the entry that is promised where these words are missing."""
        if not self.needs:
            return self
        by = next(iter(re.findall(r"\{(\w+)\}", " ".join(self.needs))), None)
        if by is None:
            there = any(_satisfied(need, lacking) for need in self.needs)
            return self if there else Entry(self.on, self.test, {})
        kept = tuple(
            value
            for value in self.values[by]
            if any(_satisfied(need.replace(f"{{{by}}}", value), lacking) for need in self.needs)
        )
        share = len(kept), len(self.values[by])
        counts = {name: count * share[0] // share[1] for name, count in self.counts.items()}
        return Entry(self.on, self.test, counts, {**self.values, by: kept} if kept else {})


def _satisfied(need: str, lacking: frozenset[str]) -> bool:
    words = need.split()
    return all(w[1:] in lacking if w.startswith("-") else w not in lacking for w in words)


@dataclass(frozen=True)
class Skip:
    """Cases that may be skipped.

    :ivar tests: names of tests; ``*`` for all.
    :ivar on: as for :class:`Entry`; empty for all places.
    :ivar values: the cases with these values of parameters; empty for all.
    :ivar why: the reason; ``*`` stands for any text.
    :ivar partial: a run with such a skip is PARTIAL, because the machine is too small for it.
    """

    tests: tuple[str, ...]
    why: str
    on: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    partial: bool = False

    def allows(self, case: Case) -> bool:
        """Whether the case was skipped for this reason."""
        return (
            ("*" in self.tests or case.test in self.tests)
            and (not self.on or bool({case.partition, _place(case)} & {*self.on}))
            and all(case.parameters.get(name) in known for name, known in self.values.items())
            and _fits(case.why, self.why)
        )


def _fits(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern with ``*`` for any text, in linear time."""
    first, *others = pattern.split("*")
    if not others:
        return text == first
    *middle, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


@dataclass(frozen=True)
class Promise:
    """The content of the file.

    :ivar grows: tests that have more cases on a larger machine -> the values of the parameters of
        those cases that every machine has. Others are not compared.
    :ivar reacceptance: least share of the performance of an earlier acceptance.
    """

    file: str
    entries: tuple[Entry, ...]
    skips: tuple[Skip, ...]
    nothing_judged: str
    grows: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    reacceptance: float = REACCEPTANCE

    def counts(self, case: Case) -> bool:
        """Whether the case is compared with the promise."""
        known = self.grows.get(case.test, {})
        return all(case.parameters.get(name) in values for name, values in known.items())


@dataclass(frozen=True)
class Kept:
    """How the cases of a run compare with the promise.

    :ivar promised: number of promised cases.
    :ivar there: number of promised cases that the run has.
    :ivar missing: what it lacks, one line for each test and place.
    :ivar unknown: the cases that the promise does not know, in the same form.
    """

    promised: int
    there: int
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def faults(self, file: str) -> Iterator[str]:
        """What is wrong with a complete run, one line each."""
        if self.missing:
            lost = self.promised - self.there
            yield f"{lost} of {self.promised} promised cases are missing: {_named(self.missing)}"
        if self.unknown:
            yield (
                f"{file} does not promise {_named(self.unknown)}; review the change, and type "
                "assay expect"
            )


def load(path: Path) -> Promise:
    """Read the file.

    :raises PromiseError: the file cannot be read or is not valid.
    """
    make = f"type assay expect --site {path.parent.name}"
    hint = f": nothing says which cases must run; {make}, review the file and commit it"
    raw = files.read_yaml(path, PromiseError, hint=hint)
    try:
        return of(str(path), raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PromiseError(f"{path}: not a promise ({error}); {make}") from None


def of(file: str, raw: Any) -> Promise:
    """The promise that the content of a file states.

    :raises ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    if unknown := sorted(set(raw) - {*OWN_WORDS, "cases", "skips"}):
        raise ValueError(f"unknown key {unknown[0]!r}")
    word = raw.get("nothing_judged", NOTHING_JUDGED[0])
    if word not in NOTHING_JUDGED:
        raise ValueError(f"nothing_judged is {word!r}, not {' or '.join(NOTHING_JUDGED)}")
    share = raw.get("reacceptance", REACCEPTANCE)
    if type(share) not in (int, float) or not 0 < share <= 1:
        raise ValueError(f"reacceptance is {share!r}, not a share above 0, at most 1, such as 0.9")
    entries = [
        _entry(on, test, one)
        for group in raw["cases"]
        for on in group["at"]
        for test, said in group["tests"].items()
        for one in (said if isinstance(said, list) else [said])
    ]
    skips = [skip(one) for key in ("may_skip", "skips") for one in raw.get(key) or ()]
    for one in skips:
        if sum(map(str.isalpha, one.why)) < LETTERS:
            raise ValueError(
                f"the skip of {', '.join(one.tests)} for {one.why!r} allows nearly any reason; "
                "write the words of the reason"
            )
    grows = {test: _values(said, frozenset()) for test, said in raw.get("grows", {}).items()}
    for test, values in grows.items():
        if entries and not {*values} <= {n for e in entries if e.test == test for n in e.values}:
            raise ValueError(f"grows: {test} has no case with {', '.join(values)}")
    return Promise(file, tuple(entries), tuple(skips), word, grows, float(share))


def _entry(on: str, test: str, said: Any) -> Entry:
    if isinstance(said, int):
        said = {"cases": said}
    counts = {name: int(said.get(name, said.get("cases", 0))) for name in PROFILES}
    if not any(counts.values()) or min(counts.values()) < 0:
        raise ValueError(f"{test} on {on} states no number of cases")
    return Entry(on, test, counts, _values(said, _KEYS), tuple(said.get("needs", ())))


def skip(said: Mapping[str, Any]) -> Skip:
    """An allowed skip, as the file and the plan of a session write it."""
    return Skip(
        _texts(said["test"]), str(said["why"]), _texts(said.get("at", ())),
        _values(said, _SKIP_KEYS), bool(said.get("partial", False)),
    )  # fmt: skip


def skip_as_json(one: Skip) -> dict[str, Any]:
    """The inverse of :func:`skip`."""
    values = {name: list(known) for name, known in one.values.items()}
    at = {"at": list(one.on)} if one.on else {}
    partial = {"partial": True} if one.partial else {}
    return {"test": list(one.tests), **at, **values, "why": one.why, **partial}


def _texts(said: Any) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(map(str, said))


def _values(said: Mapping[str, Any], keys: frozenset[str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(map(str, known)) for name, known in said.items() if name not in keys}


def compare(
    promise: Promise, planned: Iterable[Case], profile: str, found: Found | None = None
) -> Kept:
    """Compare the cases of a run with those that must run.

    :param planned: all cases of the run, by their names.
    :param profile: ``smoke`` or ``full``.
    :param found: the machine, if the site describes itself.
    """
    expected: dict[tuple[str, str], list[Entry]] = {}
    for entry in promise.entries:
        for where, lacking in _places(entry.on, found):
            part = entry.within(lacking)
            if part.counts.get(profile):
                expected.setdefault((where, part.test), []).append(part)
    there: dict[tuple[str, str], list[Case]] = {}
    for case in filter(promise.counts, planned):
        there.setdefault((_place(case), case.test), []).append(case)
    missing, unknown, kept = [], [], 0
    for where, test in sorted({*expected, *there}):
        entries, cases = expected.get((where, test), []), there.get((where, test), [])
        wanted = sum(entry.counts[profile] for entry in entries)
        kept += min(wanted, len(cases))
        known = _all_values(entries)
        seen = _all_values_of(cases)
        lost = _difference(known, seen) if profile == "full" and cases else []
        if len(cases) < wanted or lost:
            without = f", without {', '.join(lost)}" if lost else ""
            missing.append(f"{test} on {where}: {len(cases)} of {wanted}{without}")
        new = _difference(seen, known) if entries else []
        if len(cases) > wanted or new:
            with_ = f", with {', '.join(new)}" if new else ""
            unknown.append(f"{test} on {where}: {len(cases)} in place of {wanted}{with_}")
    promised = sum(e.counts[profile] for entries in expected.values() for e in entries)
    return Kept(promised, kept, tuple(missing), tuple(unknown))


def _places(on: str, found: Found | None) -> list[tuple[str, frozenset[str]]]:
    """The places that an entry holds for, each with the words that it lacks."""
    partition, _, stack = on.partition("+")
    if found is None:
        return [(on, frozenset())]
    if partition not in found.stacks:
        return [] if partition in found.optional else [(on, frozenset())]
    here = found.lacks.get(partition, frozenset())
    stacks = [stack] if stack else found.stacks[partition]
    return [(f"{partition}+{name}", here | found.lacks.get(name, frozenset())) for name in stacks]


def _place(case: Case) -> str:
    return f"{case.partition}+{case.environ}"


def _all_values(entries: Iterable[Entry]) -> dict[str, set[str]]:
    return _union(entry.values.items() for entry in entries)


def _all_values_of(cases: Iterable[Case]) -> dict[str, set[str]]:
    return _union([(name, (value,)) for name, value in case.parameters.items()] for case in cases)


def _union(many: Iterable[Iterable[tuple[str, Iterable[str]]]]) -> dict[str, set[str]]:
    union: dict[str, set[str]] = {}
    for items in many:
        for name, values in items:
            union.setdefault(name, set()).update(values)
    return union


def _difference(one: Mapping[str, set[str]], other: Mapping[str, set[str]]) -> list[str]:
    return [
        f"{name}={value}"
        for name, values in sorted(one.items())
        for value in sorted(values - other.get(name, set()))
    ]


def unlisted(skips: Sequence[Skip], cases: Iterable[Case]) -> tuple[list[str], list[str]]:
    """The skips that no entry allows, and the allowed ones that make a run PARTIAL; as lines.

    :param cases: the cases that were skipped; ``why`` holds the reason.
    """
    refused: Counter[tuple[str, str]] = Counter()
    partial: Counter[str] = Counter()
    for case in cases:
        allowed = [one for one in skips if one.allows(case)]
        if not allowed:
            refused[case.why, case.test] += 1
        elif any(one.partial for one in allowed):
            partial[case.why] += 1
    reasons: dict[str, list[str]] = {}
    for (why, test), number in refused.items():
        reasons.setdefault(why, []).append(f"{number} of {test}")
    return (
        [f"{REFUSED}: {why}: {', '.join(tests)}" for why, tests in reasons.items()],
        [f"{number} skipped: {why}" for why, number in partial.items()],
    )


def few(lines: Sequence[str]) -> tuple[str, ...]:
    """The first lines, and how many more there are."""
    more = len(lines) - NAMED
    return (*lines[:NAMED], *([f"and {more} more"] if more > 0 else []))


def _named(lines: Sequence[str]) -> str:
    return "; ".join(few(lines))


def state(
    path: Path,
    found: Found | None,
    call: Call,
    planned: Iterable[Case],
    profile: str,
) -> dict[str, Any]:
    """How the cases of a run compare with the promise, as JSON for the plan of the run.

    :param path: the file of the site.
    :param call: how the call of ReFrame differs from the plan of the site.
    """
    faults = list(found.problems if found else ())
    narrowed = call.selected or call.other_cases
    said: dict[str, Any] = {
        "file": str(path),
        "narrowed": list(call.selected),
        "changed": list(call.changed),
        "given": list(call.given),
    }
    try:
        promise = load(path)
    except PromiseError as error:
        return {**said, "faults": faults if narrowed else [*faults, str(error)]}
    kept = compare(promise, planned, profile, found)
    return {
        **said,
        "faults": faults if narrowed else [*faults, *kept.faults(path.name)],
        "promised": kept.promised,
        "there": kept.there,
        "nothing_judged": promise.nothing_judged,
        "skips": [skip_as_json(one) for one in promise.skips],
    }


def narrowing(state: Mapping[str, Any]) -> list[str]:
    """Why a run has a part of the cases only, by its options, as lines."""
    if not state.get("narrowed"):
        return []
    chosen = f"selected by {', '.join(state['narrowed'])}"
    if "promised" not in state:
        return [chosen]
    return [f"{state['there']} of {state['promised']} promised cases {chosen}"]


def changes(state: Mapping[str, Any]) -> list[str]:
    """Why a run is not that of the site's plan, by its options, as lines."""
    return [
        f"{option} is not in the plan of the site and may change what is measured: leave it out, "
        "or put it into the site"
        for option in state.get("changed", ())
    ]
