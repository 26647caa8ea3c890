#!/usr/bin/env python3
"""Reads locks for the scripts of the Spack stack; standard library only.

    spack-lock.py here LOCK                     externals of the lock that this machine lacks
    spack-lock.py diff OLD NEW                  versions and variants, before and after
    spack-lock.py freeze LOCK SITE VIEW PATH... the environment file of a stack, as JSON

Each command ends with 1 if something is wrong, and prints one line for each fault.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

# A lock holds these packages twice. This variant distinguishes the two.
TELLING = {"osu-micro-benchmarks": "cuda", "assay-suite": "cuda", "ucx": "stats"}


def nodes(lock):
    """The nodes of a lock by name. Packages that occur twice also carry their variant."""
    found = {}
    for node in json.loads(Path(lock).read_text(encoding="utf-8"))["concrete_specs"].values():
        name = node["name"]
        if name in TELLING:
            sign = "+" if node["parameters"].get(TELLING[name]) else "~"
            name += sign + TELLING[name]
        found.setdefault(name, []).append(node)
    return found


def here(lock):
    """Externals that are not where the lock says. Otherwise a build would fail in its middle."""
    problems = []
    for name, several in sorted(nodes(lock).items()):
        for node in several:
            external = node.get("external")
            if not external:
                continue
            compilers = (external.get("extra_attributes") or {}).get("compilers") or {}
            wanted = {"": external.get("path"), **{f" ({k})": v for k, v in compilers.items()}}
            problems += [
                f"{name}@{node['version']}{what}: {path} does not exist here; correct the site's "
                "packages.yaml and type `make lock`, or install it there"
                for what, path in wanted.items()
                if path and not Path(path).exists()
            ]
    return problems


def said(node):
    """The properties that a reader compares: version, variants, target, namespace of the recipe."""
    words = {"version": node["version"], "recipe": node["namespace"]}
    target = node["arch"]["target"]
    words["target"] = target["name"] if isinstance(target, dict) else target
    words["os"] = node["arch"]["platform_os"]
    if node.get("external"):
        words["external"] = node["external"].get("path")
    for key, value in node["parameters"].items():
        if value != []:
            words[key] = ",".join(value) if isinstance(value, list) else str(value)
    return words


def diff(old, new):
    """Lines of what changed. The last line counts nodes of which only the hash changed."""
    before, after = nodes(old), nodes(new)
    lines, same = [], 0
    for name in sorted(before.keys() | after.keys()):
        was = sorted(before.get(name, []), key=lambda node: node["hash"])
        now = sorted(after.get(name, []), key=lambda node: node["hash"])
        if [n["hash"] for n in was] == [n["hash"] for n in now]:
            continue
        for i in range(max(len(was), len(now))):
            if i >= len(was):
                lines.append(f"+ {name}@{now[i]['version']}")
            elif i >= len(now):
                lines.append(f"- {name}@{was[i]['version']}")
            else:
                a, b = said(was[i]), said(now[i])
                changed = [
                    f"{key}: {a.get(key, '-')} -> {b.get(key, '-')}"
                    for key in sorted(a.keys() | b.keys())
                    if a.get(key) != b.get(key)
                ]
                same += not changed
                lines += [f"  {name}: {each}" for each in changed]
    if same:
        lines.append(f"  {same} more with another hash only (a dependency or a recipe changed)")
    return lines


def freeze(lock, site, view, paths):
    """The environment file: the places of the programs, all that a job needs to know of Spack."""
    content = Path(lock).read_bytes()
    return {
        "schema": 1,
        "site": site,
        "view": view,
        "lock_sha256": hashlib.sha256(content).hexdigest(),
        "path": paths,
    }


def main(command, *arguments):
    """:returns: exit status."""
    if command == "here":
        problems = here(*arguments)
        print("\n".join(problems), end="\n" if problems else "")
        return bool(problems)
    if command == "diff":
        print("\n".join(diff(*arguments) or ["  nothing"]))
        return 0
    if command == "freeze":
        lock, site, view, *paths = arguments
        print(json.dumps(freeze(lock, site, view, paths), indent=1))
        return 0
    print(f"spack-lock: unknown command {command!r}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
