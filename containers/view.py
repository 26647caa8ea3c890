#!/usr/bin/env python3
"""Inside a build: what the image must know of an installed Spack stack, one line on stdout.

view.py path SITE VIEW...       directories for PATH
view.py lock SITE               the lock that was installed
view.py external SITE PACKAGE   where a package lies that the lock takes from outside
"""

import json
import sys
from pathlib import Path

SUITE = Path(__file__).resolve().parents[1]


def lock(site):
    """The lock of a site: its own, or for the reference site the one at the top."""
    own = SUITE / "site-config" / site / "spack/env/spack.lock"
    return own if own.exists() else SUITE / "spack.lock"


def path(site, *views):
    """Directories of programs, as ci/spack-install.sh wrote them down for each view."""
    folders = []
    for view in views:
        frozen = json.loads((SUITE / f".cache/spack/env/{site}.{view}.json").read_text())
        folders += frozen["path"]
    return ":".join(folders)


def external(site, package):
    """Prefix of an external."""
    for node in json.loads(lock(site).read_text())["concrete_specs"].values():
        if node["name"] == package and "external" in node:
            return node["external"]["path"]
    raise SystemExit(f"view: {lock(site)} has no external {package}")


if __name__ == "__main__":
    print({"path": path, "lock": lock, "external": external}[sys.argv[1]](*sys.argv[2:]))
