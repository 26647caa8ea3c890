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
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from assay import files
from assay.evidence.plan import Call
from assay.results.cases import Case

FILE, CASES = "promise.yaml", "cases.txt"

PROFILES = ("full", "smoke")

#: Why a case may be skipped. The reason of a skip begins with its kind and a colon.
KINDS = {
    "lacks": "the partition or the stack has no such word; always allowed: words are promised",
    "follows": "a case that it compares was skipped; always allowed: that one was",
    "no-case": "these parameters make no case of their own, on any machine",
    "not-asked": "the site does not ask for it",
    "not-here": "the machine, or this release of a program, cannot do it",
    "too-small": "it takes more nodes, cores, GPUs or memory",
    "incomplete": "a part of the acceptance cannot run on this machine; the run is PARTIAL",
}
ALWAYS = ("lacks", "follows")
CHOSEN = tuple(kind for kind in KINDS if kind not in ALWAYS)

#: ReFrame's own reason for a case whose dependencies were skipped.
FOLLOWS = "skipped due to skipped dependencies"

#: Values of the site's word ``nothing_judged``: whether a run that judged no metric is red.
NOTHING_JUDGED = ("red", "allowed")

#: Least share of an earlier acceptance that a later one must reach, unless the site states another
#: by its word ``reacceptance``.
REACCEPTANCE = 0.9

#: How many lines name single tests, and how many cases one line names; the rest is counted.
NAMED, NAMES = 12, 3

#: Start of the line about skips that are not allowed.
REFUSED = "skip not allowed"


class PromiseError(Exception):
    """A file is refused; the message is one line with the file, the place and the remedy."""


@dataclass(frozen=True)
class Site:
    """The words that a site has, or promises.

    :ivar partitions: the features of each partition.
    :ivar environs: the names of its stacks.
    :ivar stacks: the programs of each stack.
    :ivar itself: whether the site describes itself, so that it has other words elsewhere.
    :ivar problems: probes of the machine that failed, one line each.
    """

    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    environs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    stacks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    itself: bool = False
    problems: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        partitions: Iterable[Mapping[str, Any]],
        stacks: Iterable[Mapping[str, Any]],
        problems: Sequence[str] | None,
    ) -> Site:
        """The words of partitions and stacks in the format of ReFrame's configuration.

        :param problems: the probes that failed; None if the site does not describe itself.
        """
        places = list(partitions)
        return cls(
            {p["name"]: frozenset(p.get("features", ())) for p in places},
            {p["name"]: frozenset(p["environs"]) for p in places},
            {s["name"]: frozenset(s.get("features", ())) for s in stacks},
            problems is not None,
            tuple(problems or ()),
        )

    def lacks(self, promised: Site) -> Iterator[str]:
        """What is promised and not there, one line each."""
        for kind in ("partitions", "environs", "stacks"):
            here, there = getattr(self, kind), getattr(promised, kind)
            for name, words in there.items():
                if name not in here:
                    if kind != "environs":
                        yield f"the {kind[:-1]} {name} is promised and not there"
                elif lost := sorted(words - here[name]):
                    what = "stack" if kind == "environs" else "word"
                    yield f"{name} has not the promised {what} {', '.join(lost)}"


@dataclass(frozen=True)
class Listed:
    """A case of the suite, as a line of the list.

    :ivar name: its display name; ``*`` stands for the values of a parameter that has more of them
        on a larger machine.
    :ivar systems: alternatives of features of a partition: ``+word`` must be there, ``-word`` not.
    :ivar stacks: the same for a stack.
    """

    name: str
    systems: tuple[str, ...]
    stacks: tuple[str, ...]
    smoke: bool

    def __str__(self) -> str:
        said = [self.name, *(", ".join(words) for words in (self.systems, self.stacks))]
        return " | ".join([*said, *(["smoke"] if self.smoke else [])])

    @classmethod
    def read(cls, text: str) -> Listed:
        """The inverse of ``str``.

        :raises ValueError: the line has not this form.
        """
        name, systems, stacks, *smoke = [*text.split(" | "), *[""] * (2 - text.count(" | "))]
        if not stacks or smoke not in ([], ["smoke"]):
            raise ValueError(repr(text))
        return cls(name, tuple(systems.split(", ")), tuple(stacks.split(", ")), "smoke" in smoke)

    def places(self, site: Site) -> Iterator[tuple[str, str]]:
        """The partitions and stacks of a site that the case runs on."""
        for partition, features in site.partitions.items():
            if _selected(self.systems, features):
                for stack in site.environs[partition]:
                    if _selected(self.stacks, site.stacks.get(stack, frozenset())):
                        yield partition, stack


