"""``spack.lock.seal.yaml``: what Spack said about a lock when it solved it.

Spack does not notice a changed requirement, another site or a changed recipe. It answers that there
is nothing new to solve. The seal therefore holds a digest of each key of each file that Spack read.
It also holds the facts that only Spack knows, such as the packages of each view. Only `make lock`
writes a seal, in the same process that solves (``ci/spack-lock.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

    @classmethod
    def load(cls, path: Path, shown: str) -> Seal:
        """Read a seal.

        :param shown: how messages name the file.
        :raises LockError: it cannot be read or does not have the shape of a seal.
        """
        return files.read(path, cls, LockError, shown)


def differences(root: Path, folder: Path, seal: Seal) -> Iterator[str]:
    """How the files differ from what was sealed: one line for each key.

    :param folder: the folder of the lock, relative to `root`.
    :raises LockError: a file cannot be read.
    """
    lock = (folder / "spack.lock").as_posix()
    since = f"since {lock} was solved"
    before, now = seal.files, {}
    for name in [lock, *digest.inputs(root, (folder / "spack.yaml").as_posix(), seal.scopes)]:
        if (root / name).exists():
            now[name] = _digests(root / name, name)
    faults = list(_changes(before, now, since))
    for name in sorted(before.keys() & now.keys()):
        faults += [f"{name}: {each}" for each in _changes(before[name], now[name], since)]
    written = digest.of((root / lock).read_bytes())
    if seal.lock != written and not any(fault.startswith(f"{lock}: ") for fault in faults):
        faults.append(f"{lock}: is not the file that Spack wrote")
    yield from faults


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], since: str) -> Iterator[str]:
    """What came and went; of digests also what changed."""
    for key in sorted(before.keys() | now.keys()):
        what = f"{key} " if key else ""
        if key not in before:
            yield f"{what}is new {since}"
        elif key not in now:
            yield f"{what}is gone {since}"
        elif isinstance(now[key], str) and before[key] != now[key]:
            yield f"{what}changed {since}"


def _digests(path: Path, shown: str) -> dict[str, str]:
    try:
        return digest.of_file(path, lambda each: files.read_yaml(each, LockError, shown))
    except OSError as error:
        raise LockError(f"{shown}: {error.strerror}") from None
    except MISSHAPEN as error:
        raise LockError(f"{shown}: not a lock of Spack: {error!r}") from None
