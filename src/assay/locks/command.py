"""The implementation of ``assay lock check`` and ``assay lock seal``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assay.locks import rules, seal
from assay.locks.lockfile import Lock, LockError
from assay.locks.manifest import Manifest

_PINS = "spack-repo/pins.yaml"


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


def run(action: str, root: Path, site: str | None) -> int:
    """Run ``check`` or ``seal`` for one site, or all; returns the exit code.

    1: there is a fault. 2: there is no such site, or no repository.
    """
    if not (root / "site-config").is_dir():
        print(
            f"assay lock: {root / 'site-config'}: no such folder; run from the repository, or "
            "give --root",
            file=sys.stderr,
        )
        return 2
    try:
        found = environments(root)
    except LockError as error:
        _complain(error)
        return 1
    if site is not None and site not in found:
        known = ", ".join(found) or "none"
        print(f"assay lock: unknown site {site!r}; known are {known}", file=sys.stderr)
        return 2
    if not found:
        where = root / "site-config/<site>/spack"
        print(f"assay lock: {where}: no site has a stack; see docs/stack.md", file=sys.stderr)
        return 2
    act = {"check": _check, "seal": _seal}[action]
    bad = 0
    for environment in [found[site]] if site is not None else found.values():
        try:
            faults = act(environment)
        except LockError as error:
            faults = [str(error)]
        for fault in faults:
            _complain(fault)
        bad += len(faults)
    return 1 if bad else 0


def environments(root: Path) -> dict[str, Environment]:
    """The environment of each site that has a folder ``spack``, by name.

    :raises LockError: the manifest at the top cannot be read.
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
        included = Manifest(root, top).files
        for site in found:
            if any(file.startswith(f"site-config/{site}/spack/") for file in included):
                found[site] = Environment(site, root, Path())
    return found


def _check(environment: Environment) -> list[str]:
    """All faults of one environment; prints a line if there are no faults.

    :raises LockError: a file cannot be read or understood, so that nothing else can be checked.
    """
    faults, tree = _content(environment)
    _, lock = environment.file("spack.lock")
    try:
        faults += seal.differences(*environment.file("spack.lock.seal.yaml"), lock, tree)
    except LockError as error:
        faults.append(str(error))
    if not faults:
        print(f"{environment.site}: {lock} is sound")
    return faults


def _seal(environment: Environment) -> list[str]:
    """Seal the lock of one environment, unless it has faults.

    :raises LockError: a file cannot be read or understood.
    """
    faults, tree = _content(environment)
    path, shown = environment.file("spack.lock.seal.yaml")
    if faults:
        return [*faults, f"{shown}: not written: the lock has faults"]
    try:
        written = seal.write(path, tree)
    except OSError as error:
        return [f"{shown}: {error.strerror}; make its folder writable"]
    print(f"{environment.site}: {shown} {'written' if written else 'said so already'}")
    return []


def _content(environment: Environment) -> tuple[list[str], Mapping[str, object]]:
    """The faults of everything except the seal, and the seal that the tree would get."""
    root = environment.root
    manifest = Manifest(root, environment.file("spack.yaml")[0])
    pins = seal.load_pins(root / _PINS, _PINS)
    path, file = environment.file("spack.lock")
    mend = f"make lock SITE={environment.site}"
    try:
        lock = Lock.load(path, file)
    except LockError as error:
        raise LockError(f"{error}; {mend}") from None
    faults = (
        *rules.hashes(lock),
        *rules.roots(lock, manifest),
        *rules.requirements(lock, manifest),
        *rules.externals(lock, manifest),
        *rules.hardware(lock, manifest),
        *rules.pins(lock, pins, _PINS),
        *rules.iron(lock),
    )
    tree = seal.of(root, environment.site, path, manifest.files, pins)
    return [f"{fault}; {mend}" for fault in faults], tree


def _complain(fault: object) -> None:
    """Prints a fault as one line on stderr; unprintable characters from a file are escaped."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(fault))
    print(f"assay lock: {line}", file=sys.stderr)
