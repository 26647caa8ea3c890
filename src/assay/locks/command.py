"""The implementation of ``assay lock check``."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from assay import files
from assay.exits import Exit
from assay.locks import digest, rules
from assay.locks.lockfile import MISSHAPEN, Lock, LockError
from assay.locks.seal import Seal, differences


def run(args: argparse.Namespace) -> int:
    """Check the lock of one site, or all; returns the exit code."""
    root, site = args.root, args.site
    folder = root / "site-config"
    if not folder.is_dir():
        return _complain(f"{folder}: no such folder; give --root", Exit.UNKNOWN)
    try:
        found = environments(root)
    except LockError as error:
        return _complain(error)
    if site is not None and site not in found:
        what = f"unknown site {site!r}; known are {', '.join(found) or 'none'}"
        return _complain(what, Exit.USAGE)
    if not found:
        return _complain(f"{folder}: no site has a stack; see docs/stack.md", Exit.UNKNOWN)
    bad = Exit.PASS
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
    lock, seal = Lock(root / locked, locked), files.read(root / sealed, Seal, LockError, sealed)
    try:
        names = digest.inputs(root, manifest, seal.scopes)
        faults = [*differences(root, locked, names, seal), *rules.hashes(lock)]
        faults += [*rules.pins(lock, root), *rules.site(lock, seal)]
        faults += [*rules.views(lock, seal, sealed), *rules.iron(lock, seal)]
        for name in names:
            if name.endswith(".yaml") and (root / name).exists():
                faults += rules.settings(name, files.read_yaml(root / name, LockError, name))
    except MISSHAPEN as error:
        raise LockError(f"{locked}: not a lock of Spack: {error!r}") from None
    if seal.site != site:
        faults.append(f"{sealed}: site: is {seal.site!r}, this is {site!r}: another site's")
    return faults


def _complain(fault: object, code: Exit = Exit.FAIL) -> Exit:
    """Print a fault as one line on stderr, with unprintable characters escaped; returns `code`."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(fault))
    print(f"assay lock: {line}", file=sys.stderr)
    return code
