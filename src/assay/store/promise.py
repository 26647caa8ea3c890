"""The promise: the words that a site has, the cases of the suite, and the skips that are allowed.

``promise.yaml`` of a site promises words: the features of its partitions, their stacks, and the
programs of the stacks. ``reframe/cases.txt`` promises the cases of the suite, each with the words
that select it. ``assay expect`` writes both; a person reviews what changes. A run is compared with
both before its first case starts. A promised word that is not there, a case that is missing or not
listed, and a skip of a kind that the site does not allow make the run red. A run that was narrowed
on purpose, for example by ``-n``, is PARTIAL.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from assay import files
from assay.prove.call import Call
from assay.reframe_compat.selection import PLACES
from assay.store.cases import Case, grouped
from assay.store.sanitize import line, sequence
from assay.store.words import Site

FILE, CASES = "promise.yaml", "cases.txt"

#: The kinds that are always allowed: the parameters make no case, or another case is for the same
#: nodes; the case needs a word that is not there (words are promised); or a case that was skipped
#: itself, as ReFrame says.
ALWAYS = ("no-case", "lacks", "skipped due to skipped dependencies")

#: The kind that no site can allow.
NEVER = "undescribed"

#: The share of the nodes of a run that it may drain, if the site does not state another.
DRAIN_AT_MOST = 0.1

#: How many lines name single tests, and how many cases one line names; the rest is counted.
NAMED, NAMES = 12, 3

#: How long a node may go without a case that passed, if its site does not say so.
DAYS = 30

#: Start of the line about skips that are not allowed.
REFUSED = "skip not allowed"


class PromiseError(Exception):
    """A file is refused; the message is one line with the file, the place and the remedy."""


@dataclass(frozen=True)
class Listed:
    """A case of the suite, as a line of the list.

    :ivar name: its display name; ``*`` stands for the values of a parameter that has more of them
        on a larger machine.
    :ivar systems: alternatives of features of a partition: ``+word`` must be there, ``-word`` not.
    """

    name: str
    systems: tuple[str, ...]
    stacks: tuple[str, ...]
    smoke: bool

    def __str__(self) -> str:
        words = (", ".join(self.systems), ", ".join(self.stacks))
        return " | ".join([self.name, *words, *(["smoke"] if self.smoke else [])])

    @classmethod
    def read(cls, text: str) -> Listed:
        """The inverse of ``str``.

        :raises ValueError: the line has not this form.
        """
        parts = text.split(" | ")
        if len(parts) < 3 or parts[3:] not in ([], ["smoke"]):
            raise ValueError(repr(text))
        systems, stacks = (tuple(part.split(", ")) for part in parts[1:3])
        return cls(parts[0], systems, stacks, len(parts) > 3)

    def places(self, site: Site) -> Iterator[tuple[str, str]]:
        """The partitions and stacks of a site that the case runs on."""
        for partition, features in site.partitions.items():
            if not all(_lost(said, features) for said in self.systems):
                for stack in site.environs[partition]:
                    programs = site.stacks.get(stack, frozenset())
                    if not all(_lost(said, programs) for said in self.stacks):
                        yield partition, stack

    def lacks(self, features: frozenset[str], programs: frozenset[str]) -> tuple[str, ...] | None:
        """The fewest words that a place and its stack must also have to be selected.

        None if no words help: the place is of another kind, or has a word that the case refuses.
        """
        found = [
            tuple(sorted(lost | _lost(stack, programs)))
            for place in self.systems
            if not (lost := _lost(place, features)) & {*PLACES, "-"}
            for stack in self.stacks
            if "-" not in _lost(stack, programs)
        ]
        return min(found, key=len, default=None)


def _lost(said: str, words: frozenset[str]) -> frozenset[str]:
    """The words of an alternative that are missing, and ``-`` if one is there that must not be."""
    refused = any(w[0] == "-" and w[1:] in words for w in said.split())
    lost = {w[1:] for w in said.split() if w[0] == "+" and w[1:] not in words}
    return frozenset(lost | ({"-"} if refused else set()))


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """A partition has stacks and words."""

    stacks: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


#: Words of a case; at least one.
Words = Annotated[str, msgspec.Meta(pattern=r"\S")]

#: The kinds of skips that a site may allow; a reason begins with its kind: docs/sites.md.
Kind = Literal["not-asked", "not-here", "too-small", "incomplete"]
KINDS = get_args(Kind)


class File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A promise has partitions, at least one; the other keys may be left out.

    :ivar may_skip: kind of skip -> the cases that may be skipped for it, each by words: the name of
        a test, the value of a parameter, a partition or a stack; ``*`` stands for all cases.
    :ivar nothing_judged: whether a run that judged no metric is ``red`` or ``allowed``.
    :ivar drain_at_most: the share of the nodes that ``assay nodes`` may name for a drain.
    :ivar not_measured: device of a link, or a pattern of devices -> why no case has to measure it.
    :ivar proven_within_days: how long a node may go without a case that passed.
    """

    nothing_judged: Literal["red", "allowed"] = "red"
    drain_at_most: Annotated[float, msgspec.Meta(gt=0, le=1)] = DRAIN_AT_MOST
    proven_within_days: Annotated[int, msgspec.Meta(ge=1)] = DAYS
    partitions: Annotated[dict[str, Place], msgspec.Meta(min_length=1)]
    stacks: dict[str, frozenset[str]] = {}
    may_skip: dict[Kind, list[Words]] = {}
    not_measured: dict[str, Words] = {}

    @property
    def site(self) -> Site:
        words = {name: place.words for name, place in self.partitions.items()}
        environs = {name: place.stacks for name, place in self.partitions.items()}
        return Site(words, environs, self.stacks)


