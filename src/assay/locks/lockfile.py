"""``spack.lock``: its shape, the hash of each node, and the graph.

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

import jsonschema

_HASH = {"type": "string", "pattern": "^[a-z2-7]{32}$"}
_NAME = {"type": "string", "pattern": r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"}
_WORD = {"type": ["string", "boolean"]}
_SCHEMA = {
    "type": "object",
    "required": ["_meta", "spack", "roots", "concrete_specs"],
    "properties": {
        "_meta": {
            "type": "object",
            "required": ["file-type", "lockfile-version", "specfile-version"],
            "properties": {
                "file-type": {"const": "spack-lockfile"},
                "lockfile-version": {"const": 6},
                "specfile-version": {"const": 5},
            },
        },
        "spack": {
            "type": "object",
            "required": ["version"],
            "properties": {
                "version": {"type": "string", "pattern": r"^1\.1\."},
                "commit": {"type": "string"},
            },
        },
        "roots": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["hash", "spec"],
                "properties": {"hash": _HASH, "spec": {"type": "string"}},
            },
        },
        "concrete_specs": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["name", "version", "arch", "namespace", "parameters", "hash"],
                "properties": {
                    "name": _NAME,
                    "version": {"type": "string"},
                    "namespace": _NAME,
                    "hash": _HASH,
                    "arch": {
                        "type": "object",
                        "required": ["platform", "platform_os", "target"],
                        "properties": {"target": {"type": ["string", "object"]}},
                    },
                    "parameters": {
                        "type": "object",
                        "additionalProperties": {
                            "anyOf": [_WORD, {"type": "array", "items": _WORD}]
                        },
                    },
                    "external": {
                        "type": "object",
                        "required": ["path"],
                        "properties": {
                            "path": {"type": "string"},
                            "module": {"type": ["null", "array"]},
                            "extra_attributes": {"type": "object"},
                        },
                    },
                    "build_spec": False,
                    "dependencies": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name", "hash", "parameters"],
                            "properties": {
                                "name": _NAME,
                                "hash": _HASH,
                                "parameters": {
                                    "type": "object",
                                    "required": ["deptypes", "virtuals"],
                                    "properties": {
                                        "deptypes": {"type": "array", "items": _NAME},
                                        "virtuals": {"type": "array", "items": _NAME},
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
_VALIDATOR = jsonschema.Draft202012Validator(_SCHEMA)

Node = Mapping[str, Any]


class LockError(Exception):
    """A fault of a lock; the message is one line with the file, the key and the remedy."""


class Lock:
    """A lock whose shape is sound; :mod:`assay.locks.rules` checks its content.

    :ivar file: its name in messages.
    :ivar nodes: each node of ``concrete_specs`` by its key, which should be its hash.
    :ivar roots: (text of the spec, hash) in the order of the file.
    """

    def __init__(self, file: str, document: Mapping[str, Any]) -> None:
        self.file = file
        self.spack: Mapping[str, str] = document["spack"]
        self.roots: list[tuple[str, str]] = [(r["spec"], r["hash"]) for r in document["roots"]]
        self.nodes: Mapping[str, Node] = document["concrete_specs"]

    @classmethod
    def load(cls, path: Path, shown: str) -> Lock:
        """Read a lock.

        :param shown: how messages name the file.
        :raises LockError: it cannot be read, is not JSON, or does not have the shape of a lock.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise LockError(f"{shown}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise LockError(f"{shown}: not a text in UTF-8") from None
        try:
            document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
            fault = misfit(_VALIDATOR, document)
        except (ValueError, RecursionError) as error:
            raise LockError(f"{shown}: not valid JSON: {error}") from None
        if fault:
            raise LockError(f"{shown}: {fault}")
        return cls(shown, document)

    def hash_of(self, node: Node) -> str:
        """The hash that Spack gives a node, from its content.

        ``Spec.spec_hash`` in ``lib/spack/spack/spec.py``: SHA-1 of the compact JSON, in base 32.
        Spack 1.1.0 hashed externals before it gave them their namespace. Spack 1.1.1 hashes them
        after that (commit 946a9001ca), so the same stack has other hashes.
        """
        left_out = {"hash"}
        if "external" in node and re.match(r"1\.1\.0(\D|$)", self.spack["version"]):
            left_out.add("namespace")
        content = {key: value for key, value in node.items() if key not in left_out}
        text = json.dumps(content, separators=(",", ":"))
        digest = hashlib.sha1(text.encode("ascii"), usedforsecurity=False).digest()
        return base64.b32encode(digest).decode("ascii").lower()

    def below(self, key: str) -> set[str]:
        """Keys of all nodes in the lock that a node depends on, directly or indirectly."""
        seen: set[str] = set()
        ahead = [key]
        while ahead:
            for edge in edges(self.nodes[ahead.pop()]):
                if edge["hash"] in self.nodes and edge["hash"] not in seen:
                    seen.add(edge["hash"])
                    ahead.append(edge["hash"])
        return seen

    def named(self, name: str) -> list[Node]:
        """All nodes of one package."""
        return [node for node in self.nodes.values() if node["name"] == name]

    def providers(self, virtual: str) -> list[Node]:
        """Nodes that some package uses as a virtual package, for example as ``mpi``."""
        hashes = {
            edge["hash"]
            for node in self.nodes.values()
            for edge in edges(node)
            if virtual in edge["parameters"]["virtuals"]
        }
        return [self.nodes[key] for key in sorted(hashes) if key in self.nodes]


def misfit(validator: jsonschema.Draft202012Validator, document: Any) -> str | None:
    """Key and reason of the main deviation of a document from its schema, None if it conforms."""
    fault = jsonschema.exceptions.best_match(validator.iter_errors(document))
    if fault is None:
        return None
    key = "/".join(str(part) for part in fault.absolute_path) or "(top level)"
    return f"{key}: {fault.message[:200]}"


def edges(node: Node) -> list[Mapping[str, Any]]:
    """The direct dependencies of a node, as the lock lists them."""
    return node.get("dependencies", [])  # type: ignore[no-any-return]


def label(node: Node) -> str:
    """The name of a node in messages: package, version and the start of its hash, as in Spack."""
    return f"{node['name']}@{node['version']}/{node['hash'][:7]}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a key that occurs twice is refused, because Spack would read only the last."""
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} stands twice in one object")
    return result


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
