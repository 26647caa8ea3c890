"""What Spack wrote of a stack: ``spack.lock``, and the seal of the lock beside it.

The lock has the packages: lockfile version 6 with nodes of version 5, of Spack 1.1 and 1.2.

``spack.lock.seal.yaml`` has what Spack said about the lock when it solved it, since Spack itself
notices no changed requirement, site or recipe: docs/stack.md. Only `make lock` writes a seal.
``ci/spack-check.py`` compares both files with the manifests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

Node = Mapping[str, Any]
#: What code that reads a lock or seal of another shape raises.
MISSHAPEN = (AttributeError, KeyError, TypeError, ValueError, RecursionError)


class LockError(Exception):
    """A fault of a lock; the message is one line with the file, the key and the remedy."""


class Lock:
    """A lock; ``ci/spack-check.py`` checks its content.

    :ivar nodes: each node of ``concrete_specs`` by its key, which should be its hash.
    :ivar roots: (text of the spec, hash) in the order of the file.
    """

    def __init__(self, path: Path, shown: str) -> None:
        """Read a lock.

        :raises LockError: it cannot be read, or is no lock of a version that is understood.
        """
        self.file = shown
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            meta = document["_meta"]
            versions = meta["lockfile-version"], meta["specfile-version"]
            self.spack: Mapping[str, str] = {**document["spack"]}
            self.roots: list[tuple[str, str]] = [(r["spec"], r["hash"]) for r in document["roots"]]
            self.nodes: Mapping[str, Node] = {**document["concrete_specs"]}
        except OSError as error:
            raise LockError(f"{shown}: {error.strerror}") from None
        except MISSHAPEN as error:
            raise LockError(f"{shown}: not a lock of Spack: {error!r}") from None
        if versions != (6, 5) or not re.match(r"1\.[12]\.", str(self.spack.get("version"))):
            raise LockError(f"{shown}: versions {versions} of another Spack than 1.1 or 1.2")


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


def package(spec: str) -> str:
    """The package of a spec of the catalogue: its name, without variants."""
    return re.split("[+~]", spec)[0]


def is_of(node: Node, spec: str) -> bool:
    """Whether a node is of a spec of the catalogue: a name with switches, such as ``ucx~stats``."""
    switches = re.findall(r"([+~])(\w+)", spec)
    return node["name"] == package(spec) and all(
        node["parameters"].get(name) is (sign == "+") for sign, name in switches
    )