def _selected(alternatives: Iterable[str], words: frozenset[str]) -> bool:
    return any(
        said == "*" or all((w[0] == "+") is (w[1:] in words) for w in said.split())
        for said in alternatives
    )


@dataclass(frozen=True)
class Promise:
    """What a site promises.

    :ivar may_skip: kind of skip -> the cases that may be skipped for it, each by words: the name of
        a test, the value of a parameter, a partition or a stack; ``*`` for all cases.
    :ivar reacceptance: least share of the performance of an earlier acceptance.
    """

    site: Site
    may_skip: Mapping[str, tuple[str, ...]]
    nothing_judged: str = NOTHING_JUDGED[0]
    reacceptance: float = REACCEPTANCE


def load(path: Path) -> Promise:
    """Read the file of a site.

    :raises PromiseError: the file cannot be read or is not valid.
    """
    make = f"type assay expect --site {path.parent.name}"
    hint = (
        f": nothing says which cases must run; {make} (or, for a site that describes itself, copy "
        "site-config/any/promise.yaml), review the file and commit it"
    )
    raw = files.read_yaml(path, PromiseError, hint=hint)
    try:
        return of(raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PromiseError(f"{path}: not a promise ({error}); {make}") from None


def of(raw: Any) -> Promise:
    """The promise that the content of a file states.

    :raises ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    known = {"nothing_judged", "reacceptance", "partitions", "stacks", "may_skip"}
    if unknown := sorted(set(raw) - known):
        raise ValueError(f"unknown key {unknown[0]!r}")
    word = raw.get("nothing_judged", NOTHING_JUDGED[0])
    if word not in NOTHING_JUDGED:
        raise ValueError(f"nothing_judged is {word!r}, not {' or '.join(NOTHING_JUDGED)}")
    share = raw.get("reacceptance", REACCEPTANCE)
    if type(share) not in (int, float) or not 0 < share <= 1:
        raise ValueError(f"reacceptance is {share!r}, not a share above 0, at most 1, such as 0.9")
    partitions = raw["partitions"]
    if not partitions:
        raise ValueError("it promises no partition")
    if odd := sorted({key for one in partitions.values() for key in one} - {"stacks", "words"}):
        raise ValueError(f"partitions: unknown key {odd[0]!r}; known are stacks, words")
    site = Site(
        {name: _words(one.get("words", ())) for name, one in partitions.items()},
        {name: _words(one.get("stacks", ())) for name, one in partitions.items()},
        {name: _words(words) for name, words in (raw.get("stacks") or {}).items()},
    )
    return Promise(site, allowed(raw.get("may_skip") or {}), word, float(share))


def _words(said: Any) -> frozenset[str]:
    if not isinstance(said, (list, tuple)):
        raise ValueError(f"{said!r} is not a list of words")
    return frozenset(map(str, said))


def allowed(said: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The allowed skips of a file, or of the plan of a session.

    :raises ValueError, AttributeError: there is no such kind, or no list of cases.
    """
    if unknown := sorted({*said} - {*KINDS}):
        raise ValueError(f"may_skip: no kind {unknown[0]!r}; known are {', '.join(KINDS)}")
    return {kind: tuple(sorted(_words(cases))) for kind, cases in said.items()}


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

    :param planned: all cases of the run, by their names.
    :param profile: ``smoke`` or ``full``.
    :returns: how many must run, how many of these the run has, and what differs, as lines.
    """
    must = {
        (one.name, *place)
        for one in listed
        if one.smoke or profile != "smoke"
        for place in one.places(site)
    }
    grow = [one for one in must if "*" in one[0]]
    there = set()
    for case in planned:
        key = (case.display_name, case.partition, case.environ)
        alike = (one for one in grow if one[1:] == key[1:] and fnmatchcase(key[0], one[0]))
        there.add(key if key in must else next(alike, key))
    faults = []
    if lost := must - there:
        missing = [
            f"{test}: {len(there & cases)} of {len(cases)}{_names(lost & cases, ', without ')}"
            for test, cases in _tests(must).items()
            if lost & cases
        ]
        faults.append(f"{len(lost)} of {len(must)} promised cases are missing: {_named(missing)}")
    if strange := there - must:
        unknown = [f"{test}{_names(cases, ': ')}" for test, cases in _tests(strange).items()]
        faults.append(f"{CASES} does not list {_named(unknown)}; type assay expect, and review it")
    return len(must), len(must & there), faults


def _tests(cases: Iterable[tuple[str, str, str]]) -> dict[str, set[tuple[str, str, str]]]:
    """The cases of each test and place."""
    found: dict[str, set[tuple[str, str, str]]] = {}
    for name, partition, stack in sorted(cases):
        found.setdefault(f"{name.split()[0]} on {partition}+{stack}", set()).add(
            (name, partition, stack)
        )
    return found


def _names(cases: Iterable[tuple[str, str, str]], before: str) -> str:
    """The parameters of the first cases; empty if the test has none."""
    known = sorted(" ".join(name.replace("%", "").split()[1:]) for name, *_ in cases)
    return before + "; ".join(few(known, NAMES)) if any(known) else ""


def kind(why: str) -> str:
    """The kind of the reason of a skip; empty if it has none."""
    word = "follows" if why == FOLLOWS else why.partition(":")[0]
    return word if word in KINDS else ""


def unlisted(
    may_skip: Mapping[str, Sequence[str]], skipped: Iterable[Case]
) -> tuple[list[str], list[str]]:
    """The skips that are not allowed, and the allowed ones that make a run PARTIAL; as lines.

    :param skipped: the cases that were skipped; ``why`` holds the reason.
    """
    refused: Counter[tuple[str, str]] = Counter()
    partial: Counter[str] = Counter()
    for case in skipped:
        of = kind(case.why)
        words = {"*", case.test, case.partition, case.environ, *case.parameters.values()}
        if of not in ALWAYS and not any({*one.split()} <= words for one in may_skip.get(of, ())):
            refused[case.why, case.test] += 1
        elif of == "incomplete":
            partial[case.why] += 1
    reasons: dict[str, list[str]] = {}
    for (why, test), number in refused.items():
        reasons.setdefault(why, []).append(f"{number} of {test}")
    return (
        [f"{REFUSED}: {why}: {', '.join(tests)}" for why, tests in reasons.items()],
        [f"{number} skipped: {why}" for why, number in partial.items()],
    )


def few(lines: Sequence[str], most: int = NAMED) -> tuple[str, ...]:
    """The first lines, and how many more there are."""
    more = len(lines) - most
    return (*lines[:most], *([f"and {more} more"] if more > 0 else []))


def _named(lines: Sequence[str]) -> str:
    return "; ".join(few(lines))


def state(
    path: Path, site: Site, call: Call, planned: Iterable[Case], profile: str
) -> dict[str, Any]:
    """How a run compares with the promise, as JSON for the plan of the run.

    :param path: the file of the site; the suite is in ``reframe`` beside the folder of all sites.
    :param site: the words that the site has.
    :param call: how the call of ReFrame differs from the plan of the site.
    """
    faults = list(site.problems)
    narrowed = call.selected or call.other_cases
    said: dict[str, Any] = {
        "file": str(path),
        "narrowed": list(call.selected),
        "changed": list(call.changed),
        "given": list(call.given),
    }
    try:
        promise, listed = load(path), cases(path.resolve().parents[2] / "reframe" / CASES)
    except PromiseError as error:
        return {**said, "faults": faults if narrowed else [*faults, str(error)]}
    lacks = [f"{path.name}: {line}" for line in site.lacks(promise.site)]
    promised, there, differ = compare(site, listed, planned, profile)
    if not narrowed:
        faults += [*lacks, *differ]
    return {
        **said,
        "faults": faults,
        "sha256": digest(path.read_bytes()),
        "promised": promised,
        "there": there,
        "nothing_judged": promise.nothing_judged,
        "may_skip": {kind: list(cases) for kind, cases in promise.may_skip.items()},
    }


def digest(text: bytes) -> str:
    """The hash of a file, by which a certificate knows it again."""
    return hashlib.sha256(text).hexdigest()


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