def load_promise(path: Path) -> File:
    """Read the file of a site.

    :raises PromiseError: the file cannot be read or is not valid.
    """
    hint = (
        f": nothing says which cases must run; type assay expect --site {path.parent.name} (or, "
        "for a site that describes itself, copy site-config/any/promise.yaml), review the file and "
        "commit it"
    )
    return files.read_shape(path, File, PromiseError, hint=hint)


def cases(path: Path) -> list[Listed]:
    """Read the list of the cases of a suite.

    :raises PromiseError: the file cannot be read, or a line of it is no case.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [Listed.read(text) for text in lines if not text.startswith("#")]
    except OSError as error:
        raise PromiseError(f"{path}: {error.strerror}: type assay expect") from None
    except ValueError as error:
        raise PromiseError(f"{path}: not a case: {error}: type assay expect") from None


def compare(
    site: Site, listed: Iterable[Listed], planned: Iterable[Case], profile: str
) -> tuple[int, int, list[str]]:
    """Compare the cases of a run with those that must run.

    :param profile: ``smoke`` or ``full``.
    :returns: how many must run, how many of these the run has, and what differs, as lines.
    """
    asked = (one for one in listed if one.smoke or profile != "smoke")
    must = {(one.name, *place) for one in asked for place in one.places(site)}
    grow = [one for one in must if "*" in one[0]]
    there = set()
    for case in planned:
        key = (case.display_name, case.partition, case.environ)
        alike = (one for one in grow if one[1:] == key[1:] and fnmatchcase(key[0], one[0]))
        there.add(key if key in must else next(alike, key))
    faults = []
    if lost := must - there:
        all_of = Counter(map(_test, must))
        missing = [
            f"{test}: {all_of[test] - number} of {all_of[test]}, without {names}"
            for test, number, names in _by_test(lost)
        ]
        said = "; ".join(few(missing))
        faults.append(f"{len(lost)} of {len(must)} promised cases are missing: {said}")
    if strange := there - must:
        said = "; ".join(few([f"{test}: {names}" for test, _, names in _by_test(strange)]))
        faults.append(f"{CASES} does not list {said}; type assay expect, and review it")
    return len(must), len(must & there), faults


def _test(case: tuple[str, str, str]) -> str:
    return f"{case[0].split()[0]} on {case[1]}+{case[2]}"


def _by_test(cases: Iterable[tuple[str, str, str]]) -> list[tuple[str, int, str]]:
    """Test and place, the number of its cases, and the names of some."""
    names = grouped((_test(case), case[0].replace("%", "")) for case in sorted(cases))
    return [(test, len(its), ", ".join(few(its, NAMES))) for test, its in names.items()]


def few(lines: Sequence[str], most: int = NAMED) -> tuple[str, ...]:
    """The first lines, and how many more there are."""
    more = len(lines) - most
    return (*lines[:most], *([f"and {more} more"] if more > 0 else []))


def unlisted(
    may_skip: Mapping[str, Sequence[str]], skipped: Iterable[Case]
) -> tuple[list[str], list[str]]:
    """The skips that are not allowed, and the allowed ones that make a run PARTIAL; as lines."""
    refused: dict[str, Counter[str]] = {}
    partial: Counter[str] = Counter()
    for case in skipped:
        kind = case.why.partition(":")[0]
        words = {"*", case.test, case.partition, case.environ, *case.values.values()}
        allowed = any({*one.split()} <= words for one in may_skip.get(kind, ()))
        if not (allowed or kind in ALWAYS):
            refused.setdefault(case.why, Counter())[case.test] += 1
        elif kind == "incomplete":
            partial[case.why] += 1
    lines = []
    for why, tests in refused.items():
        of_tests = ", ".join(f"{number} of {test}" for test, number in tests.items())
        mend = "state it" if why.startswith(NEVER) else f"may_skip of {FILE} says what is allowed"
        lines.append(f"{REFUSED}: {why}: {of_tests}; {mend}")
    return lines, [f"{number} skipped: {why}" for why, number in partial.items()]


def state(
    path: Path, site: Site, call: Call, planned: Iterable[Case], profile: str
) -> dict[str, Any]:
    """How a run compares with the promise, as JSON for the plan of the run.

    :param path: the file of the site. A site outside of a repository of the suite may have none;
        then no run is more than a part.
    """
    faults = list(site.problems)
    narrowed = call.selected or call.other_cases
    said: dict[str, Any] = {
        "file": str(path),
        "narrowed": list(call.selected),
        "changed": list(call.changed),
        "words": {name: sorted(words) for name, words in site.partitions.items()},
    }
    home = files.repository(path.parent)
    if not (path.exists() or home in path.parents):  # beside a configuration that a site has
        why = f"there is no {path}: nothing says which cases must run; type assay expect -C FILE"
        return {**said, "faults": faults, "unpromised": why}
    try:
        promise, listed = load_promise(path), cases(home / "reframe" / CASES)
    except PromiseError as error:
        return {**said, "faults": faults if narrowed else [*faults, str(error)]}
    promised, there, differ = compare(site, listed, planned, profile)
    if not narrowed:
        faults += [f"{path.name}: {line}" for line in site.lacks(promise.site)]
        if not site.itself and [*promise.site.lacks(site)]:
            own = path.with_name("reframe.py").exists()
            option = f"--site {path.parent.name}" if own else "-C assay_settings.py"
            faults.append(
                f"{path.name}: does not promise all words of the site. Nobody would see that one "
                f"of them is lost. Type assay expect {option}, and review the file"
            )
        faults += differ
    return {
        **said,
        "faults": faults,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "promised": promised,
        "there": there,
        "nothing_judged": promise.nothing_judged,
        "drain_at_most": promise.drain_at_most,
        "proven_within_days": promise.proven_within_days,
        "may_skip": promise.may_skip,
        "not_measured": promise.not_measured,
    }


def narrowing(state: Mapping[str, Any]) -> list[str]:
    """Why a run has a part of the cases only, or may have, as lines."""
    narrowed, refused = ([*map(line, sequence(state.get(key)))] for key in ("narrowed", "refused"))
    if not narrowed:
        return refused + ([line(state["unpromised"])] if "unpromised" in state else [])
    chosen = f"selected by {', '.join(narrowed)}"
    if "promised" not in state:
        return [*refused, chosen]
    there, promised = (line(state.get(key)) for key in ("there", "promised"))
    return [*refused, f"{there} of {promised} promised cases {chosen}"]


def changes(state: Mapping[str, Any]) -> list[str]:
    """Why a run is not that of the site's plan, by its options, as lines."""
    return [
        f"{option} is not in the plan of the site and may change what is measured: leave it out, "
        "or put it into the site"
        for option in map(line, sequence(state.get("changed")))
    ]
