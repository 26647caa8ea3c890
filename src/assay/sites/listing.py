"""``assay sites``: loads each site as ReFrame would and describes it in a few lines."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reframe.core.config import load_config
from reframe.core.exceptions import ConfigError, ReframeError

from assay import catalogue, sites
from assay.exits import Exit
from assay.judge import References, ReferencesError
from assay.sites import foreign
from assay.store.promise import Site


def find(folder: Path) -> list[Path]:
    """The ``reframe.py`` of each site below a ``site-config`` folder, by name."""
    return sorted(folder.glob("*/reframe.py"))


def load(site_file: Path) -> tuple[dict[str, Any], References]:
    """Configuration and references of one site."""
    site = foreign.sections(foreign.load([site_file]))
    # No test selects a stack without features.
    site["environments"] = [e for e in site["environments"] if e.get("features")]
    return site, References.load(site_file.with_name("references.yaml"))


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


def found(site_file: Path) -> tuple[Site, list[str]]:
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


def describe(configuration: dict[str, Any], references: References, known: set[str]) -> list[str]:
    """What a site has and what it lacks, one line each."""
    lines = []
    for system in configuration["systems"]:
        for partition in system["partitions"]:
            words = " ".join(partition.get("features", ()))
            lines.append(f"partition {partition['name']}: {words}")
    for stack in configuration["environments"]:
        missing = sorted(known - set(stack["features"]))
        lines.append(f"stack {stack['name']}: {' '.join(stack['features'])}")
        if missing:
            lines.append(f"stack {stack['name']} has no {', '.join(missing)}")
    lines.append(f"references: {references.judged} metrics judged, rules to record: "
                 f"{references.recorded}")  # fmt: skip
    return lines


def run(names: Sequence[str], folder: Path) -> int:
    """Runs ``assay sites`` for some sites, or all; returns the exit code."""
    found = {path.parent.name: path for path in find(folder)}
    if not found:
        print(f"{folder}: no site here; run from the repository, or give --folder",
              file=sys.stderr)  # fmt: skip
        return Exit.UNKNOWN
    unknown = [name for name in names if name not in found]
    if unknown:
        print(f"unknown site {unknown[0]!r}; known are {', '.join(found)}", file=sys.stderr)
        return Exit.USAGE
    known = set(catalogue.WORDS)
    bad = 0
    with leaving_no_results():
        for name in names or found:
            try:
                lines = describe(*load(found[name]), known)
                lines += sites.left_out[found[name].resolve()]
            except (ReframeError, ReferencesError) as error:
                bad += 1
                lines = [f"REFUSED: {error}"]
            print(name)
            print("".join(f"  {line}\n" for line in lines), end="")
    return Exit.FAIL if bad else Exit.PASS
