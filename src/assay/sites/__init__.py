"""Sites: the vocabulary they are written in, and the parts of a ReFrame configuration they share.

A site is one folder, ``site-config/<site>/``: ``reframe.py`` says how it is reached and
``references.yaml`` how it is judged. Its ``reframe.py`` calls :func:`configuration`, which refuses
a word that neither ``site-config/vocabulary.yaml`` nor the catalogue of programs knows.
"""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from reframe.core.exceptions import ConfigError

from assay import catalogue, deadline, reframe_compat
from assay.judge import LAUNCHES_IN_BUDGET, References, ReferencesError
from assay.reframe_compat import command
from assay.results import run_folder, running
from assay.sites import invocation

#: Names of the profiles: ``--mode`` accepts them, and ``paper-smoke`` and ``paper-full``: only what
#: the figures of a validation are drawn from.
PROFILES = ("smoke", "full")

#: What each line of the perflog says of its test case, beside the metrics.
_PERFLOG = ", ".join(
    f'"{key}": "%(check_{attribute})s"'
    for key, attribute in (
        ("completed", "job_completion_time"),
        ("test", "display_name"),
        ("system", "system"),
        ("partition", "partition"),
        ("environ", "environ"),
        ("nodes", "job_nodelist"),
        ("result", "result"),
    )
)


def repository(site_file: str | Path) -> Path:
    """Root of the repository that a site's ``reframe.py`` belongs to."""
    return Path(site_file).resolve().parents[2]


def results_directory(site_file: str | Path) -> Path:
    """Where a run leaves everything: ``$ASSAY_RESULTS``, by default ``results/``.

    :raises ConfigError: the directory cannot be made or written, or has a blank in its path.
    """
    named = os.environ.get("ASSAY_RESULTS")
    path = Path(named).resolve() if named else repository(site_file) / "results"
    if len(str(path).split()) > 1:
        # ReFrame's local scheduler splits the path of the job script there.
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


