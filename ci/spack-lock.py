#!/usr/bin/env python3
"""Solves and reads locks for the scripts of the Spack stack.

In Spack's own Python, with the environment of a site: spack -e ENV python ci/spack-lock.py ...
    solve SITE                    solves the lock anew, prints what changed, and seals it with what
                                  Spack says about it
    here                          what this machine lacks of the externals of the lock
    romio                         what the Open MPI that was built lacks of its ROMIO

In any Python:
    freeze LOCK SITE VIEW PATH... the environment file of a stack, as JSON

Each command ends with 1 if something is wrong, and prints one line for each fault.
"""
# Only Spack's own Python can import Spack.
# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Programs of externals that Spack does not detect, and the argument that prints their version.
PROBES = {"ucx": ("ucx_info", "-v")}
# nvcc 12.4.131 is that of CUDA 12.4.1: only so many numbers of these versions are compared.
COMPARED = {"cuda": 2}
MEND = "correct the site's packages.yaml and type `make lock`, or install it there"
HEADER = Path("/usr/include/lustre/lustre_user.h")
LUSTRE = f"install {HEADER} (lustre-client-devel; Debian: lustre-dev)"


def solve(site):
    """Solve the active environment anew, and write its lock and its seal."""
    import spack.config
    import spack.environment
    import spack.spec

    digest = digests()
    environment = spack.environment.active_environment()
    settings = configuration(digest)  # solving completes the externals in them
    before = said(environment)
    with environment.write_transaction():
        environment.concretize(force=True)
        environment.write()
    after = said(environment)
    changes = [*(f"- {each}" for each in before - after), *(f"+ {each}" for each in after - before)]
    print("\n".join(sorted(changes, key=lambda line: line[2:])))

    folder = Path(environment.path).resolve().relative_to(ROOT)
    lock = (folder / "spack.lock").as_posix()
    own = environment.manifest.env_config_scope
    scopes = [*included(own)]
    for scope in scopes:
        if ROOT not in Path(scope.path).resolve().parents:
            return [f"==> Error: include: {scope.path} is outside of the repository {ROOT}"]
    below = [Path(scope.path).resolve().relative_to(ROOT).as_posix() for scope in scopes]
    files = [lock, *digest.inputs(ROOT, (folder / "spack.yaml").as_posix(), below)]
    everywhere = spack.config.get("packages:all")
    preferred = [
        spack.spec.Spec(each if isinstance(each, str) else each["spec"]).variants.get("cuda_arch")
        for each in everywhere.get("prefer", [])
    ]
    externals = {}
    for scope in (own, *scopes):
        for name, entry in spack.config.get("packages", scope=scope.name).items():
            for each in entry.get("externals", []):
                externals.setdefault(name, []).append(each.get("prefix", ""))
    # A view holds what is installed. The seal names what it will hold.
    spack.spec.Spec.installed = property(lambda self: True)
    roots = environment.concrete_roots()
    views = {name: view.specs_for_view(roots) for name, view in environment.views.items()}
    seal = {
        "site": site,
        "date": datetime.date.today().isoformat(),
        "lock": digest.of((ROOT / lock).read_bytes()),
        "scopes": below,
        "configuration": settings,
        "hardware": {
            "target": list(everywhere.get("target", [])),
            "cuda_arch": sorted({value for arch in preferred if arch for value in arch.values}),
        },
        "externals": externals,
        "views": {name: sorted(each.dag_hash() for each in held) for name, held in views.items()},
        "files": {name: digest.of_file(ROOT / name, read_yaml) for name in files},
    }
    text = "# What Spack said about the lock beside it. Only `make lock` writes it.\n"
    (ROOT / folder / "spack.lock.seal.yaml").write_text(text + json.dumps(seal, indent=1) + "\n")
    return []


def digests():
    """The module that says what a file means. Spack's Python lacks what the others need."""
    sys.path.insert(0, str(ROOT / "src"))
    from assay.locks import digest

    return digest


def read_yaml(path):
    from spack.vendor.ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def included(scope):
    """All that a scope of the configuration includes, the strongest first."""
    for each in scope.included_scopes:
        yield each
        yield from included(each)


def configuration(digest):
    """Digests of the merged settings that a lock and its installation depend on."""
    import spack.config

    sections = ("concretizer", "config:checksum", "packages")
    return {section: digest.of(spack.config.get(section)) for section in sections}


def here():
    """Externals that are not here as the lock says, and settings that it was not solved with."""
    import spack.environment

    lock = Path(spack.environment.active_environment().path, "spack.lock")
    sealed = read_yaml(lock.with_name("spack.lock.seal.yaml"))["configuration"]
    problems = [
        f"{section}: Spack reads other settings here than where the lock was solved; "
        f"`spack config blame {section.partition(':')[0]}` names the file"
        for section, found in configuration(digests()).items()
        if found != sealed.get(section)
    ]
    for node in json.loads(lock.read_text(encoding="utf-8"))["concrete_specs"].values():
        name, of = node["name"], f"{node['name']}@{node['version']}"
        if "external" in node:
            problems += [f"{of}{fault}; {MEND}" for fault in missing(name, node)]
        elif "lustre" in str(node["parameters"].get("romio-filesystem")) and not HEADER.exists():
            problems.append(f"{of} would be built without ROMIO: {LUSTRE}")
    return problems


