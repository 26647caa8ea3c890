"""``assay site new``: writes the folder of a site from what Slurm and its nodes say.

A job of a second on two nodes of each partition says what they have
(``fleet/node/provenance.py``). What nobody says is listed with what to do (``gaps.yaml``).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from reframe.core.exceptions import ConfigError, ReframeError

from assay import files
from assay.catalogue import PROGRAMS
from assay.describe import adopt, ask, described, expect, machine, slurm, written
from assay.describe.described import Place
from assay.describe.slurm import Node, Partition, Pool
from assay.describe.written import Draft
from assay.exits import Exit
from assay.fleet.node import provenance
from assay.judge import Known, ReferencesError, hardware
from assay.locks import package
from assay.node import answers
from assay.sites import site_yaml
from assay.store import promise

#: A name that is a folder, a system of ReFrame and a word on a command line.
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")

#: How long the job on the nodes may run [min].
MINUTES = 10

#: Names of modules that bring an MPI library, or CUDA.
MPI = r"(^|/)(openmpi|ompi|hpcx|mpich|mvapich|impi|intel-?mpi|cray-mpich)[^/]*(/|$)"
CUDA = r"(^|/)(cuda|cudatoolkit|nvhpc)[^/]*(/|$)"

#: The shell that has the function `module` is a login shell. The two answers are one text.
MODULES = ("bash", "-lc", "module --version 2>&1; echo; module -t avail 2>&1")


def run_site_new(args: argparse.Namespace) -> int:
    """Writes the folder, or with ``--dry-run`` prints it; returns the exit code."""
    try:
        return adopt.run_adopt(args) if args.theirs else _run(args)
    except (ReferencesError, promise.PromiseError, ReframeError) as error:
        print(f"assay site new: {error}", file=sys.stderr)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        print(f"assay site new: {named}{error.strerror or error}", file=sys.stderr)
    return Exit.UNKNOWN


def _run(args: argparse.Namespace) -> int:
    check_arguments(args)
    said = of_slurm()
    gaps: list[str] = []
    partitions, nodes = slurm.partitions(said.partitions), slurm.nodes(said.nodes)
    pools = chosen(partitions, nodes, args.partition, gaps)
    system, of_modules = _modules(args.module)
    useful = ", ".join(promise.few(of_modules))
    places = _places(pools, args, gaps)
    osu_py = machine.osu_py(args.folder.resolve().parent)
    known = hardware(args.folder / args.name)
    made = draft(places, known, said, args.access, args.module, osu_py)
    if not made.stack["features"]:
        do = "install Open MPI and benchmarks, or name modules that have them by --module"
        raise ConfigError(
            f"no program that the suite knows is on PATH of {places[0].host}: "
            + (f"name modules by --module, for example {useful}" if useful else do)
        )
    if useful and not args.module:
        stack = made.stack["name"]
        gaps.append(described.GAPS["no-module"].format(name=stack, modules=useful))
    host = socket.gethostname()
    made.gaps = [*gaps, *made.gaps, described.GAPS["other-hosts"].format(host=host)]
    head = written.Head(
        name=args.name,
        hostnames=[re.sub(r"\d+", "[0-9]+", re.escape(host)) + "$"],
        modules_system=system if args.module else "nomod",
        date=time.strftime("%Y-%m-%d"),
        asked=[place.host for place in places],
    )
    _write(args, head, made)
    return Exit.PASS


def check_arguments(args: argparse.Namespace) -> None:
    target = args.folder / args.name
    if not NAME.fullmatch(args.name):
        raise ConfigError(
            f"the name {args.name!r} is not of a-z, 0-9, - and _, or too long: choose another one"
        )
    if not (args.folder / "vocabulary.yaml").is_file():
        raise ConfigError(
            f"{args.folder}: has no vocabulary.yaml, so it is no folder of sites; type this in the "
            "repository, or name its site-config by --folder"
        )
    if not (args.folder.resolve().parent / "reframe").is_dir():
        raise ConfigError(f"{args.folder}: there is no suite (reframe/) beside it; name another")
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target}: is there already; choose another name, or delete it")
    for option in args.access:
        if not option.startswith("-") or len(option.split()) != 1:
            raise ConfigError(
                f"--access: {option!r} is not one option of sbatch; write it like "
                "--access=--account=hpc"
            )
    if shutil.which(slurm.QUERIES["nodes"][0]) is None:
        raise ConfigError(
            "scontrol is not on PATH, so there is no Slurm here: type this on a login node; for a "
            "machine without a scheduler use SITE=local or SITE=any"
        )


def of_slurm() -> slurm.Answers:
    said = ask.slurm()
    for silence in answers.hung.values():
        raise ConfigError(f"{silence}: Slurm does not answer; ask its administrator")
    if not slurm.partitions(said.partitions):
        first = next(iter(said.partitions.splitlines()), "nothing")
        raise ConfigError(f"scontrol lists no partition, it says: {first}; ask its administrator")
    return said


def chosen(
    partitions: Sequence[Partition],
    nodes: Sequence[Node],
    wanted: Sequence[str],
    gaps: list[str],
) -> list[Pool]:
    """The partitions of Slurm that become partitions of the site, the default one first.

    Without a wish, a partition is left out if others have all its nodes already.
    """
    known = {partition.name: partition for partition in partitions}
    nobody = "--partition: Slurm has no"
    asked = [site_yaml.one_of(known, name, nobody) for name in dict.fromkeys(wanted)]
    asked = asked or [partition for partition in partitions if partition.open]
    found: list[Pool] = []
    covered: set[str] = set()
    for partition in asked:
        pool = slurm.pool(partition, nodes)
        where = f"partition {partition.name} of Slurm"
        if pool is None:
            if wanted:
                raise ConfigError(
                    f"--partition: no node of {partition.name!r} takes jobs now: name another one, "
                    "or wait until scontrol show node says IDLE"
                )
            gaps.append(f"{where}: no node takes jobs now; describe it when its nodes are up")
            continue
        names = {node.name for node in pool.nodes}
        if not wanted and names <= covered:
            gaps.append(f"{where}: left out, for others have its nodes; name it by --partition")
            continue
        covered |= names
        found.append(pool)
    if not found:
        raise ConfigError("no node of Slurm takes jobs now: scontrol show node says why")
    return found


def _modules(wanted: Sequence[str]) -> tuple[str, list[str]]:
    """The module system, and the modules that may bring MPI or programs."""
    said = ask.output(*MODULES) if shutil.which(MODULES[0]) else ""
    names, system = available(said), module_system(said)
    if wanted and system == "nomod":
        raise ConfigError("--module: a login shell has no command `module` here: leave it out")
    # The first module may make others visible. The job says which of those cannot be loaded.
    families = {name.rpartition("/")[0] for name in names} | {*names}
    if wanted and wanted[0] not in families:
        raise ConfigError(f"--module: no {wanted[0]!r}; {files.nearest(wanted[0], names)}")
    return system, useful(names) if system != "nomod" else []


def module_system(said: str) -> str:
    """The name that ReFrame gives to the module system; ``nomod`` if there is none."""
    if re.search(r"^Modules based on Lua: Version", said, re.MULTILINE):
        return "lmod"
    if release := re.search(r"Modules Release (\d+)", said):
        return "tmod4" if int(release[1]) >= 4 else "tmod32"
    return "nomod"


def available(said: str) -> list[str]:
    """The modules in an output of ``module -t avail`` of Lmod or Environment Modules, each once.

    A line that ends in ``:`` names a folder, one that ends in ``/`` a family of modules. A mark in
    parentheses, such as ``(default)``, is not of the name.
    """
    names = (re.sub(r"\(.*\)$", "", line.strip()) for line in said.splitlines())
    return list(dict.fromkeys(n for n in names if re.fullmatch(r"[\w.+@-]+(/[\w.+@-]+)*", n)))


def useful(names: Sequence[str]) -> list[str]:
    """The modules that bring MPI, then those of CUDA, then those of a program of the catalogue."""
    words = {word for word in PROGRAMS if word != "mpi"}
    words |= {package(p.spack) for p in PROGRAMS.values() if p.spack} - {"openmpi"}
    found = [name for what in (MPI, CUDA) for name in names if re.search(what, name, re.IGNORECASE)]
    found += [name for name in names if {*name.lower().split("/")} & words]
    return list(dict.fromkeys(found))


def job(pool: Pool, access: Sequence[str], loaded: Sequence[str], wait: int) -> list[str]:
    count = min(len(pool.up), 2)
    asked = described.questions(pool.up[-1].address)
    script = ["python3", "-B", provenance.__file__, "--questions", asked]
    if loaded:
        load = f"module load {shlex.join(loaded)} >&2 && exec {shlex.join(script)}"
        script = ["bash", "-lc", load]
    gpus = [f"--gres=gpu:{pool.shape.gpus}"] if pool.shape.gpus else []
    return [
        *("srun", f"--partition={pool.partition.name}", "--exclusive", *access, *gpus),
        *(f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--mpi=none"),
        *("--input=none", "--label", f"--time={MINUTES}", f"--immediate={wait}"),
        *("--job-name=assay-site-new", *script),
    ]


def _places(pools: Sequence[Pool], args: argparse.Namespace, gaps: list[str]) -> list[Place]:
    found = []
    for pool in pools:
        name = pool.partition.name
        where = f"partition {name} of Slurm"
        print(f"a job asks nodes of {name} what they have; it waits at most {args.wait} s",
              file=sys.stderr)  # fmt: skip
        said, why = _asked(job(pool, args.access, args.module, args.wait), args.wait)
        if said:
            if len(said) < min(len(pool.up), 2):
                do = "look why, and type it again"
                gaps.append(f"{where}: one of two nodes gave no answer: {why}; {do}")
            found.append(Place(pool, said[0], said[1] if len(said) > 1 else None))
            continue
        mend = "try --wait, --access or --partition"
        if args.partition:
            raise ConfigError(f"the job on partition {name!r} gave no answer: {why}; {mend}")
        gaps.append(f"{where}: its job gave no answer: {why}; type it again: {mend}")
    if not found:
        raise ConfigError(f"no job gave an answer; the last: {gaps[-1]}")
    return found


def _asked(command: Sequence[str], wait: int) -> tuple[list[dict[str, object]], str]:
    """The answers of the nodes, and why one is missing."""
    # Ctrl-C also ends srun, which then cancels its job.
    done = ask.run(command, wait + 60 * MINUTES + 30)
    try:
        found = described.answers(done.stdout)
    except ValueError:
        return [], "its answer is cut"
    said = done.stderr if found else done.stdout + done.stderr
    return found, ask.last_line(said) or "it printed nothing"


def draft(  # noqa: PLR0913, PLR0917
    places: Sequence[Place],
    known: Known,
    said: slurm.Answers,
    access: Sequence[str] = (),
    modules: Sequence[str] = (),
    osu_py: str | None = None,
) -> Draft:
    """The site for some places. The partitions of the first one have names without a prefix."""
    first, together = places[0], any(place.together for place in places)
    made = Draft(described.stack_on_path(first, modules, osu_py), together)
    seen: set[str] = set()
    for place in places:
        name, prefix = place.pool.partition.name, ""
        _look_at_the_nodes(place)
        between = described.links(place, known)
        found = [
            described.intra_node(place, known),
            *between,
            *described.gpus(place, known, made.stack["features"], between),
            *described.storage(place, seen),
        ]
        common = described.jobs(place, said, access)
        environs = [made.stack["name"]]
        made.common[name] = {**common, "environs": environs, "extras": place.extras}
        if place is not first:
            missing = sorted({*first.here["programs"]} - {*place.here["programs"]})
            if missing:
                place.gap("fewer-programs", missing=", ".join(missing), first=first.host)
            prefix = f"{name}: "
            for each in found:
                each["name"] = f"{described.word(name)}-{each['name']}"
        made.partitions[name] = found
        made.links = {**place.links, **made.links}
        made.gaps += [f"{prefix}{gap}" for gap in place.gaps]
    return made


def _look_at_the_nodes(place: Place) -> None:
    pool = place.pool
    for kind in pool.others:
        place.gap("other-kind", kind=kind)
    if down := [node for node in pool.nodes if node.out]:
        states = ", ".join(sorted({node.state for node in down}))
        place.gap("down", nodes=slurm.node_names(down), states=states)
    for limit in pool.partition.limits:
        place.gap("limited", limit=limit)
    for line in place.here["hung"]:
        place.gap("hung", what=line)


def _write(args: argparse.Namespace, head: written.Head, made: Draft) -> None:
    target = args.folder / args.name
    texts = {
        "reframe.py": written.REFRAME,
        site_yaml.FILE: written.words(head, made),
        "references.yaml": written.references(head, made),
    }
    if text := written.hardware(head, made):
        texts["hardware.yaml"] = text
    if args.dry_run:
        for name, text in texts.items():
            print(f"# --- {target / name}\n{text}")
    else:
        with written.published(target):
            for name, text in texts.items():
                files.write_file(target / name, text)
            promised = expect.of_site(target / "reframe.py", expect.NEW)
            files.write_file(target / promise.FILE, promised)
        print(f"{target}: written, and it loads")
    print(f"not found out: {len(made.gaps)}")
    for gap in made.gaps:
        print(f"  - {gap}")
    if args.dry_run:
        return
    site = f"{os.path.relpath(target)}/reframe.py"
    where = "" if args.folder == Path("site-config") else f" --folder {args.folder}"
    print(
        "next:\n"
        f"  assay sites {args.name}{where}\n"
        f"  reframe -C {site} --system={args.name} -c reframe -R -r --mode smoke\n"
        f"  assay calibrate --site {args.name}{where}; then, in {promise.FILE},\n"
        "  delete nothing_judged, and name in may_skip only the cases that may be skipped"
    )