@cache
def vocabulary(path: Path) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The words of sites with their meanings: ``[partition|environment][features|extras][word]``.

    They are those of ``vocabulary.yaml``; the features of environments are the programs of the
    catalogue (:mod:`assay.catalogue`).

    :raises ConfigError: the file cannot be read or is not of that shape.
    """
    try:
        words = yaml.safe_load(path.read_text(encoding="utf-8"))
        for owner, kind in (
            ("partition", "features"),
            ("partition", "extras"),
            ("environment", "extras"),
        ):
            if not isinstance(words[owner][kind], dict):
                raise TypeError
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, KeyError, TypeError):
        raise ConfigError(
            f"{path}: must have partition with features and extras, and environment with extras, "
            "each a mapping of word to meaning"
        ) from None
    words["environment"]["features"] = catalogue.WORDS
    return words  # type: ignore[no-any-return]


def _check_words(used: Iterable[str], known: Mapping[str, str], where: str) -> None:
    for word in used:
        if word in known:
            continue
        file = "site-config/vocabulary.yaml"
        if known is catalogue.WORDS:
            file = "src/assay/catalogue.yaml"
        near = difflib.get_close_matches(word, known, n=1)
        mend = f"did you mean {near[0]!r}?" if near else "known are " + ", ".join(sorted(known))
        raise ConfigError(f"{where}: unknown word {word!r}; {mend} (new words go into {file})")


def configuration(
    site_file: str | Path,
    systems: list[dict[str, Any]],
    environments: list[dict[str, Any]],
    general: Mapping[str, Any] | None = None,
    one_at_a_time: bool = False,
) -> dict[str, Any]:
    """The ReFrame configuration of a site, with what all sites share.

    Shared are: the results store, run reports, JUnit and JSON perflogs below
    :func:`results_directory`, and the modes (:data:`PROFILES`).

    :param site_file: the site's ``__file__``.
    :param systems: as ReFrame's configuration reference has it; the one system is named like the
        folder.
    :param general: further options of ReFrame's section of that name.
    :param one_at_a_time: a mode submits a case when the one before it has ended, whatever the
        partition: where all share their nodes, the wait of a job says something of the nodes then.
    :raises ConfigError: an unknown word, a deadline that is not a duration, a system not named like
        its folder, references that are not valid, a stack asked for (``ASSAY_STACK``) that is not
        there, or results that cannot be written. Where ReFrame's command loads the site, also: a
        host that is not of the site, a variable of ReFrame's that changes what runs, or results
        that another run writes to.
    """
    site_file = Path(site_file).resolve()
    site = site_file.parent.name
    call = command.of_reframe()
    if call:
        invocation.check_environment()
    words = vocabulary(site_file.parents[1] / "vocabulary.yaml")
    for system in systems:
        if system["name"] != site:
            raise ConfigError(
                f"{site_file}: systems/name is {system['name']!r}; name it {site!r} like its folder"
            )
        if call:
            invocation.check_system(site_file, system["hostnames"], call.system)
        for partition in system["partitions"]:
            where = f"{site_file}: partition {partition['name']!r}"
            for kind in ("features", "extras"):
                _check_words(partition.get(kind, ()), words["partition"][kind], f"{where}: {kind}")
    for environment in environments:
        where = f"{site_file}: environment {environment['name']!r}"
        for kind in ("features", "extras"):
            _check_words(environment.get(kind, ()), words["environment"][kind], f"{where}: {kind}")

    try:
        deadline.begin(
            p["extras"]["deadline"]
            for system in systems
            for p in system["partitions"]
            if "deadline" in p.get("extras", ())
        )
    except ValueError as error:
        raise ConfigError(f"{site_file}: {error}") from None
    reframe_compat.install()
    environments = _only_asked_for(systems, environments, site_file)
    try:
        References.load(site_file.with_name("references.yaml"))
    except ReferencesError as error:
        raise ConfigError(str(error)) from None

    results = results_directory(site_file)
    policy = ["--exec-policy=serial"] if one_at_a_time else []
    # Every run keeps its outputs: ReFrame's own --timestamp cannot be set in a configuration.
    folder = results / "output" / time.strftime("%Y%m%dT%H%M%S")
    log = results / "listing.log"
    if call and call.run:
        folder = running.begin(results)
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
                # The stack's own settings are part of what is measured: leave the rest alone.
                "purge_environment": False,
                **(general or {}),
            }
        ],
        "storage": [
            {
                "enable": True,
                "backend": "sqlite",
                "sqlite_db_file": str(results / "results.db"),
            }
        ],
        "logging": [_logging(results, log)],
        "modes": [
            _mode("smoke", "smoke", "--tag=smoke", *policy),
            _mode("full", "full", *policy),
            *(_mode(f"paper-{profile}", profile, "--tag=paper", *policy) for profile in PROFILES),
        ],
    }


def _mode(name: str, profile: str, *options: str) -> dict[str, Any]:
    # Launches beyond the first are of cases that did not pass: assay.checks.attempts.
    retries = f"--max-retries={LAUNCHES_IN_BUDGET - 1}"
    return {"name": name, "options": [f"--setvar=profile={profile}", retries, *options]}


def _only_asked_for(
    systems: list[dict[str, Any]], environments: list[dict[str, Any]], site_file: Path
) -> list[dict[str, Any]]:
    """The environments, or the one that ``ASSAY_STACK`` names; partitions lose the others too.

    ReFrame's own option for it, ``-p``, selects nothing beside ``--mode`` (4.10.4: a pattern is
    added to the default one, which matches all).
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
        # A partition without any environment is none to ReFrame.
        system["partitions"] = [p for p in system["partitions"] if p["environs"]]
    return [environment for environment in environments if environment["name"] == asked]


def _logging(results: Path, log: Path) -> dict[str, Any]:
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
        # ReFrame's `file` handler, since its `filelog` puts a header line before the JSON.
        "handlers_perflog": [
            {
                "type": "file",
                "name": str(results / "perflog.jsonl"),
                "level": "info",
                "append": True,
                "format": "{" + _PERFLOG + ', "metrics": {%(check_perfvalues)s}}',
                "format_perfvars": (
                    '"%(check_perf_var)s": {"value": %(check_perf_value)s,'
                    ' "unit": "%(check_perf_unit)s"},'
                ),
            }
        ],
    }
