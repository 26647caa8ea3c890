"""The packages of a lock that a view of its manifest holds, chosen as in Spack 1.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

from assay.locks.lockfile import Lock, LockError, Node, edges, misfit
from assay.locks.manifest import parse, read_yaml
from assay.locks.rules import unmet

#: Value of `link` -> the kinds of dependency that are followed from the roots.
_FOLLOWED = {"roots": frozenset(), "run": frozenset({"run"}), "all": frozenset({"link", "run"})}
_SPECS = {"type": "array", "items": {"type": "string"}}
_VIEW = {
    "type": "object",
    "properties": {"link": {"enum": list(_FOLLOWED)}, "select": _SPECS, "exclude": _SPECS},
}
_MANIFEST = jsonschema.Draft202012Validator(
    {
        "type": "object",
        "required": ["spack"],
        "properties": {
            "spack": {
                "type": "object",
                "required": ["view"],
                "properties": {"view": {"type": "object", "additionalProperties": _VIEW}},
            }
        },
    }
)


def packages(lock: Lock, manifest: Path, name: str) -> list[Node]:
    """The nodes of one view, including externals, although Spack does not link externals.

    :param manifest: the ``spack.yaml`` that the lock was solved from.
    :param name: the name of the view.
    :raises LockError: the manifest cannot be read or has no such view.
    """
    document = read_yaml(manifest, str(manifest))
    fault = misfit(_MANIFEST, document)
    if fault:
        raise LockError(f"{manifest}: {fault}")
    views: Mapping[str, Mapping[str, Any]] = document["spack"]["view"]
    if name not in views:
        raise LockError(f"{manifest}: view: no {name!r}; there are {', '.join(sorted(views))}")
    where, view = f"{manifest}: view:{name}", views[name]
    select = [parse(f"{where}:select", text) for text in view.get("select", ())]
    exclude = [parse(f"{where}:exclude", text) for text in view.get("exclude", ())]

    def held(node: Node) -> bool:
        selected = not select or any(not unmet(lock, node, spec) for spec in select)
        return selected and all(unmet(lock, node, spec) for spec in exclude)

    return [node for node in _reached(lock, _FOLLOWED[view.get("link", "all")]) if held(node)]


def _reached(lock: Lock, followed: frozenset[str]) -> list[Node]:
    """The roots, and the nodes that they need through dependencies of these kinds."""
    found: dict[str, Node] = {}
    ahead = [key for _, key in lock.roots]
    while ahead:
        key = ahead.pop()
        if key in found or key not in lock.nodes:
            continue
        found[key] = lock.nodes[key]
        ahead += [
            edge["hash"]
            for edge in edges(found[key])
            if followed.intersection(edge["parameters"]["deptypes"])
        ]
    return list(found.values())
