"""The vocabulary of sites, and the parts of a ReFrame configuration that all sites share.

A site is one folder, ``site-config/<site>/``. Its ``assay.yaml`` describes the machines and how
they are reached (:mod:`assay.sites.site_yaml`). Its ``references.yaml`` holds the references that
the results are judged by. ReFrame loads its ``reframe.py``, which calls :func:`from_yaml`. The
words are those of ``site-config/vocabulary.yaml`` and of the catalogue of
programs. A word that is nearly one of them is refused; any other belongs to the site.
"""

from __future__ import annotations

import difflib
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from reframe.core.exceptions import ConfigError

from assay import catalogue, deadline, files, reframe_compat
from assay.judge import LAUNCHES_IN_BUDGET, References, ReferencesError, peaks
from assay.node import answers
from assay.prove import call as calls
from assay.reframe_compat import command, polling
from assay.reframe_compat.selection import PLACES
from assay.sites import site_yaml
from assay.store.words import Site

if TYPE_CHECKING:
    from assay.store.cases import Case

#: The file of each site that this process loaded -> the words that it declares, with stacks that
#: are not there now, and the stack if ``ASSAY_STACK`` leaves out others.
found_on: dict[Path, tuple[Site, list[str]]] = {}

#: Site file -> why the suite runs nothing on a partition or with a stack of it, as lines.
left_out: dict[Path, list[str]] = {}

#: Site file -> the names that a `for` block of its references may have, by key. A site that
#: describes itself is not here: it has other names on each machine.
names_on: dict[Path, Mapping[str, Sequence[str]]] = {}

#: The word ``machine`` of a site, or ``beside`` -> the function that describes it. It is loaded
#: only for one.
MACHINES = {
    "beside": "assay.describe.foreign:beside_configuration",
    "this": "assay.describe.machine:local_configuration",
    "detect": "assay.describe.auto:any_configuration",
}

#: The log of a call that runs nothing.
LISTING = "listing.log"

#: Names of the profiles. ``--mode`` accepts them, and also ``paper-smoke`` and ``paper-full``, in
#: which studies run the cases that they select.
PROFILES = ("smoke", "full")


def results_directory(site_file: str | Path) -> Path:
    """The directory of all that a run writes: ``$ASSAY_RESULTS``, by default ``results/``.

    By default, it is in the repository of the site, or beside the file of a site without one. A new
    one is for its owner and group only.

    :raises ConfigError: it cannot be made or written, or has a blank in its path.
    """
    named = os.environ.get("ASSAY_RESULTS")
    folder = Path(site_file).resolve().parent
    home = files.repository(folder)
    # A site outside of the suite writes nothing into the suite.
    path = Path(named) if named else (home if home in folder.parents else folder) / "results"
    path = Path(str(_answered(path, lambda: os.path.realpath(path))))
    if len(str(path).split()) > 1:
        # ReFrame's local scheduler splits the path of the job script at blanks.
        raise ConfigError(
            f"{path}: ReFrame runs no jobs below a path with blanks; "
            "set ASSAY_RESULTS to a directory without"
        )
    _answered(path, lambda: _written(path))
    return path


def _written(path: Path) -> None:
    # Nobody else reads below it. A umask would hide the compiled modules of the suite, too.
    path.mkdir(0o750, parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=path).close()


def _answered(path: Path, of: Callable[[], object]) -> object:
    try:
        return answers.within(of)  # a file system may hang
    except OSError as error:
        raise ConfigError(
            f"{path}: results cannot be written here ({error.strerror or error}); "
            "set ASSAY_RESULTS to a directory that can"
        ) from None


class Words(msgspec.Struct, forbid_unknown_fields=True):
    """It has features and extras, each a mapping of word to meaning."""

    extras: dict[str, str]
    features: dict[str, str] = {}


class Vocabulary(msgspec.Struct, forbid_unknown_fields=True):
    """The file has partition and environment."""

    partition: Words
    environment: Words


