"""The implementation of ``assay lock check``."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from assay import files
from assay.locks import digest, rules
from assay.locks.lockfile import MISSHAPEN, Lock, LockError
from assay.locks.seal import Seal, differences


@dataclass(frozen=True)
class Environment:
    """One manifest with its lock.

    :ivar root: the repository.
    :ivar folder: the folder of the manifest, relative to `root`.
    """

    site: str
    root: Path
    folder: Path

    def file(self, name: str) -> tuple[Path, str]:
        """A file of the environment, and its name in messages."""
        return self.root / self.folder / name, (self.folder / name).as_posix()


def run(root: Path, site: str | None) -> int:
    """Check the lock of one site, or all; returns the exit code.

    1: there is a fault. 2: there is no such site, or no repository.
    """
    if not (root / "site-config").is_dir():
        _complain(
            f"{root / 'site-config'}: no such folder; run from the repository, or give --root"
        )
        return 2
    try:
        found = environments(root)
    except LockError as error:
        _complain(error)
        return 1
    if site is not None and site not in found:
        _complain(f"unknown site {site!r}; known are {', '.join(found) or 'none'}")
        return 2
    if not found:
        _complain(f"{root / 'site-config/<site>/spack'}: no site has a stack; see docs/stack.md")
        return 2
    bad = 0
    for environment in [found[site]] if site is not None else found.values():
        try:
            faults = _faults(environment)
        except LockError as error:
            faults = [str(error)]
        for fault in faults:
            _complain(fault)
        if not faults:
            print(f"{environment.site}: {environment.file('spack.lock')[1]} is sound")
        bad += len(faults)
    return 1 if bad else 0


def environments(root: Path) -> dict[str, Environment]:
    """The environment of each site that has a folder ``spack``, by name.

    :raises LockError: the manifest at the top does not say which site it belongs to.
    """
    found = {
        folder.parent.name: Environment(
            folder.parent.name, root, Path("site-config", folder.parent.name, "spack", "env")
        )
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
        found[sites[0]] = Environment(sites[0], root, Path())
    return found


def _faults(environment: Environment) -> list[str]:
    """All faults of one environment.

    :raises LockError: a file cannot be read or understood, so that nothing else can be checked.
    """
    root, folder, name = environment.root, environment.folder, environment.site
    path, shown = environment.file("spack.lock.seal.yaml")
    mend = f"make lock SITE={name}"
    try:
        lock = Lock(*environment.file("spack.lock"))
        seal = Seal.load(path, shown)
        faults = [*differences(root, folder, seal), *rules.hashes(lock), *rules.pins(lock, root)]
        faults += [*rules.site(lock, seal), *rules.views(lock, seal, shown)]
        faults += rules.iron(lock, seal)
        for file in digest.inputs(root, (folder / "spack.yaml").as_posix(), seal.scopes):
            if file.endswith(".yaml") and (root / file).exists():
                faults += rules.settings(file, files.read_yaml(root / file, LockError, file))
    except LockError as error:
        raise LockError(f"{error}; {mend}") from None
    except MISSHAPEN as error:
        raise LockError(f"{lock.file}: not a lock of Spack: {error!r}; {mend}") from None
    if seal.site != name:
        faults.append(f"{shown}: site: is {seal.site!r}, this is {name!r}: another site's")
    return [f"{fault}; {mend}" for fault in faults]


def _complain(fault: object) -> None:
    """Prints a fault as one line on stderr; unprintable characters from a file are escaped."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(fault))
    print(f"assay lock: {line}", file=sys.stderr)
