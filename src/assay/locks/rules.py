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

#: Variants of UCX that MPI on GPUs and InfiniBand needs; by default all are off in the recipe.
UCX_ON_GPUS = (
    "cuda", "gdrcopy", "verbs", "rc", "ud", "dc", "mlx5_dv", "rdmacm", "cma", "thread_multiple",
)  # fmt: skip
#: Spack itself finds the C library of the machine that solves; no packages.yaml lists it.
_LIBC = ("glibc", "musl")


def hashes(lock: Lock) -> Iterator[str]:
    """Every node has the hash of its content, and the graph is whole."""
    for key, node in lock.nodes.items():
        where, name = f"{lock.file}: concrete_specs:{key}", node["name"]
        if node["hash"] != key:
            yield f"{where}: hash: is {node['hash']} in {name} itself"
        if (content := lock.hash_of(node)) != node["hash"]:
            what = f"content of {name}@{node['version']} has hash {content}"
            yield f"{where}: hash: {what}: it was edited after solving"
        for edge in edges(node):
            what, target = f"dependencies: {edge['name']}", lock.nodes.get(edge["hash"])
            if target is None:
                yield f"{where}: {what}/{edge['hash'][:7]} of {name} is not in the lock"
            elif target["name"] != edge["name"]:
                yield f"{where}: {what} of {name} is {label(target)}"
    for text, key in lock.roots:
        if key not in lock.nodes:
            yield f"{lock.file}: roots: {text!r}: {key} is not in the lock"
    for key in sorted(lock.nodes.keys() - lock.used()):
        yield f"{lock.file}: concrete_specs:{key}: no root needs {label(lock.nodes[key])}"


def pins(lock: Lock, root: Path) -> Iterator[str]:
    """The lock was solved by the pinned Spack; another Spack gives other hashes.

    :raises LockError: the pins cannot be read or understood.
    """
    pinned = files.read_yaml(root / PINS, LockError, PINS)
    try:
        wanted = {key: pinned["spack"][key] for key in ("version", "commit")}
    except MISSHAPEN as error:
        raise LockError(f"{PINS}: spack: {error!r}; see docs/stack.md") from None
    for key, want in wanted.items():
        if (have := lock.spack.get(key)) != want:
            yield f"{lock.file}: spack:{key}: is {have}, {PINS} has {want}"


def site(lock: Lock, seal: Seal) -> Iterator[str]:
    """Externals are where the site has them; the rest is built for its processors and GPUs.

    Spack takes target and `cuda_arch` as preferences: it may choose another without a word.
    """
    targets, gpus = seal.hardware.target, seal.hardware.cuda_arch
    for node in lock.nodes.values():
        where, name = lock.at(node), node["name"]
        if "external" in node:
            path = node["external"]["path"]
            if name not in _LIBC and path not in seal.externals.get(name, ()):
                yield f"{where}: {path} is in no packages:{name}:externals of the site"
            continue
        target = node["arch"]["target"]
        target = target if isinstance(target, str) else target["name"]
        if targets and target not in targets:
            yield f"{where} is for {target}, packages:all:target has {', '.join(targets)}"
        have = ",".join(sorted(map(str, _listed(node["parameters"].get("cuda_arch")))))
        if have and have != (want := ",".join(sorted(gpus)) or have):
            yield f"{where} has cuda_arch {have}, packages:all:prefer has {want}"


def views(lock: Lock, seal: Seal, shown: str) -> Iterator[str]:
    """No view holds two packages of one name, such as two UCX."""
    for view, keys in seal.views.items():
        names = [lock.nodes[key]["name"] for key in keys if key in lock.nodes]
        if len(names) != len(keys):
            yield f"{shown}: views:{view}: holds packages that are not in {lock.file}"
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{shown}: views:{view}: holds {names.count(name)} {name}; exclude one there"


def iron(lock: Lock, seal: Seal) -> Iterator[str]:
    """Open MPI uses UCX, and both use CUDA where the site or a package of the lock has it.

    A violation would show only as slow transfers.
    """
    cuda = bool(seal.hardware.cuda_arch or lock.named("cuda")) or any(
        node["parameters"].get("cuda") is True for node in lock.nodes.values()
    )
    for node in (*lock.named("openmpi"), *(lock.named("ucx") if cuda else ())):
        name, has, built = node["name"], node["parameters"], "external" not in node
        needs = {"ucx": "fabrics=ucx"}
        lacks = [] if "ucx" in _listed(has.get("fabrics")) else ["fabrics=ucx"]
        if name == "openmpi" and cuda and built and has.get("cuda") is not True:
            lacks.append("+cuda")
        elif name == "ucx":
            needs = {"cuda": "+cuda", "gdrcopy": "+gdrcopy"}
            lacks = [f"+{each}" for each in UCX_ON_GPUS if has.get(each) is not True]
        if lacks:
            yield f"{lock.at(node)} lacks {' '.join(lacks)}; require it in packages:{name}"
        absent = sorted(needs.keys() - {edge["name"] for edge in edges(node)})
        if built and absent:
            mend = f"require {' '.join(needs[each] for each in absent)} in packages:{name}"
            yield f"{lock.at(node)} does not depend on {' and '.join(absent)}; {mend}"


def settings(file: str, document: Any) -> Iterator[str]:
    """A file means the same on every machine, and hides nothing. Spack itself accepts all this."""
    inside = _at(document, "spack") or document
    for key in _keys(document):
        if key.endswith(":"):
            yield f"{file}: {key}: hides what other files say; use one colon"
    for entry in _listed(_at(inside, "include")):
        path = _at(entry, "path") or entry
        if isinstance(entry, dict) and not entry.keys() <= {"path", "optional"}:
            yield f"{file}: include: {path} has a condition; write a path, and nothing else"
        elif re.search(r"^/|[$~]|://", str(path)):
            mend = "write a path relative to this file"
            yield f"{file}: include: {path!r} depends on the machine that solves it; {mend}"
    for entry in _listed(_at(inside, "definitions")):
        if _at(entry, "when") is not None:
            yield f"{file}: definitions: `when` depends on the machine; use a list of its own"
    if _at(inside, "packages", "all", "require") is not None:
        mend = "use all:target or all:prefer, or require it for each package"
        yield f"{file}: packages:all:require: any package's own require replaces it; {mend}"


def _at(document: Any, *keys: str) -> Any:
    """The value below these keys, None if there is none."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _keys(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from map(str, document)
        document = [*document.values()]
    for each in document if isinstance(document, list) else ():
        yield from _keys(each)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
