#!/usr/bin/env python3
"""Checks that the locks of the Spack stacks match their manifests. It does not need Spack.

ci/spack-check.py [--site SITE] [--root DIR]

It recomputes each hash of spack.lock, compares all files with the seal that Spack wrote when it
solved, and holds the lock against rules that no manifest may change. docs/stack.md explains them.

The reference environment is spack.yaml at the top of the repository. It belongs to the site that it
includes. Other sites have their environment in site-config/SITE/spack/env. Each environment has a
lock, spack.lock, and a seal of the lock, spack.lock.seal.yaml. Spack writes both (`make lock`).

Each fault is one line that names the file and the key. All faults have the same remedy: solve
again. If something must be changed before, the line says so. Ends with 0 if all is sound, with 1 if
there is a fault, and with 2 if there is no such site or repository.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "ci"), str(ROOT / "src")]

import spack_digest as digest  # noqa: E402

from assay import files  # noqa: E402
from assay.locks import MISSHAPEN, Lock, LockError, Node, Seal  # noqa: E402

#: Variants of UCX that MPI on GPUs and InfiniBand needs; by default all are off in the recipe.
UCX_ON_GPUS = (
    "cuda", "gdrcopy", "verbs", "rc", "ud", "dc", "mlx5_dv", "rdmacm", "cma", "thread_multiple",
)  # fmt: skip
#: Spack itself finds the C library of the machine that solves; no packages.yaml lists it.
_LIBC = ("glibc", "musl")


class Checked(Lock):
    """A lock with its graph."""

    def hash_of(self, node: Node) -> str:
        """The hash that Spack gives a node, from its content.

        ``Spec.spec_hash`` in ``lib/spack/spack/spec.py``: SHA-1 of the compact JSON, in base 32.
        Spack 1.1.0 hashed externals before it gave them their namespace. Newer ones hash them
        after that (commit 946a9001ca), so the same stack has other hashes.
        """
        old = "external" in node and re.match(r"1\.1\.0(\D|$)", self.spack["version"])
        left_out = ("hash", "namespace") if old else ("hash",)
        content = {key: value for key, value in node.items() if key not in left_out}
        text = json.dumps(content, separators=(",", ":"))
        own = hashlib.sha1(text.encode("ascii"), usedforsecurity=False).digest()
        return base64.b32encode(own).decode("ascii").lower()

    def used(self) -> set[str]:
        """Keys of the roots, and of all nodes that they depend on, directly or indirectly."""
        seen: set[str] = set()
        ahead = [key for _, key in self.roots]
        while ahead:
            key = ahead.pop()
            if key in self.nodes and key not in seen:
                seen.add(key)
                ahead += [edge["hash"] for edge in edges(self.nodes[key])]
        return seen

    def at(self, node: Node) -> str:
        """How messages name a node of this lock."""
        return f"{self.file}: concrete_specs:{node['hash']}: {label(node)}"

    def named(self, name: str) -> list[Node]:
        """All nodes of one package."""
        return [node for node in self.nodes.values() if node["name"] == name]


def edges(node: Node) -> list[Mapping[str, Any]]:
    """The direct dependencies of a node, as the lock lists them."""
    return node.get("dependencies", [])  # type: ignore[no-any-return]


def label(node: Node) -> str:
    """The name of a node in messages: package, version and the start of its hash, as in Spack."""
    return f"{node['name']}@{node['version']}/{node['hash'][:7]}"


def hashes(lock: Checked) -> Iterator[str]:
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


def pins(lock: Checked, root: Path) -> Iterator[str]:
    """The lock was solved by the pinned Spack; another Spack gives other hashes.

    :raises LockError: the pins cannot be read or understood.
    """
    pinned = files.read_yaml(root / digest.PINS, LockError, digest.PINS)
    try:
        wanted = {key: pinned["spack"][key] for key in ("version", "commit")}
    except MISSHAPEN as error:
        raise LockError(f"{digest.PINS}: spack: {error!r}; see docs/stack.md") from None
    for key, want in wanted.items():
        if (have := lock.spack.get(key)) != want:
            yield f"{lock.file}: spack:{key}: is {have}, {digest.PINS} has {want}"


def of_site(lock: Checked, seal: Seal) -> Iterator[str]:
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


def views(lock: Checked, seal: Seal, shown: str) -> Iterator[str]:
    """No view holds two packages of one name, such as two UCX."""
    for view, keys in seal.views.items():
        names = [lock.nodes[key]["name"] for key in keys if key in lock.nodes]
        if len(names) != len(keys):
            yield f"{shown}: views:{view}: holds packages that are not in {lock.file}"
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{shown}: views:{view}: holds {names.count(name)} {name}; exclude one there"


def iron(lock: Checked, seal: Seal) -> Iterator[str]:
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


# --- all faults -----------------------------------------------------------------------------------


def differences(root: Path, lock: str, names: Iterable[str], seal: Seal) -> Iterator[str]:
    """How the files differ from what was sealed: one line for each key.

    :param lock: the lock, relative to the repository.
    :param names: the other files.
    :raises LockError: a file cannot be read.
    """

    def read(path: Path) -> Any:
        return files.read_yaml(path, LockError, path.relative_to(root))

    since = f"since {lock} was solved"
    now: dict[str, dict[str, str]] = {}
    for name in (each for each in (lock, *names) if (root / each).exists()):
        try:
            now[name] = digest.of_file(root / name, read)
        except OSError as error:
            raise LockError(f"{name}: {error.strerror}") from None
        except MISSHAPEN as error:
            raise LockError(f"{name}: not a lock of Spack: {error!r}") from None
    changed = set()
    for name in sorted(seal.files.keys() | now.keys()):
        before, after = seal.files.get(name), now.get(name)
        if before is None or after is None:
            yield f"{name} {_fate(before, after)} {since}"
            continue
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                fate = _fate(before.get(key), after.get(key))
                yield f"{name}: {key and key + ' '}{fate} {since}"
                changed.add(name)
    if lock not in changed and seal.lock != digest.of((root / lock).read_bytes()):
        yield f"{lock}: is not the file that Spack wrote"


def _fate(before: object, after: object) -> str:
    return "is new" if before is None else "is gone" if after is None else "changed"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="spack-check", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--site", help="default: each site that has a stack")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: .)")
    options = parser.parse_args(arguments)
    return check(options.root, options.site)


def check(root: Path, site: str | None) -> int:
    """Check the lock of one site, or all; 1: there is a fault; 2: no such site or repository."""
    folder = root / "site-config"
    if not folder.is_dir():
        return _complain(f"{folder}: no such folder; run from the repository, or give --root", 2)
    try:
        found = environments(root)
    except LockError as error:
        return _complain(error)
    if site is not None and site not in found:
        return _complain(f"unknown site {site!r}; known are {', '.join(found) or 'none'}", 2)
    if not found:
        return _complain(f"{folder}/<site>/spack: no site has a stack; see docs/stack.md", 2)
    bad = 0
    for name in found if site is None else [site]:
        try:
            faults = _faults(root, name, found[name])
        except LockError as error:
            faults = [str(error)]
        for fault in faults:
            bad = _complain(f"{fault}; make lock SITE={name}")
        if not faults:
            print(f"{name}: {(found[name] / 'spack.lock').as_posix()} is sound")
    return bad


def environments(root: Path) -> dict[str, Path]:
    """Site -> folder of its manifest, relative to `root`; of each site with a folder ``spack``.

    :raises LockError: the manifest at the top does not say which site it belongs to.
    """
    found = {
        folder.parent.name: folder.relative_to(root) / "env"
        for folder in sorted(root.glob("site-config/*/spack"))
        if folder.is_dir() and folder.parent.name != "common"
    }
    top = root / "spack.yaml"
    if top.exists():
        text = top.read_text(encoding="utf-8", errors="replace")
        included = re.findall(r"^ *- site-config/([^/\n]+)/spack$", text, re.MULTILINE)
        sites = [name for name in included if name in found]
        if not sites:
            files.read_yaml(top, LockError, "spack.yaml")
            raise LockError("spack.yaml: include: names no site; write - site-config/<site>/spack")
        found[sites[0]] = Path()
    return found


def _faults(root: Path, site: str, folder: Path) -> list[str]:
    """All faults of the environment of one site.

    :raises LockError: a file cannot be read or understood, so that nothing else can be checked.
    """
    manifest, locked, sealed = (
        (folder / name).as_posix() for name in ("spack.yaml", "spack.lock", "spack.lock.seal.yaml")
    )
    lock, seal = (
        Checked(root / locked, locked),
        files.read_shape(root / sealed, Seal, LockError, sealed),
    )
    try:
        names = digest.inputs(root, manifest, seal.scopes)
        faults = [*differences(root, locked, names, seal), *hashes(lock)]
        faults += [*pins(lock, root), *of_site(lock, seal)]
        faults += [*views(lock, seal, sealed), *iron(lock, seal)]
        for name in names:
            if name.endswith(".yaml") and (root / name).exists():
                faults += settings(name, files.read_yaml(root / name, LockError, name))
    except MISSHAPEN as error:
        raise LockError(f"{locked}: not a lock of Spack: {error!r}") from None
    if seal.site != site:
        faults.append(f"{sealed}: site: is {seal.site!r}, this is {site!r}: another site's")
    return faults


def _complain(fault: object, code: int = 1) -> int:
    """Print a fault as one line on stderr, with unprintable characters escaped; returns `code`."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(fault))
    print(f"spack-check: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
