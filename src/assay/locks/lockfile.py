"""``spack.lock``: the hash of each node, and the graph.

Written for lockfile version 6 with nodes of version 5, which Spack 1.1 writes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Node = Mapping[str, Any]
#: What code that reads a lock or seal of another shape raises.
MISSHAPEN = (AttributeError, KeyError, TypeError, ValueError, RecursionError)


class LockError(Exception):
    """A fault of a lock; the message is one line with the file, the key and the remedy."""


class Lock:
    """A lock; :mod:`assay.locks.rules` checks its content.

    :ivar file: its name in messages.
    :ivar nodes: each node of ``concrete_specs`` by its key, which should be its hash.
    :ivar roots: (text of the spec, hash) in the order of the file.
    """

    def __init__(self, path: Path, shown: str) -> None:
        """Read a lock.

        :param shown: how messages name the file.
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
        if versions != (6, 5) or not re.match(r"1\.1\.", str(self.spack.get("version"))):
            raise LockError(f"{shown}: versions {versions} of another Spack than 1.1")

    def hash_of(self, node: Node) -> str:
        """The hash that Spack gives a node, from its content.

        ``Spec.spec_hash`` in ``lib/spack/spack/spec.py``: SHA-1 of the compact JSON, in base 32.
        Spack 1.1.0 hashed externals before it gave them their namespace. Spack 1.1.1 hashes them
        after that (commit 946a9001ca), so the same stack has other hashes.
        """
        old = "external" in node and re.match(r"1\.1\.0(\D|$)", self.spack["version"])
        left_out = ("hash", "namespace") if old else ("hash",)
        content = {key: value for key, value in node.items() if key not in left_out}
        text = json.dumps(content, separators=(",", ":"))
        digest = hashlib.sha1(text.encode("ascii"), usedforsecurity=False).digest()
        return base64.b32encode(digest).decode("ascii").lower()

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


def package(spec: str) -> str:
    """The package of a spec of the catalogue: its name, without variants."""
    return re.split("[+~]", spec)[0]


def is_of(node: Node, spec: str) -> bool:
    """Whether a node is of a spec of the catalogue: a name with switches, such as ``ucx~stats``."""
    switches = re.findall(r"([+~])(\w+)", spec)
    return node["name"] == package(spec) and all(
        node["parameters"].get(name) is (sign == "+") for sign, name in switches
    )
