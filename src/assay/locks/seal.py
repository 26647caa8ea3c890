"""``spack.lock.seal.yaml``: what a lock was solved from, because the lock itself does not say it.

Spack does not notice a changed requirement, another site or a changed recipe. It answers that there
is nothing new to solve. The seal holds the SHA-256 of the lock, of its manifest with all includes,
and of the project's recipes. It also holds the commits of Spack and of its packages.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from assay import files
from assay.locks.lockfile import LockError, misfit
from assay.locks.manifest import read_yaml

_SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COMMIT = {"type": "string", "pattern": "^[0-9a-f]{40}$"}
_PIN = {
    "type": "object",
    "required": ["version", "commit"],
    "properties": {"version": {"type": "string"}, "commit": _COMMIT},
}
_PINS = {
    "type": "object",
    "required": ["spack", "packages"],
    "properties": {"spack": _PIN, "packages": _PIN},
}
_SEAL = {
    "type": "object",
    "required": ["site", "date", "spack", "packages", "lock", "files"],
    "properties": {
        "site": {"type": "string"},
        "date": {"type": "string"},
        "spack": _PIN,
        "packages": _PIN,
        "lock": _SHA256,
        "files": {
            "type": "object",
            "propertyNames": {"type": "string"},
            "additionalProperties": _SHA256,
        },
    },
}
RECIPES = Path("spack-repo/spack_repo")


def load_pins(path: Path, shown: str) -> dict[str, dict[str, str]]:
    """The pinned versions and commits of Spack and of its package repository.

    :raises LockError: the file does not exist or does not have that shape.
    """
    pins: dict[str, dict[str, str]] = _valid(path, shown, _PINS, "docs/stack.md says what it holds")
    return pins


def of(
    root: Path, site: str, lock: Path, inputs: list[str], pins: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """The seal of a lock for the tree as it is now.

    :param inputs: the manifest and what it includes, relative to `root`.
    :raises LockError: a file cannot be read.
    """
    recipes = [path.relative_to(root).as_posix() for path in _recipes(root / RECIPES)]
    return {
        "site": site,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "spack": {key: pins["spack"][key] for key in ("version", "commit")},
        "packages": {key: pins["packages"][key] for key in ("version", "commit")},
        "lock": _sha256(lock),
        "files": {name: _sha256(root / name) for name in [*inputs, *recipes]},
    }


def differences(path: Path, shown: str, lock: str, tree: Mapping[str, Any]) -> Iterator[str]:
    """How the seal at `path` differs from the seal that the tree would get, one line each.

    :param lock: name of the lock, for messages.
    :raises LockError: the seal cannot be read.
    """
    site = tree["site"]
    again = f"make lock SITE={site}"
    sealed = _valid(path, shown, _SEAL, f"{again} writes it")
    if sealed["site"] != site:
        yield f"{shown}: site: is {sealed['site']!r}, this is {site!r}: another site's; {again}"
    for what in ("spack", "packages"):
        for key in ("version", "commit"):
            if sealed[what][key] != tree[what][key]:
                yield (
                    f"{shown}: {what}:{key}: solved with {sealed[what][key]}, "
                    f"spack-repo/pins.yaml has {tree[what][key]}; {again}"
                )
    if sealed["lock"] != tree["lock"]:
        yield f"{shown}: lock: {lock} is not the one that was sealed; {again}"
    before, now = sealed["files"], tree["files"]
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            how = "is new" if name not in before else "is gone" if name not in now else "changed"
            yield f"{shown}: files: {name} {how} since {lock} was solved; {again}"


def write(path: Path, seal: Mapping[str, Any]) -> bool:
    """Write a seal in one step; False if the file already says the same, except for the date.

    :raises OSError: it cannot be written. The old file stays.
    """
    with contextlib.suppress(LockError):
        old = read_yaml(path, str(path))
        if isinstance(old, dict) and {**old, "date": seal["date"]} == seal:
            return False
    text = "# What the lock beside it was solved from. Written by `assay lock seal` only.\n"
    text += yaml.safe_dump(dict(seal), sort_keys=False, width=1000)
    files.write(path, text)
    return True


def _recipes(folder: Path) -> list[Path]:
    """Every file of the project's recipes, including patches, without Python's and hidden files."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(
            part.startswith(".") or part == "__pycache__" for part in path.relative_to(folder).parts
        )
    )


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise LockError(f"{path}: {error.strerror}") from None


def _valid(path: Path, shown: str, schema: Mapping[str, Any], mend: str) -> Any:
    try:
        document = read_yaml(path, shown)
    except LockError as error:
        raise LockError(f"{error}; {mend}") from None
    fault = misfit(jsonschema.Draft202012Validator(schema), document)
    if fault:
        raise LockError(f"{shown}: {fault}; {mend}")
    return document
