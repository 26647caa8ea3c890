"""Digests of what the files of a stack mean, one for each key.

A comment or an empty line changes no digest, so it needs no new solution. Spack's own Python
imports this module too (``spack-lock.py``): it uses only the standard library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

#: Our recipes, the pinned commits of Spack and of its recipes, and what outranks each manifest.
RECIPES, PINS = "spack-repo/spack_repo", "spack-repo/pins.yaml"
MAKE = "site-config/common/spack-make"


def of(value: Any) -> str:
    """SHA-256 of bytes, or of the JSON of any other value. The order of keys counts."""
    data = value if isinstance(value, bytes) else json.dumps(value, default=str).encode()
    return hashlib.sha256(data).hexdigest()


def inputs(root: Path, manifest: str, scopes: Iterable[str]) -> list[str]:
    """The files that a lock depends on, relative to the repository.

    :param manifest: its ``spack.yaml``, relative to `root`.
    :param scopes: the folders and files that it includes, relative to `root`.
    """
    found = [root / manifest, root / PINS]
    for path in (root / scope for scope in (*scopes, MAKE)):
        found += sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    for path in sorted((root / RECIPES).rglob("*")):
        parts = path.relative_to(root).parts
        if path.is_file() and not any(p.startswith(".") or p == "__pycache__" for p in parts):
            found.append(path)
    return [path.relative_to(root).as_posix() for path in found]


def of_file(path: Path, read_yaml: Callable[[Path], Any]) -> dict[str, str]:
    """The digest of each key of a YAML file, of each package of a lock, or of another file's bytes.

    :raises OSError: the file cannot be read.
    """
    if path.suffix == ".yaml":
        return _of_keys(read_yaml(path))
    content = path.read_bytes()
    return _of_packages(json.loads(content)) if path.suffix == ".lock" else {"": of(content)}


def _of_keys(document: Any) -> dict[str, str]:
    if not isinstance(document, dict):
        return {"": of(document)}
    found = {}
    for section, value in document.items():
        # The first repository that has a recipe wins, so their order counts.
        if isinstance(value, dict) and section != "repos":
            found.update({f"{section}:{key}": of(each) for key, each in value.items()})
        else:
            found[str(section)] = of(value)
    return found


def _of_packages(lock: Mapping[str, Any]) -> dict[str, str]:
    """Digests by package. A package that depends on a changed one keeps its digest."""
    found: dict[str, list[str]] = {}
    for node in lock["concrete_specs"].values():
        edges = [{**edge, "hash": None} for edge in node.get("dependencies", ())]
        own = of({**node, "hash": None, "dependencies": edges})
        found.setdefault(f"concrete_specs:{node['name']}", []).append(own)
    texts = sorted(root["spec"] for root in lock["roots"])
    return {**{name: of(sorted(each)) for name, each in found.items()}, "roots": of(texts)}
