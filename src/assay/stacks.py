"""The stack `spack` of a site, as ReFrame's environment: what its lock has, and where that is.

``make spack SITE=<site>`` leaves one file for each view, ``env/<site>.<view>.json`` below
``$ASSAY_SPACK_HOME`` (by default ``.cache/spack``), with the directories that go before PATH, and
the hash of the lock. Jobs need nothing else: no Spack on compute nodes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ConfigError

from assay.detect import BTIO_CLASSES, BTIO_SUBTYPES

#: Package of a lock -> the features (words of vocabulary.yaml) that it gives to a stack.
FEATURES: Mapping[str, tuple[str, ...]] = {
    "openmpi": ("mpi",),
    "ucx": ("ucx", "ucx-perftest"),
    "osu-micro-benchmarks": ("osu",),
    "hpcc": ("hpcc",),
    "hpl": ("hpl",),
    "npb-btio": ("btio",),
    "iozone": ("iozone",),
}

#: Package of a lock -> the extra that holds its version.
VERSIONS = {
    "openmpi": "openmpi_version",
    "ucx": "ucx_version",
    "osu-micro-benchmarks": "osu_version",
}


def spack(site_file: str | Path, lock: str | Path, view: str = "host") -> dict[str, Any]:
    """The environment `spack`, from the lock, whether or not it has been installed yet.

    Where it has not been, or was from another lock, its jobs end at once with a line that says so.

    :param site_file: the site's ``__file__``.
    :param lock: its ``spack.lock``.
    :param view: the view of the environment whose programs are meant.
    :raises ConfigError: the lock cannot be read or is none.
    """
    site_file, lock = Path(site_file).resolve(), Path(lock)
    content, packages = _read(lock, site_file.parent.name)
    digest = hashlib.sha256(content).hexdigest()
    extras: dict[str, Any] = {"provenance": f"Spack, {lock.name} sha256 {digest}"}
    for name, key in VERSIONS.items():
        if name in packages:
            extras[key] = packages[name]["version"]
    features = [word for name, words in FEATURES.items() if name in packages for word in words]
    if "npb-btio" in packages:
        built = packages["npb-btio"]["parameters"]
        extras["btio_classes"] = [c for c in BTIO_CLASSES if c in built["classes"]]
        extras["btio_subtypes"] = [s for s in BTIO_SUBTYPES if s in built["subtypes"]]

    environment: dict[str, Any] = {"name": "spack", "features": features, "extras": extras}
    directories, problem = _installed(site_file, view, digest)
    if problem:
        environment["prepare_cmds"] = [f"echo {shlex.quote(problem)} >&2", "exit 1"]
    else:
        path = ":".join(map(shlex.quote, directories))
        environment["env_vars"] = [["PATH", f"{path}:$PATH"]]
    return environment


def home(site_file: str | Path) -> Path:
    """``$ASSAY_SPACK_HOME``, by default ``.cache/spack`` of the repository."""
    named = os.environ.get("ASSAY_SPACK_HOME")
    return Path(named) if named else Path(site_file).resolve().parents[2] / ".cache/spack"


def _read(lock: Path, site: str) -> tuple[bytes, dict[str, dict[str, Any]]]:
    """The file, and its nodes by name; of two of one name, any: version and features are alike."""
    try:
        content = lock.read_bytes()
        nodes = json.loads(content)["concrete_specs"].values()
        return content, {node["name"]: node for node in nodes}
    except OSError as error:
        raise ConfigError(f"{lock}: {error.strerror}; make lock SITE={site}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{lock}: not a lock of Spack; make lock SITE={site}") from None


def _installed(site_file: Path, view: str, digest: str) -> tuple[list[str], str | None]:
    """Directories for PATH, and what is wrong with the installation if anything is."""
    site = site_file.parent.name
    file = home(site_file) / "env" / f"{site}.{view}.json"
    mend = f"type make spack SITE={site}"
    try:
        frozen = json.loads(file.read_text(encoding="utf-8"))
        of, directories = frozen["lock_sha256"], list(frozen["path"])
    except FileNotFoundError:
        return [], f"the stack spack is not installed ({file} does not exist): {mend}"
    except (OSError, ValueError, KeyError, TypeError):
        return [], f"{file} cannot be read: {mend}"
    if of != digest:
        return [], f"the stack spack was installed from another lock ({file}): {mend}"
    return directories, None
