#!/usr/bin/env python3
"""Solves and reads locks for the scripts of the Spack stack.

In Spack's own Python, with the environment of a site: spack -e ENV python ci/spack-lock.py ...
    solve SITE                    solves the lock anew, prints what changed, and seals it with what
                                  Spack says about it
    here                          what this machine lacks of the externals of the lock
    built                         what the Open MPI and the UCX that were built lack of their lock

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
import os
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
CUDA = "configure did not find cuda.h or a function of libcuda; see its config.log"
#: Variant of Open MPI -> its component, and the remedy where the component is missing.
COMPONENTS = {
    "+romio": ("io:romio", LUSTRE),
    "+cuda": ("accelerator:cuda", CUDA),
    "fabrics=ucx": ("pml:ucx", "configure did not find UCX; see its config.log"),
}
#: Variant of UCX -> a list of modules in `ucx_info -b`, and the module.
MODULES = {
    "cma": ("uct", "cma"),
    "verbs": ("uct", "ib"),
    "mlx5_dv": ("uct_ib", "mlx5"),
    "rdmacm": ("uct", "rdmacm"),
    "cuda": ("uct", "cuda"),
    "gdrcopy": ("uct_cuda", "gdrcopy"),
}
#: Variant of UCX -> the transports that it opens on a node with GPUs.
TRANSPORTS = {"cuda": ["cuda_copy", "cuda_ipc"], "gdrcopy": ["gdr_copy"]}


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
    sys.path.insert(0, str(ROOT / "ci"))
    import spack_digest

    return spack_digest


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

    return {
        section: digest.of(spack.config.get(section)) for section in ("concretizer", "packages")
    }


def here():
    """Externals that are not here as the lock says, and settings that it was not solved with."""
    import spack.environment
    from spack.vendor.archspec import cpu

    lock = Path(spack.environment.active_environment().path, "spack.lock")
    sealed = read_yaml(lock.with_name("spack.lock.seal.yaml"))["configuration"]
    problems = [
        f"{section}: Spack reads other settings here than where the lock was solved; "
        f"`spack config blame {section}` names the file"
        for section, found in configuration(digests()).items()
        if found != sealed.get(section)
    ]
    nodes = json.loads(lock.read_text(encoding="utf-8"))["concrete_specs"].values()
    problems += unfit(nodes, cpu.host(), cpu.TARGETS)
    for node in nodes:
        name, of = node["name"], f"{node['name']}@{node['version']}"
        if "external" in node:
            problems += [f"{of}{fault}; {MEND}" for fault in missing(name, node)]
        elif "lustre" in str(node["parameters"].get("romio-filesystem")) and not HEADER.exists():
            problems.append(f"{of} would be built without ROMIO: {LUSTRE}")
    return problems


def unfit(nodes, host, known):
    """Processors of the lock whose programs this one cannot run.

    A build runs programs that it has just built, such as Perl.
    """
    targets = [node["arch"]["target"] for node in nodes if "external" not in node]
    names = {each if isinstance(each, str) else each["name"] for each in targets}
    return [
        f"this processor, {host.name}, cannot run programs for {name}, for which the lock is; "
        "build on a machine that can"
        for name in sorted(names)
        if not host >= known[name]
    ]


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


def output(*command, **variables):
    return subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    ).stdout


def built():
    """What the Open MPI and the UCX that were built lack of what the lock has.

    Their configure scripts only warn, and leave out what they cannot build. UCX does the same with
    modules that it cannot load.
    """
    import spack.environment

    tests = {"openmpi": openmpi_of, "ucx": ucx_of}
    specs = spack.environment.active_environment().all_specs()
    specs = [each for each in specs if each.name in tests and not each.external]
    node = emulated() if any(each.satisfies("+cuda") for each in specs) else {}
    return [fault for each in specs for fault in tests[each.name](each, node)]


def emulated():
    """The variables of a node with an emulated GPU; modules for GPUs load only where a driver is.

    None of them if the emulated GPU cannot be built here.
    """
    folder = Path(os.environ["ASSAY_SPACK_HOME"], "vgpu")
    done = subprocess.run(
        [ROOT / "lab/vgpu/build.sh", folder], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"modules for GPUs are not tested: {done.stderr.strip()}", file=sys.stderr)
        return {}
    node = {"LD_LIBRARY_PATH": str(folder / "lib")}
    if (folder / "lib/libgdrdrv.so").exists():
        node["LD_PRELOAD"] = str(folder / "lib/libgdrdrv.so")
    return node


def openmpi_of(spec, node):
    """What one Open MPI lacks, on a node with these variables."""
    prefix = Path(spec.prefix)
    listed = output(prefix / "bin/ompi_info", "--parsable", **node)
    faults = [
        f"openmpi@{spec.version} has no component {component.replace(':', ' ')}, the lock has "
        f"{variant}; {remedy}; build again"
        for variant, (component, remedy) in COMPONENTS.items()
        if spec.satisfies(variant) and (node or variant != "+cuda")
        if not re.search(rf"^mca:{component}", listed, re.MULTILINE)
    ]
    parts = [*prefix.glob("lib/libmpi.so*"), *prefix.glob("lib/openmpi/mca_io_romio*.so")]
    if spec.satisfies("romio-filesystem=lustre") and not any(
        b"ADIOI_LUSTRE_" in part.read_bytes() for part in parts
    ):
        faults.append(
            f"openmpi@{spec.version}: its ROMIO has no driver for Lustre; {LUSTRE}; build again"
        )
    return faults


def ucx_of(spec, node):
    """What one UCX lacks, on a node with these variables."""
    prefix, of = Path(spec.prefix), f"ucx@{spec.version}"
    program = prefix / "bin/ucx_info"
    modules = dict(re.findall(r'#define (\w+)_MODULES\s+"(.*)"', output(program, "-b")))
    lacks = [
        f"+{variant}"
        for variant, (among, module) in MODULES.items()
        if spec.satisfies(f"+{variant}") and module not in modules.get(among, "").split(":")
    ]
    if lacks:
        return [f"{of} was built without {' '.join(lacks)}, which the lock has; see its config.log"]
    wanted = [
        each
        for variant, transports in TRANSPORTS.items()
        if spec.satisfies(f"+{variant}")
        if "LD_PRELOAD" in node or variant != "gdrcopy"
        for each in transports
    ]
    listed = re.findall(r"Transport: (\S+)", output(program, "-d", **node))
    absent = [each for each in wanted if each not in listed]
    if not node or not absent:
        return []
    libraries = output("ldd", *prefix.glob("lib/ucx/*.so"), **node)
    lost = sorted(set(re.findall(r"(\S+) => not found", libraries)))
    why = f"its modules do not find {', '.join(lost)}" if lost else "see UCX_LOG_LEVEL=debug"
    return [f"{of}: ucx_info -d lacks {', '.join(absent)} on an emulated GPU: {why}"]


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
    tests = {"solve": solve, "here": here, "built": built}
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
