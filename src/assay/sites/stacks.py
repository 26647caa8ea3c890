"""The Spack stacks of a site as ReFrame environments: which programs they have, and where.

Each view of ``spack.yaml`` is one stack. The view ``default`` gives the stack ``spack``, any other
view the stack ``spack-<view>``. ``make spack SITE=<site>`` writes one file for each view,
``env/<site>.<view>.json`` below ``$ASSAY_SPACK_HOME`` (by default ``.cache/spack``). The file holds
the directories to put before PATH and the hash of the lock. Jobs need nothing else, so compute
nodes need no Spack. A view that a person installed with Spack's own command says the same itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ConfigError

from assay import files
from assay.catalogue import BTIO_CLASSES, BTIO_SUBTYPES, PROGRAMS
from assay.locks import MISSHAPEN, Lock, LockError, Node, Seal, is_of, package

#: Package -> the extra that holds its version.
VERSIONS = {
    package(program.spack): program.version.extra
    for program in PROGRAMS.values()
    if program.spack and program.version
}

#: What ``make programs`` writes beside the programs that it compiled.
COMPILED = "programs.json"


def spack(
    site_file: str | Path, lock: str | Path, view: str = "default", of: str | None = None
) -> dict[str, Any]:
    """The environment of one view, read from the lock, even if the view is not installed yet.

    If the view is not installed, or was installed from another lock, its jobs end at once with a
    line that says so.

    :param lock: its ``spack.lock``, which has its seal beside it; or the folder of a view that any
        Spack installed.
    :param view: the view of the environment whose programs are meant.
    :param of: the site that the stack is installed for, if it is another one.
    :raises ConfigError: lock, seal or view cannot be read, or there is no such view.
    """
    site_file, lock = Path(site_file).resolve(), Path(lock)
    if lock.suffix != ".lock":
        return _installed_view(lock.absolute(), view)
    site = of or site_file.parent.name
    try:
        solved = Lock(lock, str(lock))
        file = lock.with_name("spack.lock.seal.yaml")
        seal = files.read_shape(file, Seal, LockError)
        digest = hashlib.sha256(lock.read_bytes()).hexdigest()
        if seal.lock != digest:
            raise LockError(f"{file}: lock: was written for another lock")
    except LockError as error:
        raise ConfigError(f"{error}; make lock SITE={site}") from None
    if view not in seal.views:
        known = ", ".join(sorted(seal.views))
        raise ConfigError(f"{file}: views: no {view!r}; there are {known}")
    nodes = [solved.nodes[key] for key in seal.views[view] if key in solved.nodes]
    said = f"Spack, {lock.name} sha256 {digest}"
    environment = _environment(view, nodes, said, [str(home(site_file).resolve())])
    directories, problem = _installed(home(site_file), site, view, digest)
    if problem:
        environment["prepare_cmds"] = [f"echo {shlex.quote(problem)} >&2", "exit 1"]
    else:
        environment["env_vars"] = _path(directories)
    return environment


def _environment(
    view: str, nodes: Sequence[Node], provenance: str, libraries: list[str]
) -> dict[str, Any]:
    """The environment of a view that holds these packages, without the way to them."""
    extras: dict[str, Any] = {"provenance": provenance, "libraries": libraries}
    for node in nodes:
        if node["name"] in VERSIONS:
            extras[VERSIONS[node["name"]]] = node["version"]
        if node["name"] == "npb-btio":
            built = node["parameters"]
            classes = [c for c in BTIO_CLASSES if c in built["classes"]]
            subtypes = [s for s in BTIO_SUBTYPES if s in built["subtypes"]]
            extras["btio_built"] = {"classes": classes, "subtypes": subtypes}
    name = "spack" if view == "default" else f"spack-{view}"
    return {"name": name, "features": features(nodes), "extras": extras}


def _path(directories: Iterable[str]) -> list[list[str]]:
    return [["PATH", f"{':'.join(map(shlex.quote, directories))}:$PATH"]]


def _installed_view(folder: Path, view: str) -> dict[str, Any]:
    """The environment of a view by what Spack writes into it: the graph below each package.

    A view links no externals. Those that the suite knows come from their modules or prefixes.
    """
    try:
        graphs = {
            file.resolve().parents[1]: json.loads(file.read_text(encoding="utf-8"))["spec"]["nodes"]
            for file in sorted(folder.glob(".spack/*/spec.json"))
        }
        nodes = [graph[0] for graph in graphs.values()]
        below = {node["hash"]: node for graph in graphs.values() for node in graph}
        outside = [node for node in below.values() if "external" in node and features([node])]
        nodes += outside
        modules = [name for node in outside for name in node["external"]["module"] or ()]
        own = {node["external"]["path"]: not node["external"]["module"] for node in outside}
        own = {path: alone for path, alone in own.items() if path not in (None, "/usr")}
        held = json.dumps(sorted(node["hash"] for node in nodes)).encode()
        said = f"Spack, view {folder}, sha256 {hashlib.sha256(held).hexdigest()}"
        # The store of Spack is the folder with its database, above the prefix.
        stores = {
            str(next((f for f in prefix.parents if (f / ".spack-db").is_dir()), prefix.parent))
            for prefix in graphs
        }
        environment = _environment(view, nodes, said, sorted({*stores, *own}))
    except (OSError, IndexError, *MISSHAPEN) as error:
        raise ConfigError(f"{folder}: not a view that Spack wrote: {error!r}") from None
    if not graphs:
        raise ConfigError(f"{folder}: no view of Spack; give the folder of a view, or a spack.lock")
    # The recipe of OSU puts its folders on PATH when the environment is activated.
    osu = sorted({str(file.parent) for file in folder.glob("libexec/**/osu_*")})
    prefixes = [f"{path}/bin" for path, without_module in own.items() if without_module]
    environment["env_vars"] = _path([str(folder / "bin"), *osu, *prefixes])
    return {**environment, "modules": modules} if modules else environment


def compiled(folder: Path) -> dict[str, Any]:
    """The environment of what ``make programs`` compiled into a folder.

    :raises ConfigError: nothing was compiled there.
    """
    try:
        said = json.loads((folder / COMPILED).read_text(encoding="utf-8"))
        nodes = [{"name": name, **each} for name, each in said["packages"].items()]
        of = ", ".join(f"{n['name']} {n['version']} ({n['source']})" for n in nodes)
        environment = _environment("default", nodes, f"compiled in {folder}: {of}", [])
        environment["extras"]["compiled_with"] = said["mpi"]["mpirun"]
    except (OSError, *MISSHAPEN) as error:
        raise ConfigError(f"{folder}: no programs ({error}): type make programs") from None
    return {**environment, "env_vars": _path([str(folder / "bin")])}


def features(nodes: Sequence[Node]) -> list[str]:
    """The features that the packages give to a stack, each once, in the order of the catalogue."""
    return [
        word
        for word, program in PROGRAMS.items()
        if program.spack and any(is_of(node, program.spack) for node in nodes)
    ]


def home(site_file: str | Path) -> Path:
    """``$ASSAY_SPACK_HOME``, by default ``.cache/spack`` of the repository."""
    default = files.repository(Path(site_file).resolve().parent) / ".cache/spack"
    return Path(os.environ.get("ASSAY_SPACK_HOME") or default)


def _installed(where: Path, site: str, view: str, digest: str) -> tuple[list[str], str | None]:
    """Directories for PATH, and the fault of the installation, None if it has no fault."""
    file = where / "env" / f"{site}.{view}.json"
    mend = f"type make spack SITE={site}"
    try:
        frozen = json.loads(file.read_text(encoding="utf-8"))
        of, directories = frozen["lock_sha256"], list(frozen["path"])
    except FileNotFoundError:
        return [], f"the view {view} is not installed ({file} does not exist): {mend}"
    except (OSError, ValueError, KeyError, TypeError):
        return [], f"{file} cannot be read: {mend}"
    if of != digest:
        return [], f"the stack spack was installed from another lock ({file}): {mend}"
    return directories, None