@cache
def vocabulary(path: Path) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The words of sites with their meanings: ``[partition|environment][features|extras][word]``.

    The words come from ``vocabulary.yaml``. Only the features of environments come from elsewhere:
    they are the programs of the catalogue (:mod:`assay.catalogue`).
    """
    said: dict[str, Any] = msgspec.to_builtins(files.read_shape(path, Vocabulary, ConfigError))
    said["environment"]["features"] = catalogue.WORDS
    return said


def mistyped(word: str, known: Collection[str]) -> str:
    """The known word that was probably meant by another one; empty if there is none.

    Of ten misspelt words of sites, 0.9 found all. It found none of 26 words that sites have for
    tests of their own.
    """
    alike = {each.replace("_", "-"): each for each in known}
    near = difflib.get_close_matches(word.replace("_", "-"), alike, n=1, cutoff=0.9)
    return alike[near[0]] if near else ""


def _check_words(of: Mapping[str, Any], words: Mapping[str, Mapping[str, str]], where: str) -> None:
    for kind, known in words.items():
        for word in of.get(kind, ()):
            if word not in known and (near := mistyped(word, known)):
                raise ConfigError(f"{where}: {kind}: unknown word {word!r}; did you mean {near!r}?")


def _check_partition(
    site_file: Path, partition: Mapping[str, Any], words: Mapping[str, Mapping[str, str]]
) -> None:
    where = f"{site_file}: partition {partition['name']!r}"
    _check_words(partition, words, where)
    extras = partition.get("extras", {})
    try:
        peaks.check_hardware(site_file.parent, extras.get("hardware", {}))
    except ReferencesError as error:
        raise ConfigError(f"{where}: extras: hardware: {error}") from None
    if fault := files.misshapen(extras.get("options", {}), dict[str, Any], "options"):
        raise ConfigError(f"{where}: extras: {fault}; write a mapping of Test.option to its value")
    if "health" in extras:
        from assay.prove import counters  # noqa: PLC0415 - few have limits of their own

        if problem := counters.refused_health(extras["health"]):
            raise ConfigError(f"{where}: extras: health: {problem}")


def _check_stack(
    site_file: Path,
    stack: Mapping[str, Any],
    partitions: Iterable[Mapping[str, Any]],
    words: Mapping[str, Mapping[str, str]],
) -> None:
    where = f"{site_file}: environment {stack['name']!r}"
    if not any(stack["name"] in partition["environs"] for partition in partitions):
        raise ConfigError(f"{where}: is in environs of no partition, so nothing runs with it")
    _check_words(stack, words, where)
    for name in {*catalogue.VERSIONS, "hpl_gpu_release"} & stack.get("extras", {}).keys():
        if not isinstance(said := stack["extras"][name], str):
            why = f"extras: {name} is {said!r}, which may have lost a 0 at its end"
            raise ConfigError(f"{where}: {why}: write the version in quotes")


def check_switches(given: Iterable[command.Option]) -> None:
    """Refuse options that switch checks off: the run would end green without a verdict."""
    if off := [option.flag for option in given if option.dest in calls.OFF]:
        raise ConfigError(
            f"{' '.join(off)}: a run without its checks proves nothing; leave the option out, or "
            "run `assay calibrate` to measure without judging"
        )


def check_call(site_file: Path, site: str, patterns: Sequence[str]) -> None:
    """Refuse a call of ReFrame's command that loads a site, if there is one."""
    if call := command.of_reframe():
        check_switches(call.given)
        check_system(site_file, site, patterns, call.system)


def check_system(site_file: Path, site: str, patterns: Sequence[str], asked: str | None) -> None:
    """Refuse a system of another site, whether ``--system`` or the host's name selects it.

    On a host that does not belong to the site, ReFrame takes its builtin system ``generic`` and
    runs few cases.

    :param patterns: its ``hostnames``. ReFrame matches them with the beginning of the host's name.
    :param asked: the value of ``--system`` or ``RFM_SYSTEM``; None if neither is given.
    """
    if asked is not None:
        if asked.partition(":")[0] != site:
            raise ConfigError(
                f"{site_file}: --system={asked} is not of the site {site!r}; "
                f"say --system={site}, or --system={site}:PARTITION"
            )
        return
    host = socket.gethostname()
    try:
        if any(re.match(pattern, host) for pattern in patterns):
            return
    except re.error as error:
        raise ConfigError(
            f"{site_file}: hostnames: {error.pattern!r} is not a regular expression ({error})"
        ) from None
    raise ConfigError(
        f"{site_file}: the host {host!r} is not of the site {site!r} (its hostnames are "
        f"{', '.join(patterns) or 'none'}); say --system={site} if it is, or put its name into "
        "the hostnames of its system"
    )


def from_yaml(site_file: str | Path) -> dict[str, Any]:
    """The ReFrame configuration of the site that ``assay.yaml`` beside a file describes.

    :param site_file: the file that ReFrame loads, its ``__file__``.
    :raises ConfigError: ``assay.yaml`` is not valid, or as :func:`configuration`.
    """
    site_file = Path(site_file).resolve()
    try:
        said, absent = site_yaml.read(site_file)
    except ConfigError:
        results_of(site_file)  # a run that is refused is the last run, too
        raise
    if kind := "beside" if said.beside else said.machine:
        described: dict[str, Any] = resolve_name(MACHINES[kind])(site_file, said)
        return described
    stacks = site_yaml.environments(site_file, said)
    system = site_yaml.system(site_file, said, site_yaml.places(site_file, said))
    return site_configuration(site_file, system, stacks, said, absent)


