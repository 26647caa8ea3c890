"""Specs as Spack writes them, as far as manifests and requirements need them.

The syntax is that of Spack 1.1 (``lib/spack/spack/spec_parser.py``), without toolchains and without
ranges of targets. A text that is not understood is an error and is never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_VALUE = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_+*.,:=%^~/\\-]+)"""
#: One piece of a spec. The sigil of a dependency may name the virtuals it provides: %c,cxx=gcc.
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<sigil>[\^%])(?:\[(?P<edge>[^\]]*)\])?\s*(?:(?P<virtuals>{_NAME}(?:,{_NAME})*)=(?!=))?
    | @(?P<versions>[A-Za-z0-9_.,:=-]+)
    | (?P<key>{_NAME})(?P<op>:?==?)(?P<value>{_VALUE})
    | (?P<switch>\+\+?|~~?|(?<!\S)--?)(?P<variant>{_NAME})
    | /(?P<hash>[a-z0-9]+)
    | (?P<name>{_NAME})
    )""",
    re.VERBOSE,
)
_ARCHITECTURE = {"platform": "platform", "os": "platform_os", "operating_system": "platform_os"}
#: Named versions are newer than any number, in this order (``version_types.py``, Spack 1.1).
_ENDLESS = ("stable", "nightly", "trunk", "head", "master", "main", "develop")
_PRERELEASE = ("alpha", "beta", "rc")


class SpecError(ValueError):
    """A text that is not a spec, or a spec that this module does not understand."""


@dataclass(frozen=True)
class Spec:
    """What a spec requires of one package and of its dependencies.

    :ivar versions: ranges, one of which must match: ``1.2``, ``=1.2``, ``1.2:1.4``, ``1.2:``.
    :ivar variants: (name, whether no further value is allowed, values); ``+x`` has value ``True``.
    :ivar architecture: (``platform``, ``platform_os`` or ``target``, value).
    :ivar dependencies: (virtuals that it provides, whether it must be a direct dependency, spec).
    """

    name: str | None = None
    namespace: str | None = None
    versions: frozenset[str] = frozenset()
    variants: frozenset[tuple[str, bool, frozenset[str]]] = frozenset()
    architecture: frozenset[tuple[str, str]] = frozenset()
    hash: str | None = None
    dependencies: frozenset[tuple[frozenset[str], bool, Spec]] = frozenset()

    def __str__(self) -> str:
        parts = [self.name or ""]
        parts += [f"@{','.join(sorted(self.versions))}"] if self.versions else []
        parts += [f" {_variant(*each)}" for each in sorted(self.variants, key=_name)]
        parts += [f" {_key(key)}={value}" for key, value in sorted(self.architecture)]
        parts += [f"/{self.hash}"] if self.hash else []
        for virtuals, direct, each in self.dependencies:
            what = f"{','.join(sorted(virtuals))}=" if virtuals else ""
            parts.append(f" {'%' if direct else '^'}{what}{each}")
        return "".join(parts).strip()

    def unmet(self, node: Mapping[str, Any]) -> list[str]:
        """The parts of this spec that a concrete node does not fulfil, in Spack's syntax.

        Dependencies are not checked here.

        :param node: an entry of ``concrete_specs`` of a lock.
        """
        lacks = []
        if self.namespace not in (None, node["namespace"]):
            lacks.append(f"namespace={self.namespace}")
        if self.versions and not any(_within(node["version"], r) for r in self.versions):
            lacks.append("@" + ",".join(sorted(self.versions)))
        for name, exact, values in sorted(self.variants, key=_name):
            have = _values(node["parameters"].get(name))
            if have != values if exact else not (values <= have or (values == {"*"} and have)):
                lacks.append(_variant(name, exact, values))
        for key, value in sorted(self.architecture):
            if architecture(node, key) != value:
                lacks.append(f"{_key(key)}={value}")
        if self.hash is not None and not node["hash"].startswith(self.hash):
            lacks.append(f"/{self.hash}")
        return lacks


def architecture(node: Mapping[str, Any], key: str) -> str:
    """``platform``, ``platform_os`` or ``target`` of a concrete node.

    A target that is not one of the generic x86-64 levels is written with all its features.
    """
    value = node["arch"].get(key, "")
    return str(value.get("name", "") if isinstance(value, dict) else value)


@dataclass
class _Draft:
    """A :class:`Spec` while it is being read."""

    virtuals: frozenset[str] = frozenset()
    direct: bool = False
    name: str | None = None
    namespace: str | None = None
    versions: set[str] = field(default_factory=set)
    variants: dict[str, tuple[bool, frozenset[str]]] = field(default_factory=dict)
    architecture: dict[str, str] = field(default_factory=dict)
    hash: str | None = None
    dependencies: list[_Draft] = field(default_factory=list)

    def spec(self) -> Spec:
        return Spec(
            self.name,
            self.namespace,
            frozenset(self.versions),
            frozenset((name, exact, values) for name, (exact, values) in self.variants.items()),
            frozenset(self.architecture.items()),
            self.hash,
            frozenset((each.virtuals, each.direct, each.spec()) for each in self.dependencies),
        )


def parse(text: str) -> Spec:
    """Read one spec.

    :raises SpecError: the text is not understood. The message is one line with the place.
    """
    root = parent = current = _Draft()
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position, end)
        if match is None:
            raise SpecError(f"not understood from {text[position:end].strip()[:40]!r} on")
        position = match.end()
        if match["sigil"]:
            if current is not root and current.name is None:
                raise SpecError("a dependency has no name")
            virtuals = ",".join(re.findall(r"virtuals=([\w.,-]+)", match["edge"] or ""))
            virtuals += "," + (match["virtuals"] or "")
            direct = match["sigil"] == "%"
            current = _Draft(frozenset(virtuals.split(",")) - {""}, direct)
            # ^x belongs to the whole spec, %x to the package before it.
            (parent if direct else root).dependencies.append(current)
            parent = parent if direct else current
        else:
            _take(match, current)
    if current is not root and current.name is None:
        raise SpecError("a dependency has no name")
    return root.spec()


def _take(match: re.Match[str], draft: _Draft) -> None:
    """Store one piece of a spec in the draft."""
    if match["name"]:
        if draft.name is not None:
            raise SpecError(f"two names, {draft.name!r} and {match['name']!r}; two specs?")
        # A package name has no dot. The part before the last dot is the repository.
        namespace, _, draft.name = match["name"].rpartition(".")
        draft.namespace = namespace or None
    elif match["versions"] is not None:
        ranges = match["versions"].split(",")
        if not all(re.fullmatch(r"=?[\w.=-]+|[\w.-]*:[\w.-]*", each) for each in ranges):
            raise SpecError(f"@{match['versions']} is no version")
        draft.versions.update(ranges)
    elif match["variant"]:
        value = "True" if match["switch"].startswith("+") else "False"
        draft.variants[match["variant"]] = (False, frozenset([value]))
    elif match["hash"]:
        draft.hash = match["hash"]
    else:
        _assign(match["key"], match["op"], match["value"].strip("\"'"), draft)


def _assign(key: str, op: str, value: str, draft: _Draft) -> None:
    if key == "namespace":
        draft.namespace = value
    elif key in ("arch", "architecture"):
        parts = value.split("-")
        if len(parts) != 3:
            raise SpecError(f"{key}={value} is not PLATFORM-OS-TARGET")
        draft.architecture.update(zip(("platform", "platform_os", "target"), parts))
    elif key == "target":
        if ":" in value or "," in value:
            raise SpecError(f"target={value} is a range; name one target")
        draft.architecture[key] = value
    elif key in _ARCHITECTURE:
        draft.architecture[_ARCHITECTURE[key]] = value
    elif key in ("cflags", "cxxflags", "fflags", "cppflags", "ldflags", "ldlibs"):
        draft.variants[key] = (False, frozenset(value.split()))
    else:
        word = value.capitalize() if value.lower() in ("true", "false") else value
        draft.variants[key] = (op.startswith(":"), frozenset(word.split(",")))


def _key(architecture: str) -> str:
    return "os" if architecture == "platform_os" else architecture


def _name(variant: tuple[str, bool, frozenset[str]]) -> str:
    return variant[0]


def _variant(name: str, exact: bool, values: frozenset[str]) -> str:
    if values in ({"True"}, {"False"}):
        return ("+" if values == {"True"} else "~") + name
    return f"{name}{':' if exact else ''}={','.join(sorted(values))}"


def _values(parameter: Any) -> frozenset[str]:
    """Values of a node's variant as a set; a lock has booleans, words and lists of words."""
    if parameter is None:
        return frozenset()
    return frozenset(map(str, parameter if isinstance(parameter, list) else [parameter]))


def _components(version: str) -> list[str]:
    return re.findall(r"[0-9]+|[A-Za-z]+", version)


def _order(version: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts versions as Spack does: 1.2-rc1 < 1.2 < 1.2a < 1.2.1 < develop."""
    keys = []
    for part in _components(version):
        if part.isdigit():
            # Digits compare by length, then as text. This works for any length, without int().
            digits = part.lstrip("0")
            keys.append((3, len(digits), digits))
        elif part in _ENDLESS:
            keys.append((4, _ENDLESS.index(part), ""))
        elif part in _PRERELEASE:
            keys.append((0, _PRERELEASE.index(part), ""))
        else:
            keys.append((2, 0, part))
    return (*keys, (1, 0, ""))


def _within(version: str, asked: str) -> bool:
    """Whether a concrete version is in one range.

    A range includes every version that its end is a prefix of.
    """
    if "=" in asked[1:] or asked.startswith("git."):
        return version == asked
    if asked.startswith("="):
        return _order(version) == _order(asked[1:])
    low, colon, high = asked.partition(":")
    high = high if colon else low
    if low and _order(version) < _order(low):
        return False
    end = _components(high)
    return not high or _components(version)[: len(end)] == end or _order(version) <= _order(high)
