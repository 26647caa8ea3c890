"""The rules that a lock must fulfil, whatever its manifest says; the checks do not need Spack.

Each fault is one line that names the file and the key. All faults have the same remedy: solve
again. If something must be changed before, the line says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay import files
from assay.locks.digest import PINS
from assay.locks.lockfile import MISSHAPEN, Lock, LockError, edges, label
from assay.locks.seal import Seal

#: The variants of UCX that MPI on GPUs and InfiniBand needs to avoid a silent fallback. All of them
#: are off by default in the recipe.
UCX_ON_GPUS = (
    "cuda", "gdrcopy", "verbs", "rc", "ud", "dc", "mlx5_dv", "rdmacm", "cma", "thread_multiple",
)  # fmt: skip
#: Spack itself finds the C library of the machine that solves; no packages.yaml lists it.
_LIBC = ("glibc", "musl")


def hashes(lock: Lock) -> Iterator[str]:
    """Every node has the hash of its content, and the graph is whole."""
    for key, node in lock.nodes.items():
        where = f"{lock.file}: concrete_specs:{key}"
        if node["hash"] != key:
            yield f"{where}: hash: is {node['hash']} in {node['name']} itself"
        content = lock.hash_of(node)
        if content != node["hash"]:
            yield (
                f"{where}: hash: content of {node['name']}@{node['version']} has hash {content}: "
                "it was edited after solving"
            )
        for edge in edges(node):
            target = lock.nodes.get(edge["hash"])
            if target is None:
                yield (
                    f"{where}: dependencies: {edge['name']}/{edge['hash'][:7]} of {node['name']} "
                    "is not in the lock"
                )
            elif target["name"] != edge["name"]:
                yield f"{where}: dependencies: {edge['name']} of {node['name']} is {label(target)}"
    used: set[str] = set()
    for text, key in lock.roots:
        if key not in lock.nodes:
            yield f"{lock.file}: roots: {text!r}: {key} is not in the lock"
        else:
            used |= {key, *lock.below(key)}
    for key in sorted(set(lock.nodes) - used):
        yield f"{lock.file}: concrete_specs:{key}: no root needs {label(lock.nodes[key])}"


def pins(lock: Lock, root: Path) -> Iterator[str]:
    """The lock was solved by the pinned Spack; another Spack gives other hashes.

    :raises LockError: the pins cannot be read or understood.
    """
    pinned = files.read_yaml(root / PINS, LockError, PINS)
    for key in ("version", "commit"):
        try:
            have, want = lock.spack.get(key), pinned["spack"][key]
        except MISSHAPEN as error:
            raise LockError(f"{PINS}: spack: {error!r}; see docs/stack.md") from None
        if have != want:
            yield f"{lock.file}: spack:{key}: is {have}, {PINS} has {want}"


def site(lock: Lock, seal: Seal) -> Iterator[str]:
    """Externals are where the site has them; the rest is built for its processors and GPUs.

    Spack takes target and `cuda_arch` as preferences: it may choose another without a word.
    """
    targets, gpus = seal.hardware.target, seal.hardware.cuda_arch
    for node in lock.nodes.values():
        where = f"{lock.file}: concrete_specs:{node['hash']}: {label(node)}"
        if "external" in node:
            path, name = node["external"]["path"], node["name"]
            if name not in _LIBC and path not in seal.externals.get(name, ()):
                yield f"{where}: {path} is in no packages:{name}:externals of the site"
            continue
        target = node["arch"]["target"]
        target = target if isinstance(target, str) else target["name"]
        if targets and target not in targets:
            yield f"{where} is for {target}, packages:all:target has {', '.join(targets)}"
        have = _listed(node["parameters"].get("cuda_arch", []))
        if gpus and have and set(have) != set(gpus):
            yield (
                f"{where} has cuda_arch {','.join(map(str, have))}, packages:all:prefer has "
                f"{','.join(gpus)}"
            )


def views(lock: Lock, seal: Seal, shown: str) -> Iterator[str]:
    """No view holds two packages of one name, such as two UCX."""
    for view, keys in seal.views.items():
        names = [lock.nodes[key]["name"] for key in keys if key in lock.nodes]
        if len(names) != len(keys):
            yield f"{shown}: views:{view}: holds packages that are not in {lock.file}"
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{shown}: views:{view}: holds {names.count(name)} {name}; exclude one there"


def iron(lock: Lock, seal: Seal) -> Iterator[str]:
    """Open MPI uses UCX, and both use CUDA where GPUs are promised.

    A violation would show only as slow transfers. GPUs are promised by the site's `cuda_arch`, and
    by any package of the lock that uses CUDA.
    """
    cuda = bool(seal.hardware.cuda_arch or lock.named("cuda")) or any(
        node["parameters"].get("cuda") is True for node in lock.nodes.values()
    )
    for node in lock.named("openmpi"):
        where = f"{lock.file}: concrete_specs:{node['hash']}: {label(node)}"
        if "ucx" not in _listed(node["parameters"].get("fabrics")):
            yield f"{where} lacks fabrics=ucx; require it in packages:openmpi"
        if "external" not in node and "ucx" not in {edge["name"] for edge in edges(node)}:
            yield f"{where} does not depend on ucx; require fabrics=ucx in packages:openmpi"
        if cuda and "external" not in node and node["parameters"].get("cuda") is not True:
            yield f"{where} lacks +cuda; require it in packages:openmpi"
    for node in lock.named("ucx") if cuda else ():
        where = f"{lock.file}: concrete_specs:{node['hash']}: {label(node)}"
        lacks = [f"+{name}" for name in UCX_ON_GPUS if node["parameters"].get(name) is not True]
        if lacks:
            yield f"{where} lacks {' '.join(lacks)}; require it in packages:ucx"
        needs = {"cuda", "gdrcopy"} - {edge["name"] for edge in edges(node)}
        if "external" not in node and needs:
            yield (
                f"{where} does not depend on {' and '.join(sorted(needs))}; require "
                f"{' '.join('+' + name for name in sorted(needs))} in packages:ucx"
            )


def settings(file: str, document: Any) -> Iterator[str]:
    """A file of the configuration means the same on every machine, and hides nothing.

    Spack would accept all that is refused here.
    """
    inside = _at(document, "spack") or document
    for key in _keys(document):
        if key.endswith(":"):
            yield f"{file}: {key}: hides what other files say; use one colon"
    for entry in _listed(_at(inside, "include")):
        path = _at(entry, "path") or entry
        if isinstance(entry, dict) and not entry.keys() <= {"path", "optional"}:
            yield f"{file}: include: {path} has a condition; write a path, and nothing else"
        elif re.search(r"^/|[$~]|://", str(path)):
            yield (
                f"{file}: include: {path!r} depends on the machine that solves it; write a path "
                "relative to this file"
            )
    for entry in _listed(_at(inside, "definitions")):
        if _at(entry, "when") is not None:
            yield f"{file}: definitions: `when` depends on the machine; use a list of its own"
    if _at(inside, "packages", "all", "require") is not None:
        yield (
            f"{file}: packages:all:require: any package's own require replaces it; "
            "use all:target or all:prefer, or require it for each package"
        )
    if _at(inside, "config", "checksum") not in (None, True):
        yield f"{file}: config:checksum: sources are verified; remove it"
    if _at(inside, "concretizer", "reuse") not in (None, False):
        yield f"{file}: concretizer:reuse: what is installed must not change the lock; use false"


def _at(document: Any, *keys: str) -> Any:
    """The value below these keys, None if there is none."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _keys(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield str(key)
            yield from _keys(value)
    elif isinstance(document, list):
        for each in document:
            yield from _keys(each)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
