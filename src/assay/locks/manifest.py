"""A manifest, ``spack.yaml``, with all that it includes, merged as in Spack 1.1.

This module reads only what a lock depends on: the specs with their definitions, and ``packages``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from assay.locks import spec
from assay.locks.lockfile import LockError, misfit

_REQUIREMENT = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {
                "spec": {"type": "string"},
                "one_of": {"type": "array", "items": {"type": "string"}},
                "any_of": {"type": "array", "items": {"type": "string"}},
                "when": {"type": "string"},
                "message": {"type": "string"},
            },
            "additionalProperties": False,
        },
    ]
}
_SCOPE = jsonschema.Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "specs": {"type": "array"},
            "include": {"type": "array"},
            "definitions": {
                "type": "array",
                "items": {"type": "object", "propertyNames": {"type": "string"}},
            },
            "packages": {
                "type": "object",
                "propertyNames": {"type": "string"},
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "buildable": {"type": "boolean"},
                        "target": {"type": "array", "items": {"type": "string"}},
                        "prefer": {"type": ["array", "string"]},
                        "require": {
                            "anyOf": [_REQUIREMENT, {"type": "array", "items": _REQUIREMENT}]
                        },
                        "externals": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["spec"],
                                "properties": {
                                    "spec": {"type": "string"},
                                    "prefix": {"type": "string"},
                                    "modules": {"type": "array"},
                                    "extra_attributes": {"type": "object"},
                                },
                            },
                        },
                    },
                },
            },
        },
    }
)


@dataclass(frozen=True)
class Setting:
    """One value of the configuration and its place: `where` is ``FILE: KEY``."""

    where: str
    value: Any


class Manifest:
    """A manifest and its includes, which a lock is solved from.

    :ivar file: the manifest itself, relative to the repository.
    :ivar specs: (where, text) of each root, with definitions resolved.
    :ivar files: all files that were read, relative to the repository, the manifest first.
    """

    def __init__(self, root: Path, path: Path) -> None:
        """Read a manifest and what it includes.

        :param root: the repository.
        :raises LockError: a file cannot be read or understood.
        """
        self._root = root.resolve()
        #: The scopes, as Spack calls them, the strongest first. Each is a file and its sections.
        self._scopes: list[tuple[str, dict[str, Any]]] = []
        self.files: list[str] = []
        self.file = self._show(path)
        document = _read(path, self.file)
        if set(document) != {"spack"} or not isinstance(document["spack"], dict):
            raise LockError(f"{self.file}: (top level): must be one mapping named spack")
        self._take(path, document["spack"])
        self.specs = self._roots()

    def settings(self, package: str, key: str) -> list[Setting]:
        """All values of ``packages: <package>: <key>`` that count.

        They are merged as in Spack: lists of a weaker scope are appended, its other values are
        hidden.
        """
        found: list[Setting] = []
        for shown, sections in self._scopes:
            value = sections.get("packages", {}).get(package, {}).get(key)
            if value is not None:
                where = f"{shown}: packages:{package}:{key}"
                if found and not isinstance(value, list):
                    break
                found += [
                    Setting(where, each) for each in (value if isinstance(value, list) else [value])
                ]
                if not isinstance(value, list):
                    break
        return found

    def packages(self) -> list[str]:
        """Every package and virtual package that the configuration mentions."""
        return sorted({name for _, scope in self._scopes for name in scope.get("packages", {})})

    def _show(self, path: Path) -> str:
        try:
            return path.resolve().relative_to(self._root).as_posix()
        except (ValueError, RuntimeError):
            raise LockError(
                f"{path}: outside of the repository; keep it below {self._root}"
            ) from None

    def _take(self, path: Path, sections: dict[str, Any]) -> None:
        """Adds a scope, then the scopes that it includes.

        A scope is stronger than what it includes. An earlier include is stronger than a later one.
        """
        shown = self._show(path)
        if shown in self.files:
            raise LockError(f"{shown}: include: includes itself, or is included twice")
        self.files.append(shown)
        for section in ("include", "specs", "definitions", "packages"):
            if f"{section}:" in sections:
                raise LockError(f"{shown}: {section}:: hides what other files say; use one colon")
        fault = misfit(_SCOPE, sections)
        if fault:
            raise LockError(f"{shown}: {fault}")
        self._scopes.append((shown, sections))
        for entry in sections.get("include", ()):
            target, optional = _included(entry, shown)
            for file in self._files_of(path.parent / target, target, optional, shown):
                self._take(file, _read(file, self._show(file)))

    def _files_of(self, path: Path, target: str, optional: bool, shown: str) -> list[Path]:
        try:
            self._show(path)
        except LockError:
            raise LockError(f"{shown}: include: {target} is outside of the repository") from None
        if path.is_dir():
            return sorted(file for file in path.glob("*.yaml") if file.is_file())
        if path.is_file():
            return [path]
        if optional:
            return []
        raise LockError(f"{shown}: include: {target} does not exist")

    def _roots(self) -> list[tuple[str, str]]:
        definitions: dict[str, list[Any]] = {}
        for shown, sections in self._scopes:
            for block in sections.get("definitions", ()):
                if "when" in block:
                    raise LockError(
                        f"{shown}: definitions: `when` makes the lock depend on the machine that "
                        "solves it; use a list of its own"
                    )
                for name, items in block.items():
                    if not isinstance(items, list):
                        raise LockError(f"{shown}: definitions:{name}: must be a list")
                    definitions.setdefault(name, []).extend((shown, item) for item in items)
        items = self._scopes[0][1].get("specs", [])
        roots = [
            (where, text)
            for item in items
            for where, text in self._expand(item, f"{self.file}: specs", definitions, ())
        ]
        if not roots:
            raise LockError(f"{self.file}: specs: none; name the roots of the environment")
        return roots

    def _expand(
        self, item: Any, where: str, definitions: dict[str, list[Any]], inside: tuple[str, ...]
    ) -> Iterator[tuple[str, str]]:
        """The specs that one item of a list stands for: itself, a definition, or a matrix."""
        if isinstance(item, dict) and set(item) == {"matrix"} and isinstance(item["matrix"], list):
            rows = [
                [
                    text
                    for cell in (row if isinstance(row, list) else [row])
                    for _, text in self._expand(cell, where, definitions, inside)
                ]
                for row in item["matrix"]
            ]
            for combination in itertools.product(*rows):
                yield where, " ".join(combination)
        elif not isinstance(item, str):
            raise LockError(f"{where}: {str(item)[:80]!r} is not a spec, a $name or a matrix")
        elif item.startswith("$"):
            name = item[1:]
            if name not in definitions:
                known = ", ".join(sorted(definitions)) or "none"
                raise LockError(f"{where}: ${name} is not defined; known are {known}")
            if name in inside:
                raise LockError(f"{where}: ${name} is defined by itself")
            for shown, each in definitions[name]:
                yield from self._expand(
                    each, f"{shown}: definitions:{name}", definitions, (*inside, name)
                )
        else:
            yield where, item


def parse(where: str, text: str) -> spec.Spec:
    """A spec of the configuration.

    :raises LockError: it is not understood.
    """
    try:
        return spec.parse(text)
    except spec.SpecError as error:
        raise LockError(f"{where}: {text[:120]!r}: {error}") from None


def _included(entry: Any, shown: str) -> tuple[str, bool]:
    """The path of one entry of ``include``, and whether it is optional."""
    optional = False
    if isinstance(entry, dict):
        if not set(entry) <= {"path", "optional"}:
            raise LockError(
                f"{shown}: include: only path and optional are understood; a condition or a "
                "download makes the lock depend on the machine that solves it"
            )
        entry, optional = entry.get("path"), entry.get("optional") is True
    if not isinstance(entry, str) or not entry:
        raise LockError(f"{shown}: include: {str(entry)[:80]!r} is not a path")
    if re.search(r"[$~]|://", entry):
        raise LockError(
            f"{shown}: include: {entry!r} depends on the machine that solves it; write a path "
            "relative to this file"
        )
    return entry, optional


def read_yaml(path: Path, shown: str) -> Any:
    """The content of a YAML file.

    :raises LockError: it cannot be read or is not YAML.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LockError(f"{shown}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or str(error)
        raise LockError(f"{shown}:{line} not valid YAML: {what[:200]}") from None


def _read(path: Path, shown: str) -> dict[str, Any]:
    document = read_yaml(path, shown)
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise LockError(f"{shown}: (top level): must be a mapping of sections")
    return document
