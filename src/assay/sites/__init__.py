"""The vocabulary of sites, and the parts of a ReFrame configuration that all sites share.

A site is one folder, ``site-config/<site>/``. Its ``reframe.py`` describes the machines and how
they are reached. Its ``references.yaml`` holds the references that the results are judged by.
``reframe.py`` calls :func:`configuration`, which refuses a word that is neither in
``site-config/vocabulary.yaml`` nor in the catalogue of programs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from reframe.core.exceptions import ConfigError

from assay import catalogue, deadline, files, reframe_compat
from assay.judge import LAUNCHES_IN_BUDGET, References, ReferencesError, peaks
from assay.prove import node_limits, plan
from assay.reframe_compat import command
from assay.sites import invocation
from assay.store import promise, run_folder, running
from assay.store.cases import Case

#: The file of each site that this process loaded -> its words, and the stack if ``ASSAY_STACK``
#: leaves out others.
found_on: dict[Path, tuple[promise.Site, list[str]]] = {}

#: Site file -> the names that a `for` block of its references may have, by key. A site that
#: describes itself is not here: it has other names on each machine.
names_on: dict[Path, Mapping[str, Sequence[str]]] = {}

#: Names of the profiles. ``--mode`` accepts them, and also ``paper-smoke`` and ``paper-full``. The
#: latter two run only the tests that the figures of a validation are drawn from.
PROFILES = ("smoke", "full")

#: What the modes of a document begin with -> the tag of its tests.
PAPERS = {
    "paper": "paper$",
    **{f"paper-{number}": f"doc-{number}$" for number in ("001", "002", "003", "004")},
    # ReFrame reads options of a mode as a shell does: a backslash would be lost.
    "paper-all": "(paper|doc-[0-9]+)$",
}


def repository(site_file: str | Path) -> Path:
    """Root of the repository that a site's ``reframe.py`` belongs to."""
    return files.repository(Path(site_file).resolve().parent)


