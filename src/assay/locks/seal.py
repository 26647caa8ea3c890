"""``spack.lock.seal.yaml``: what Spack said about a lock when it solved it.

Spack does not notice a changed requirement, another site or a changed recipe. It answers that there
is nothing new to solve. The seal therefore holds a digest of each key of each file that Spack read.
It also holds the facts that only Spack knows, such as the packages of each view. Only `make lock`
writes a seal, in the same process that solves (``ci/spack-lock.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay import files
from assay.locks import digest
from assay.locks.lockfile import MISSHAPEN, LockError


class Hardware(msgspec.Struct, frozen=True):
    """It has target and cuda_arch: processors, and generations of GPUs, that the site asks for."""

    target: list[str]
    cuda_arch: list[str]


class Seal(msgspec.Struct, frozen=True):
    """A seal that `make lock` wrote, as far as it is read here.

    :ivar lock: SHA-256 of the bytes of the lock.
    :ivar scopes: the folders and files that the manifest includes, the strongest first.
    :ivar externals: package -> the prefixes that the site names.
    :ivar views: view -> hashes of its packages, externals included.
    :ivar files: file -> key -> digest.
    """

    site: str
    lock: str
    scopes: list[str]
    hardware: Hardware
    externals: dict[str, list[str]]
    views: dict[str, list[str]]
    files: dict[str, dict[str, str]]


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
