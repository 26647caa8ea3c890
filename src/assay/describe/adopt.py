"""``assay site new NAME --from FILE``: puts the suite beside a configuration of ReFrame.

It reads that configuration only, and asks no machine. A line that begins with ``#?`` is what it
cannot know. A file ``references.yaml`` that is there already stays as it is.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from reframe.core.exceptions import ConfigError

from assay import files
from assay.catalogue import PROGRAMS
from assay.describe import foreign, listing, written
from assay.exits import Exit
from assay.locks import package
from assay.sites import site_yaml

#: The files that are written, all beside FILE.
SETTINGS, WORDS, REFERENCES = "assay_settings.py", site_yaml.FILE, "references.yaml"

#: Names in modules that bring an MPI: libraries, and toolchains that contain one. Those of the
#: first group are not of Open MPI.
MPI = re.compile(
    r"^(?:(cray-mpich|PrgEnv|mpich|mvapich2?|impi|intel-?mpi|iimpi|intel)|"
    r"open-?mpi|ompi|hpcx|foss|gompi)(\W|$)",
    re.IGNORECASE,
)

#: A module with its version.
VERSION = re.compile(r"([^/]+)/(\d+(?:\.\d+)+)")

#: What shows that nodes have GPUs, in features and options of jobs, and whose these are.
GPU = re.compile(r"gpu|cuda|rocm|nvidia", re.IGNORECASE)
AMD = re.compile(r"rocm|gfx|\bhip\b|\bmi\d", re.IGNORECASE)
NVIDIA = re.compile(r"nvidia|cuda|nvhpc|\b[ahv]\d00|\bgh200|\bsm_\d", re.IGNORECASE)

#: What shows the network -> the transport of UCX over it, and a device as such nodes name it.
LINKS = (
    (re.compile(r"infiniband|\bib\b|mlx5|\b[ehnq]dr\b", re.IGNORECASE), "rc_mlx5", "mlx5_0:1"),
    (re.compile(r"slingshot|cxi|\bhsn|cray|PrgEnv|\bcpe", re.IGNORECASE), "tcp", "hsn0"),
    (re.compile(r"omni-?path|\bopa\b|\bhfi|psm2", re.IGNORECASE), "tcp", "ib0"),
    (re.compile(r"ethernet|\beth\d", re.IGNORECASE), "tcp", "eth0"),
)

#: Beginning of the architecture of a GPU in ``devices`` -> the word of its vendor.
VENDORS = {"sm_": "cuda", "cc": "cuda", "gfx": "rocm"}


def run_adopt(args: argparse.Namespace) -> int:
    """Writes the files, or with ``--dry-run`` prints them; returns the exit code.

    :raises ConfigError: the configuration cannot be loaded, has no system of this name, or a
        file is there already.
    """
    for option in ("partition", "access", "module"):
        if getattr(args, option):
            raise ConfigError(f"--{option}: --from reads files only; leave it out, edit {WORDS}")
    theirs = [path.resolve() for path in args.theirs]
    folder = theirs[0].parent
    named = [os.path.relpath(path, folder) for path in theirs]
    config = foreign.load_foreign(theirs)
    system = foreign.system_named(config, args.name, str(theirs[0]))
    defined = {each["name"] for each in config["environments"]}
    for name in (name for part in system["partitions"] for name in part["environs"]):
        if name not in defined:
            where = ", ".join(named)
            raise ConfigError(
                f"{where}: no environment {name!r}; name its file by a further --from"
            )
    texts = {SETTINGS: written.REFRAME}
    texts[WORDS] = words(system, config["environments"], ", ".join(named))
    if not (folder / REFERENCES).exists():
        why = f"nothing was measured yet; type assay calibrate -C {SETTINGS}"
        about = "How this site is judged: docs/adding-a-site.md explains the file."
        texts[REFERENCES] = written.template("references.jinja", about=about, why=why)
    for name, text in texts.items():
        if args.dry_run:
            print(f"# --- {folder / name}\n{text}")
        elif (folder / name).exists():
            raise ConfigError(f"{folder / name}: is there already; delete or rename it")
    if args.dry_run:
        return Exit.PASS
    for name, text in texts.items():
        files.write_file(folder / name, text)
        print(f"{folder / name}: written")
    unknown = texts[WORDS].count("#?") - 1
    print(
        f"not known: {unknown} lines of {WORDS} that begin with #?\n"
        f"next:\n  assay check -C {folder / SETTINGS}\n  assay expect -C {folder / SETTINGS}\n"
        f"  reframe -C {folder / SETTINGS} --system={args.name} -c $(assay tests) -R -r"
    )
    return Exit.PASS


def words(system: Mapping[str, Any], environments: Iterable[Mapping[str, Any]], theirs: str) -> str:
    partitions = system["partitions"]
    # Beside others, a partition without a scheduler is a login node.
    bases = [p for p in partitions if p["scheduler"] != "local"] or partitions
    used = dict.fromkeys(name for base in bases for name in base["environs"])
    defined = {each["name"]: each for each in environments}
    places = [_place(base, [defined.get(name, {}) for name in base["environs"]]) for base in bases]
    gpus = {
        name: {its["gpus"] for base, its in zip(bases, places) if name in base["environs"]}
        for name in used
    }
    stacks = [_stack(name, defined.get(name, {}), gpus[name]) for name in used]
    name = system["name"]
    return written.template("assay.jinja", name=name, theirs=theirs, places=places, stacks=stacks)


def _place(base: Mapping[str, Any], environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the configuration says of a partition, and the GPUs and network that it may have."""
    devices = [each for each in base.get("devices", ()) if each.get("type") == "gpu"]
    arch = " ".join(str(each.get("arch", "")) for each in devices)
    sure = next((word for start, word in VENDORS.items() if start in arch), "")
    hints = [base["name"], *base.get("features", ()), *base.get("access", ())]
    hints += foreign.options(base)
    perhaps = not sure and (devices or any(map(GPU.search, hints)))
    # The word amd alone may be of the processor.
    loaded = [word for each in environments for word in (each["name"], *_modules(each))]
    texts = " ".join(hints), " ".join(loaded)
    sides = ((bool(AMD.search(text)), bool(NVIDIA.search(text))) for text in texts)
    unsure = "rocm" if "amd" in texts[0].lower() else "cuda"
    vendor = next(("rocm" if amd else "cuda" for amd, nvidia in sides if amd != nvidia), unsure)
    link = next((link for shows, *link in LINKS if shows.search(" ".join(texts))), LINKS[0][1:])
    return {
        "name": base["name"],
        "features": ["intra-node", "posix", "cma", *(["gpu", sure] if sure else [])],
        "vendor": vendor if perhaps else "",
        "counted": devices or any(map(foreign.GPUS.search, hints)),
        "gpus": sure or (vendor if perhaps else ""),
        "link": link,
        "empty": sorted({name for _, its in listing.unfilled(base) for name in its.split(", ")}),
        "described": base["scheduler"] == "local" or base.get("processor"),
    }