def site_configuration(
    site_file: str | Path,
    system: dict[str, Any],
    environments: list[dict[str, Any]],
    said: site_yaml.SiteFile | None = None,
    absent: site_yaml.Absent = MappingProxyType({}),
) -> dict[str, Any]:
    """The ReFrame configuration of a site, with the parts that all sites share.

    All sites share the run reports (:func:`results_directory`) and the modes (:data:`PROFILES`).

    :param system: in the format of ReFrame's configuration reference, with the name of the folder.
    :param said: what else the site says.
    :param absent: stacks that the site has only where a variable is set.
    :raises ConfigError: a word is nearly one of ours, a deadline is not a duration, the system
        does not have the name of its folder, the references are not valid, the stack in
        ``ASSAY_STACK`` does not exist, or the results cannot be written. If ReFrame's command loads
        the site, also: the host does not belong to the site, an option switches checks off, or
        another run writes to the results.
    """
    site_file, said = Path(site_file).resolve(), said or site_yaml.SiteFile()
    # Before all checks: a run that is refused is the last run, too.
    results, folder, log = results_of(site_file)
    site = site_file.parent.name
    if system["name"] != site:
        raise ConfigError(
            f"{site_file}: systems/name is {system['name']!r}; name it {site!r} like its folder"
        )
    check_call(site_file, site, system.get("hostnames", ()))
    yaml = site_file.with_name(site_yaml.FILE)
    file = yaml if yaml.is_file() else site_file
    kept = begin_site(site_file, file, system["partitions"], environments, said.problems, absent)
    polling.one_at_a_time = said.one_at_a_time
    # ReFrame cannot use a partition without any environment.
    system["partitions"] = [p for p in system["partitions"] if p["environs"]]
    if not system["partitions"]:
        why = "; ".join(left_out[site_file]) or "it has no places"
        raise ConfigError(f"{site_file}: nothing can run: {why}")
    system.setdefault("stagedir", str(results / "stage" / folder.name))
    system.setdefault("outputdir", str(folder))
    # A run says itself how each case ended (assay.store.running); `-v` shows ReFrame's lines, too.
    shown = "warning" if log.name != LISTING else "info"
    screen = {"type": "stream", "name": "stdout", "level": shown, "format": "%(message)s"}
    logs = {"handlers$": [screen], "handlers": [log_file(log)], "handlers_perflog": said.perflog}
    # The environment of the stack is part of what is measured: do not purge it.
    tests = {"check_search_path": [str(files.SUITE / "reframe")], "check_search_recursive": True}
    general = {**tests, **run_reports(results), "purge_environment": False, **said.general}
    return {
        "systems": [system],
        "environments": [each for each in environments if each["name"] in kept],
        "general": [general],
        # Records have every number, so there is no log of performance that nobody asked for.
        "logging": [{"level": "debug", **logs}],
        "modes": modes(),
    }


