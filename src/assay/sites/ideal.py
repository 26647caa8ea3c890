"""The machine that has all that a site looks for: what `assay expect` makes its dry run on.

A site that describes itself has other cases on each machine. Its ``expected.yaml`` must know the
cases of all of them. Nothing is run on this machine, so it need not exist.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from reframe.core.exceptions import ConfigError

from assay.catalogue import BTIO_CLASSES, BTIO_SUBTYPES, VERSIONS, WORDS
from assay.results.promise import Found

#: The variable by which ``assay expect`` asks for this machine.
VARIABLE = "ASSAY_EXPECT"

#: A program that excludes tests of its other builds (``valid_prog_environs = ["+osu-py -osu"]``).
#: One more stack lacks it.
EXCLUDES = "osu"

#: A node that no test finds too small.
PROCESSOR = {
    "num_cpus": 64,
    "num_cpus_per_core": 1,
    "num_cpus_per_socket": 64,
    "num_sockets": 1,
}

#: What its stacks say of themselves.
EXTRAS: Mapping[str, Any] = {
    **dict.fromkeys(VERSIONS, "5.0.0"),
    "ucx_version": "1.18.1",
    "osu_version": "7.5",
    "osu_py_command": "python3 osu_{benchmark}.py",
    "netpipe_command": "NPmpi",
    "hpl_gpu_command": "hpl.sh",
    "hpl_gpu_block": 288,
    "btio_classes": list(BTIO_CLASSES),
    "btio_subtypes": list(BTIO_SUBTYPES),
    "provenance": "of no machine",
}


def asked() -> bool:
    """Whether this process is the dry run of ``assay expect``."""
    return bool(os.environ.get(VARIABLE))


def given(
    systems: list[dict[str, Any]],
    environments: list[dict[str, Any]],
    found: Found | None,
    run: bool,
) -> list[dict[str, Any]]:
    """Gives the partitions all words that are looked for; returns the stacks with all programs.

    Does nothing if the site does not describe itself, or if nobody asks for this machine.

    :param run: tests are run, which this machine cannot do.
    :raises ConfigError: this machine is asked for by a run.
    """
    if run and asked():
        raise ConfigError(f"{VARIABLE} is of assay expect, and nothing can run with it: unset it")
    if found is None or not asked():
        return environments
    if found.any_stack:
        without = [word for word in WORDS if word != EXCLUDES]
        environments = [
            {"name": name, "features": words, "extras": dict(EXTRAS)}
            for name, words in (("all", list(WORDS)), (f"without-{EXCLUDES}", without))
        ]
    for system in systems:
        for partition in system["partitions"]:
            there = partition["features"]
            there += [w for w in found.words.get(partition["name"], ()) if w not in there]
            partition["processor"] = PROCESSOR
            partition["extras"]["memory_bytes"] = 2**40
            if found.any_stack:
                partition["environs"] = [environment["name"] for environment in environments]
    return environments