def _modules(environment: Mapping[str, Any]) -> list[str]:
    return [m if isinstance(m, str) else m["name"] for m in environment.get("modules", ())]


def _stack(name: str, environment: Mapping[str, Any], gpus: Collection[str]) -> dict[str, Any]:
    """The programs that the modules of an environment show, and those that it may have.

    :param gpus: the vendors of the GPUs of its nodes; an empty word is of nodes without GPUs.
    """
    modules = _modules(environment)
    parts = {part for module in modules for part in module.lower().split("/")}
    libraries = [library for each in (name, *modules) if (library := MPI.match(each))]
    versions = {its[1]: its[2] for each in modules if (its := VERSION.match(each.lower()))}
    found, stated = ["mpi"] if libraries else [], {}
    for word, program in PROGRAMS.items():
        names = {word, package(program.spack)}
        if not program.variant_of and names & parts:
            found += [] if word == "mpi" else [word]
            if program.version and (own := names & {*versions}):
                stated[program.version.extra] = f'"{versions[own.pop()]}"'
    # Programs that are built for GPUs start only where these are.
    vendor = "".join(gpus) if len(gpus) == 1 else ""
    other = libraries and all(library[1] for library in libraries)
    word = libraries[-1][1].replace("PrgEnv", "cray-mpich") if other else ""
    asked = {"mpi": word} if other else {"ucx_version": '"1.15.0"'}
    return {
        "name": name,
        "found": found,
        "stated": stated,
        "perhaps": dict.fromkeys(
            f"{word}-{vendor}" if vendor and word in ("ucx", "osu") else word
            for word in [*found, "mpi", "ucx", "osu", "hpl", "iozone"]
        ),
        "asked": {**asked, "osu_version": '"7.4"', **stated},
    }