def begin_site(  # noqa: PLR0913, PLR0917
    site_file: Path,
    file: Path,
    places: list[dict[str, Any]],
    stacks: list[dict[str, Any]],
    problems: Sequence[str] | None,
    absent: site_yaml.Absent,
) -> set[str]:
    """Checks the words of a site, and says them to what compares a run with them.

    Partitions lose the stacks that no test selects.

    :param file: the file that has the words.
    :param problems: what a site that describes itself could not find out.
    :returns: the names of the stacks that remain.
    """
    words = vocabulary(files.of_all_sites(site_file.parent, "vocabulary.yaml"))
    for partition in places:
        _check_partition(file, partition, words["partition"])
    for stack in stacks:
        _check_stack(file, stack, places, words["environment"])
    try:
        deadline.start_deadline()
    except ValueError as error:
        raise ConfigError(f"{site_file}: {error}") from None
    reframe_compat.install()
    ours = {s["name"]: frozenset(s.get("features", ())) for s in stacks}
    known = words["environment"]["features"].keys()
    programs = {name: its for name, its in ours.items() if its & known}
    left_out[site_file] = [
        f"stack {name} is left out: its features name no program that the suite knows"
        for name in ours
        if name not in programs
    ]
    declared = _words(places, {**programs, **absent}, problems)
    left_out[site_file] += [f"stack {name} is not there: its `when` is empty" for name in absent]
    for partition in places:
        where = f"partition {partition['name']} is left out"
        if not {*PLACES} & {*partition.get("features", ())}:
            left_out[site_file].append(f"{where}: it has none of {', '.join(PLACES)}")
        elif not {*partition["environs"]} & {*programs}:
            left_out[site_file].append(f"{where}: all of its stacks are")
        partition["environs"] = [name for name in partition["environs"] if name in programs]
    words_here = _words(places, programs, problems)
    if problems is None:
        environs = [*ours, *absent]
        names_on[site_file] = {"partition": [p["name"] for p in places], "environ": environs}
    asked = os.environ.get("ASSAY_STACK")
    if asked and asked not in programs:
        there = f"there are {', '.join(programs)}"
        raise ConfigError(f"{site_file}: no stack {asked!r} (STACK, ASSAY_STACK); {there}")
    # ReFrame's own option -p has no effect together with --mode (4.10.4: the pattern is added to
    # the default one, which matches all).
    kept = {asked} if asked else {*programs}
    for partition in places:
        partition["environs"] = [name for name in partition["environs"] if name in kept]
    fewer = [f"STACK={asked}"] if len(kept) < len(programs) else []
    found_on[site_file] = declared, fewer
    try:
        References.load(site_file.with_name("references.yaml"))
    except ReferencesError as error:
        raise ConfigError(str(error)) from None
    if (call := command.of_reframe()) and call.run:
        from assay.store import running  # noqa: PLC0415 - a listing does not need it

        running.promise(partial(_promised, call, site_file, words_here, fewer))
    return kept


def _words(
    places: Iterable[Mapping[str, Any]],
    programs: Mapping[str, frozenset[str]],
    problems: Sequence[str] | None,
) -> Site:
    """The words of the places that have one of these stacks."""
    environs = {p["name"]: frozenset({*p["environs"]} & programs.keys()) for p in places}
    words = {p["name"]: frozenset(p.get("features", ())) for p in places if environs[p["name"]]}
    environs = {name: environs[name] for name in words}
    return Site(words, environs, programs, problems is not None, tuple(problems or ()))


def results_of(site_file: Path) -> tuple[Path, Path, Path]:
    """The results, the folder of the outputs of a session, and its log; a run locks the results."""
    results = results_directory(site_file)
    call = command.of_reframe()
    if not (call and call.run):
        # The time in the path keeps the outputs of every run. A configuration cannot set ReFrame's
        # own --timestamp.
        folder = results / "output" / time.strftime("%Y%m%dT%H%M%S")
        return results, folder, results / LISTING
    from assay.store import run_folder, running  # noqa: PLC0415 - a listing needs neither

    folder = running.begin_session(results)
    return results, folder, folder / run_folder.LOG


def _promised(  # noqa: PLR0913, PLR0917
    call: command.Invocation,
    site_file: Path,
    site: Site,
    fewer: Sequence[str],
    cases: Sequence[Case],
    profile: str,
) -> dict[str, Any]:
    """Compares the cases of a run with the promise of the site.

    Not called before the run begins: ReFrame loads a site in the folder of the site, and the paths
    of its call are relative to another one.
    """
    from assay.store import promise  # noqa: PLC0415 - a listing does not need it

    suite = files.repository(site_file.parent) / "reframe"
    said = calls.of_call(call, site_file, suite, PROFILES, LAUNCHES_IN_BUDGET - 1)
    said = replace(said, selected=(*said.selected, *fewer))
    state = promise.state(site_file.with_name(promise.FILE), site, said, cases, profile)
    if not cases:
        there = frozenset().union(*site.partitions.values())
        no = [word for word in PLACES if word not in there]
        state["lacking"] = [
            *left_out[site_file],
            *([f"no partition has {' or '.join(no)}"] if no else []),
            f"type assay check -C {site_file}: it says which words are missing",
        ]
    return state


def modes() -> list[dict[str, Any]]:
    modes: list[tuple[str, ...]] = [("smoke", "smoke", "--tag=smoke"), ("full", "full")]
    modes += [(f"paper-{profile}", profile) for profile in PROFILES]
    # Only cases that did not pass are launched again: see assay.run.attempts.
    retries = f"--max-retries={LAUNCHES_IN_BUDGET - 1}"
    return [
        {"name": name, "options": [f"--setvar=profile={profile}", retries, *options]}
        for name, profile, *options in modes
    ]


def run_reports(results: Path) -> dict[str, Any]:
    return {"report_file": str(results / "reports" / "run-report-{sessionid}.json")}


def log_file(log: Path) -> dict[str, Any]:
    return {
        "type": "file",
        "name": str(log),
        "level": "debug",
        "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
        "append": False,
    }