def results_directory(site_file: str | Path) -> Path:
    """The directory of all that a run writes: ``$ASSAY_RESULTS``, by default ``results/``.

    By default, it is in the repository of the site, or beside the file of a site without one.

    :raises ConfigError: it cannot be made or written, or has a blank in its path.
    """
    named = os.environ.get("ASSAY_RESULTS")
    folder = Path(site_file).resolve().parent
    home = files.repository(folder)
    # A site outside of the suite writes nothing into the suite.
    path = Path(named) if named else (home if home in folder.parents else folder) / "results"
    path = path.resolve()
    if len(str(path).split()) > 1:
        # ReFrame's local scheduler splits the path of the job script at blanks.
        raise ConfigError(
            f"{path}: ReFrame runs no jobs below a path with blanks; "
            "set ASSAY_RESULTS to a directory without"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".writable.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"{path}: results cannot be written here ({error.strerror}); "
            "set ASSAY_RESULTS to a directory that can"
        ) from None
    return path


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

    :raises ConfigError: the file cannot be read or does not have that shape.
    """
    said = files.read(path, Vocabulary, ConfigError)
    return {
        "partition": {"features": said.partition.features, "extras": said.partition.extras},
        "environment": {"features": catalogue.WORDS, "extras": said.environment.extras},
    }


def _words(
    partitions: Iterable[Mapping[str, Any]],
    stacks: Iterable[Mapping[str, Any]],
    found: Callable[[], Sequence[str]] | None,
) -> promise.Site:
    places = list(partitions)
    return promise.Site(
        {p["name"]: frozenset(p.get("features", ())) for p in places},
        {p["name"]: frozenset(p["environs"]) for p in places},
        {s["name"]: frozenset(s["features"]) for s in stacks},
        found is not None,
        tuple(found()) if found else (),
    )


def _check_words(used: Iterable[str], known: Mapping[str, str], where: str) -> None:
    for word in used:
        if word in known:
            continue
        file = "site-config/vocabulary.yaml"
        if known is catalogue.WORDS:
            file = "src/assay/catalogue.yaml"
        mend = f"{files.nearest(word, known)} (new words go into {file})"
        raise ConfigError(f"{where}: unknown word {word!r}; {mend}")


def _check_partition(
    site_file: Path, partition: Mapping[str, Any], words: Mapping[str, Mapping[str, str]]
) -> None:
    where = f"{site_file}: partition {partition['name']!r}"
    for kind in ("features", "extras"):
        _check_words(partition.get(kind, ()), words[kind], f"{where}: {kind}")
    try:
        hardware = partition.get("extras", {}).get("hardware", {})
        peaks.check(site_file.parent, hardware)
    except ReferencesError as error:
        raise ConfigError(f"{where}: extras: hardware: {error}") from None
    options = partition.get("extras", {}).get("options", {})
    if fault := files.misshapen(options, dict[str, Any], "options"):
        raise ConfigError(f"{where}: extras: {fault}; write a mapping of Test.option to its value")
    for problem in node_limits.refused(partition.get("extras", {}).get("health", {})):
        raise ConfigError(f"{where}: extras: health: {problem}")


def _check_stack(
    site_file: Path,
    stack: Mapping[str, Any],
    partitions: Iterable[Mapping[str, Any]],
    words: Mapping[str, Mapping[str, str]],
) -> None:
    where = f"{site_file}: environment {stack['name']!r}"
    if not stack.get("features"):
        raise ConfigError(f"{where}: features: it has none, so no test can select its programs")
    if not any(stack["name"] in partition["environs"] for partition in partitions):
        raise ConfigError(f"{where}: is in environs of no partition, so nothing runs with it")
    for kind in ("features", "extras"):
        _check_words(stack.get(kind, ()), words[kind], f"{where}: {kind}")
    for name in catalogue.VERSIONS.keys() & stack.get("extras", {}).keys():
        if not isinstance(said := stack["extras"][name], str):
            raise ConfigError(
                f"{where}: extras: {name} is {said!r}, which may have lost a 0 at its end: "
                "write the version in quotes"
            )


def configuration(  # noqa: PLR0913
    site_file: str | Path,
    systems: list[dict[str, Any]],
    environments: list[dict[str, Any]],
    general: Mapping[str, Any] | None = None,
    one_at_a_time: bool = False,
    *,
    found: Callable[[], Sequence[str]] | None = None,
) -> dict[str, Any]:
    """The ReFrame configuration of a site, with the parts that all sites share.

    All sites share the run reports, and the JUnit report below
    :func:`results_directory`, and the modes (:data:`PROFILES`).

    :param site_file: the site's ``__file__``.
    :param systems: the one system of the site, in the format of ReFrame's configuration reference.
        Its name is the name of the folder.
    :param general: further options for ReFrame's section ``general``.
    :param one_at_a_time: the modes submit a case only after the case before it has ended, across
        all partitions. If all partitions share their nodes, the waiting time of a job then tells
        something about the nodes.
    :param found: for a site that describes itself: tells which probes of the machine failed.
    :raises ConfigError: a word is unknown, a deadline is not a duration, a system does not have the
        name of its folder, the references are not valid, the stack in ``ASSAY_STACK`` does not
        exist, or the results cannot be written. If ReFrame's command loads the site, also: the host
        does not belong to the site, an option switches checks off, or another run writes to the
        results.
    """
    site_file = Path(site_file).resolve()
    site = site_file.parent.name
    call = command.of_reframe()
    if call:
        invocation.check_switches(call.given)
    words = vocabulary(files.of_all_sites(site_file.parent, "vocabulary.yaml"))
    for system in systems:
        if system["name"] != site:
            raise ConfigError(
                f"{site_file}: systems/name is {system['name']!r}; name it {site!r} like its folder"
            )
        if call:
            invocation.check_system(site_file, system["hostnames"], call.system)
        for partition in system["partitions"]:
            _check_partition(site_file, partition, words["partition"])
    places = [partition for system in systems for partition in system["partitions"]]
    for environment in environments:
        _check_stack(site_file, environment, places, words["environment"])

    try:
        deadline.begin()
    except ValueError as error:
        raise ConfigError(f"{site_file}: {error}") from None
    reframe_compat.install()
    words_here = _words(places, environments, found)
    if not found:
        names_on[site_file] = {
            "partition": [partition["name"] for partition in places],
            "environ": [environment["name"] for environment in environments],
        }
    everything = len(environments)
    environments = _only_asked_for(systems, environments, site_file)
    fewer = [f"STACK={e['name']}" for e in environments] if len(environments) < everything else []
    found_on[site_file] = words_here, fewer
    try:
        References.load(site_file.with_name("references.yaml"))
    except ReferencesError as error:
        raise ConfigError(str(error)) from None

    results = results_directory(site_file)
    policy = ["--exec-policy=serial"] if one_at_a_time else []
    # The time in the path keeps the outputs of every run. A configuration cannot set ReFrame's own
    # --timestamp.
    folder = results / "output" / time.strftime("%Y%m%dT%H%M%S")
    log = results / "listing.log"
    if call and call.run:
        folder = running.begin(results)
        running.promise(partial(_promised, call, site_file, words_here, fewer))
        log = folder / run_folder.LOG
    for system in systems:
        system.setdefault("stagedir", str(results / "stage" / folder.name))
        system.setdefault("outputdir", str(folder))
    return {
        "systems": systems,
        "environments": environments,
        "general": [
            {
                "report_file": str(results / "reports" / "run-report-{sessionid}.json"),
                "report_junit": str(results / "reports" / "junit.xml"),
                # The environment of the stack is part of what is measured: do not purge it.
                "purge_environment": False,
                **(general or {}),
            }
        ],
        "logging": [_logging(log)],
        "modes": [
            _mode("smoke", "smoke", "--tag=smoke", *policy),
            _mode("full", "full", *policy),
            *(
                _mode(f"{paper}-{profile}", profile, f"--tag={tag}", *policy)
                for paper, tag in PAPERS.items()
                for profile in PROFILES
            ),
        ],
    }


def _promised(  # noqa: PLR0913, PLR0917
    call: command.Invocation,
    site_file: Path,
    site: promise.Site,
    fewer: Sequence[str],
    cases: Sequence[Case],
    profile: str,
) -> dict[str, Any]:
    """Compares the cases of a run with the promise of the site.

    Not called before the run begins: ReFrame loads a site in the folder of the site, and the paths
    of its call are relative to another one.
    """
    suite = repository(site_file) / "reframe"
    said = plan.of_call(call, site_file, suite, PROFILES, LAUNCHES_IN_BUDGET - 1)
    said = replace(said, selected=(*said.selected, *fewer))
    return promise.state(site_file.with_name(promise.FILE), site, said, cases, profile)


def _mode(name: str, profile: str, *options: str) -> dict[str, Any]:
    # Only cases that did not pass are launched again: see assay.run.attempts.
    retries = f"--max-retries={LAUNCHES_IN_BUDGET - 1}"
    return {"name": name, "options": [f"--setvar=profile={profile}", retries, *options]}


def _only_asked_for(
    systems: list[dict[str, Any]], environments: list[dict[str, Any]], site_file: Path
) -> list[dict[str, Any]]:
    """The environments, or only the one that ``ASSAY_STACK`` names.

    The partitions lose the other environments, too. ReFrame's own option ``-p`` has no effect
    together with ``--mode`` (4.10.4: the pattern is added to the default one, which matches all).
    """
    asked = os.environ.get("ASSAY_STACK")
    if not asked:
        return environments
    names = [environment["name"] for environment in environments]
    if asked not in names:
        raise ConfigError(
            f"{site_file}: no stack {asked!r} (STACK, ASSAY_STACK); there are {', '.join(names)}"
        )
    for system in systems:
        for partition in system["partitions"]:
            partition["environs"] = [name for name in partition["environs"] if name == asked]
        # ReFrame cannot use a partition without any environment.
        system["partitions"] = [p for p in system["partitions"] if p["environs"]]
    return [environment for environment in environments if environment["name"] == asked]


def _logging(log: Path) -> dict[str, Any]:
    return {
        "level": "debug",
        "handlers": [
            {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"},
            {
                "type": "file",
                "name": str(log),
                "level": "debug",
                "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                "append": False,
            },
        ],
        # Records and ReFrame's store have every number.
        "handlers_perflog": [],
    }