def missing(name, node):
    """Faults of one external on this machine."""
    prefix = node["external"]["path"]
    compilers = (node["external"].get("extra_attributes") or {}).get("compilers") or {}
    wanted = {"": prefix, **{f" ({k})": v for k, v in compilers.items()}}
    absent = [f"{k}: {v} does not exist here" for k, v in wanted.items() if not Path(v).exists()]
    if absent or name in ("glibc", "musl"):
        return absent
    found, detectable = versions(name, Path(prefix))
    if any(same(name, version, node["version"]) for version in found):
        return []
    if found:
        return [f": below {prefix} is {', '.join(sorted(found))}"]
    if detectable:
        return [f": nothing of it was found below {prefix}"]
    print(f"{name}: is below {prefix}, but not tested: its version", file=sys.stderr)
    return []


def versions(name, prefix):
    """Versions of a package below a prefix, and whether none of them means that it is not there.

    Spack's recipe knows its programs or libraries, and how to ask them. The rest is left to
    pkg-config files.
    """
    from spack.repo import PATH

    folders = [prefix, *(prefix / each for each in ("bin", "sbin", "lib", "lib64"))]
    folders = [each for each in [*folders, *prefix.glob("lib/*-linux-gnu*")] if each.is_dir()]
    recipe = PATH.get_pkg_class(name)
    patterns = [*getattr(recipe, "executables", ()), *getattr(recipe, "libraries", ())]
    present = [file for folder in folders if patterns for file in folder.iterdir()]
    present = [file for file in present if any(re.search(each, file.name) for each in patterns)]
    said = []
    for file in present:
        with contextlib.suppress(Exception):  # a program of that name that does not run
            said.append(recipe.determine_version(str(file)))
    program, argument = PROBES.get(name, ("", ""))
    if (prefix / "bin" / program).is_file():
        present.append(prefix / "bin" / program)
        said += re.findall(r"\d+(?:\.\d+)+", output(present[-1], argument))[:1]
    for file in (folder / f"pkgconfig/{name}.pc" for folder in folders):
        if file.exists():
            said += re.findall(r"^Version:\s*(\S+)", file.read_text(), re.MULTILINE)
    found = {str(each) for each in said if re.search(r"\d", str(each))}
    return found, bool(patterns or program) and not present


def same(name, one, other):
    """Whether two versions agree in all the numbers that both have: 23.11.1 and 23-11-1-1."""
    a, b = (list(map(int, re.findall(r"\d+", each))) for each in (one, other))
    length = min(len(a), len(b), COMPARED.get(name, len(a)))
    return a[:length] == b[:length]


def output(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False).stdout


def romio():
    """What Open MPI lacks of its ROMIO: its configure only warns if it cannot build a part."""
    import spack.environment

    specs = spack.environment.active_environment().all_specs()
    built = [each for each in specs if each.name == "openmpi" and not each.external]
    return [fault for each in built if "+romio" in each for fault in romio_of(each)]


def romio_of(spec):
    """What one Open MPI lacks of its ROMIO."""
    prefix = Path(spec.prefix)
    if not re.search(
        r"^mca:io:romio", output(prefix / "bin/ompi_info", "--parsable"), re.MULTILINE
    ):
        return [f"openmpi@{spec.version} has no ROMIO, the lock has +romio; {LUSTRE}, build again"]
    parts = [*prefix.glob("lib/libmpi.so*"), *prefix.glob("lib/openmpi/mca_io_romio*.so")]
    if "romio-filesystem=lustre" in spec and not any(
        b"ADIOI_LUSTRE_" in part.read_bytes() for part in parts
    ):
        return [
            f"openmpi@{spec.version}: its ROMIO has no driver for Lustre; {LUSTRE}, build again"
        ]
    return []


def said(environment):
    """What a reader compares of a lock: versions, recipes, targets and variants by package."""
    return {
        f"{each.name}: {part}"
        for each in environment.all_specs()
        for part in (each.version, each.namespace, each.architecture, *each.variants.values())
    }


def freeze(lock, site, view, paths):
    """The environment file: the places of the programs, all that a job needs to know of Spack."""
    digest = hashlib.sha256(Path(lock).read_bytes()).hexdigest()
    return {"schema": 1, "site": site, "view": view, "lock_sha256": digest, "path": paths}


def main(command, *arguments):
    """:returns: exit status."""
    tests = {"solve": solve, "here": here, "romio": romio}
    if command in tests:
        problems = tests[command](*arguments)
        print("\n".join(problems), end="\n" if problems else "")
        return int(bool(problems))
    if command == "freeze":
        lock, site, view, *paths = arguments
        print(json.dumps(freeze(lock, site, view, paths), indent=1))
        return 0
    print(f"spack-lock: unknown command {command!r}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
