#!/usr/bin/env python3
"""Inside a build: what the image must know of its programs, one line on stdout.

view.py path SITE VIEW[,VIEW]   directories for PATH
view.py lock SITE               the lock that was installed
view.py version SITE PACKAGE    the version of a package, as the lock has it
view.py compiled                what ci/programs.py compiled, with versions; `none` without any

The first three are of an installed Spack stack.
"""

import json
import sys
from pathlib import Path

SUITE = Path(__file__).resolve().parents[1]


def lock(site):
    """The lock of a site: its own, or for the reference site the one at the top."""
    own = SUITE / "site-config" / site / "spack/env/spack.lock"
    return own if own.exists() else SUITE / "spack.lock"


def path(site, views):
    """Directories of programs, as ci/spack-install.sh wrote them down for each view."""
    folders = []
    for view in views.split(","):
        frozen = json.loads((SUITE / f".cache/spack/env/{site}.{view}.json").read_text())
        folders += frozen["path"]
    return ":".join(folders)


def version(site, package):
    """The version of a package, which all its builds have."""
    nodes = json.loads(lock(site).read_text())["concrete_specs"].values()
    found = {node["version"] for node in nodes if node["name"] == package}
    if len(found) != 1:
        raise SystemExit(f"view: {lock(site)} has {len(found)} versions of {package}, not one")
    return found.pop()


def compiled():
    """The programs that were compiled in the build, as PACKAGE-VERSION,PACKAGE-VERSION."""
    index = SUITE / ".cache/programs/programs.json"
    packages = json.loads(index.read_text())["packages"] if index.exists() else {}
    named = [f"{name}-{each['version']}" for name, each in sorted(packages.items())]
    return ",".join(named) or "none"


if __name__ == "__main__":
    asked = {"path": path, "lock": lock, "version": version, "compiled": compiled}
    print(asked[sys.argv[1]](*sys.argv[2:]))
