"""A ReFrame configuration that a site has already, with places and stacks for the suite beside it.

Each place of ``assay.yaml`` is a clone of a partition, each stack one of an environment that is
defined for places only. So nothing of the configuration itself changes.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core.config import load_config
from reframe.core.exceptions import ConfigError
from reframe.utility.cpuinfo import cpuinfo

from assay import files, sites
from assay.describe import ask, slurm
from assay.describe.slurm import Shape
from assay.node import capacity
from assay.reframe_compat import polling
from assay.reframe_compat.selection import reserve
from assay.sites.site_yaml import FILE, SiteFile, Stack, copied, one_of

#: Sections in which ReFrame joins all files to one, and those to which a later file adds in front.
#: To any other section it adds at the end.
JOINED, IN_FRONT = ("general", "logging", "schedulers"), ("systems", "autodetect_methods")

#: What ReFrame says of a configuration for another version of it -> what to do.
OTHER_VERSION = {
    "does not match '^[a-zA-Z_]": "this ReFrame takes only letters, digits, - and _ in names: "
    "in a copy of the file, write _ for any other character, and name the copy",
    "'schedulers' was unexpected": "ReFrame 4 has no section schedulers: in a copy of the file, "
    "put its options into sched_options of the partitions, and name the copy",
}

#: Where options of jobs say how many GPUs of a node a job gets.
GPUS = re.compile(r"(?:gpus-per-node=|gres=gpu:|\bngpus=)(?:[a-zA-Z]\w*:)?(\d+)")

#: Share of the memory that a matrix may take, of a node that is ours alone.
ALONE = 0.8

#: Where options of jobs name a partition of Slurm.
PARTITION = re.compile(r"(?:^|\s)(?:--partition[= ]|-p ?)([^\s,]+)")

Parts = list[dict[str, Any]]


def load_foreign(paths: Sequence[Path]) -> Any:
    """The configuration of some files, as ReFrame loads it.

    A file may change ``sys.path``. ReFrame would then remove another entry than its own, so what
    the files add comes last.
    """
    for path in (path for path in paths if path.suffix in (".yaml", ".yml")):
        files.read_yaml(path, ConfigError, strict=False)  # it is refused if it would not end
    before = list(sys.path)
    try:
        config = load_config("<builtin>", *map(str, paths))
        config.validate()
    except Exception as error:
        do = "".join(f"; {do}" for said, do in OTHER_VERSION.items() if said in str(error))
        if isinstance(error, ConfigError) and len(paths) == 1 and not do:
            raise
        kind, each = type(error).__name__, ", ".join(map(str, paths))
        raise ConfigError(f"{each}: ReFrame cannot load it: {kind}: {error}{do}") from None
    finally:
        sys.path[:] = [*before, *(path for path in sys.path if path not in before)]
    for partition in (part for system in config["systems"] for part in system["partitions"]):
        partition.setdefault("environs", [])
        for resource in partition.get("resources", ()):
            resource.setdefault("options", [])
    return config


def sections(config: Any) -> dict[str, Any]:
    """All sections of a configuration without those of ReFrame's builtin one."""
    builtin, whole = load_config("<builtin>"), {}
    for name in config:
        value = copy.deepcopy(config[name])
        if name not in JOINED and name in builtin:
            of_files = len(value) - len(builtin[name])
            value = value[:of_files] if name in IN_FRONT else value[len(builtin[name]) :]
        whole[name] = value
    return whole


def system_named(config: Any, name: str, where: str) -> dict[str, Any]:
    known: dict[str, dict[str, Any]] = {system["name"]: system for system in config["systems"]}
    return one_of(known, name, f"{where}: has no system")


def join(
    file: Path, said: SiteFile, theirs: Sequence[Path], known: Iterable[str]
) -> tuple[dict[str, Any], Parts, Parts]:
    """The configuration of some files with the places and stacks of ``assay.yaml``.

    :param known: the extras of a place that are words of Assay. A base may use such a name in
        another meaning, so a place has them only from ``assay.yaml``.
    :returns: all sections, the system of the places first; the places; their stacks, of which one
        name may have several definitions.
    :raises ConfigError: a file cannot be loaded, or names what is not there.
    """
    config = load_foreign(theirs)
    whole = sections(config)
    system = system_named(whole, said.system, f"{file}: system: {theirs[0].name}")
    whole["systems"] = [system, *(one for one in whole["systems"] if one is not system)]
    bases = {partition["name"]: partition for partition in system["partitions"]}
    # ReFrame also looks for the environments of a system, without a partition.
    config.select_subconfig(said.system, ignore_resolve_errors=True)
    everywhere = {each["name"] for each in config["environments"]}
    topology = Path(os.path.expandvars(config.get("general/0/topology_prefix") or ""))
    places: Parts = []
    stacks: Parts = []
    ours = {name: stack for name, stack in said.stacks.items() if stack is not None}
    for name, place in said.places.items():
        if place is None:
            continue
        where = f"{file}: places/{name}"
        base = one_of(bases, place.of, f"{where}/of: {said.system} has no partition")
        if name in bases:
            raise ConfigError(
                f"{where}: is the name of a partition of {said.system}; choose another"
            )
        of_theirs = {key: it for key, it in base.get("extras", {}).items() if key not in {*known}}
        clone = copied({**base, "name": name, "features": [], "extras": of_theirs}, place)
        if not place.environs:
            clone["environs"] = _environs(where, base, ours)
        _describe(clone, topology / f"{said.system}-{place.of}")
        places.append(clone)
        config.select_subconfig(f"{said.system}:{place.of}", ignore_resolve_errors=True)
        defined = {each["name"]: each for each in config["environments"]}
        for environ in clone["environs"]:
            made = _stack(file, environ, ours, defined)
            made["target_systems"] = [f"{said.system}:{name}"]
            if environ not in everywhere:
                made["target_systems"].append(said.system)
                everywhere.add(environ)
            stacks.append(made)
    return whole, places, stacks


def beside_configuration(site_file: Path, said: SiteFile) -> dict[str, Any]:
    """The ReFrame configuration of a site that has one, with what the suite needs beside it."""
    file = site_file.with_name(FILE)
    results, folder, log = sites.results_of(site_file)
    known = sites.vocabulary(files.of_all_sites(site_file.parent, "vocabulary.yaml"))["partition"]
    paths = [site_file.parent / each for each in said.beside]
    whole, places, stacks = join(file, said, paths, known["extras"])
    system = whole["systems"][0]
    # By a method of theirs, ReFrame may find another name than that of the host.
    any_host = [".*"] if "autodetect_methods" in whole else system["hostnames"]
    sites.check_call(site_file, said.system, any_host)
    sites.begin_site(site_file, file, places, stacks, None, {})
    polling.one_at_a_time = said.one_at_a_time
    sites.left_out[site_file] += [
        f"stack {name} is left out: it is in environs of no place"
        for name in said.stacks
        if not any(name == made["name"] for made in stacks)
    ]
    places = [place for place in places if place["environs"]]
    reserve(f"{said.system}:{place['name']}" for place in places)
    system["partitions"] += places
    if any(place["scheduler"] == "local" for place in places):
        system["max_local_jobs"] = 1  # two cases at once would disturb each other
    # Their place for stage directories is one that compute nodes see.
    above = os.environ.get("RFM_PREFIX") or system.get("prefix") or results
    stage = os.path.expandvars(system.get("stagedir") or f"{above}/stage")
    system.update(stagedir=f"{stage}/{folder.name}", outputdir=str(folder))
    ours = sites.modes()
    names = {mode["name"] for mode in ours}
    here = {"target_systems": [said.system]}
    handlers = whole["logging"][0].get("handlers", [])
    added = {
        "environments": stacks,
        "general": [{**here, **sites.run_reports(results)}],
        "logging": [{**here, "level": "debug", "handlers": [*handlers, sites.log_file(log)]}],
        "modes": ours,
    }
    whole["modes"] = [mode for mode in whole.get("modes", ()) if mode["name"] not in names]
    return {**whole, **{name: [*whole.get(name, ()), *more] for name, more in added.items()}}


def _environs(where: str, base: Mapping[str, Any], stacks: Mapping[str, Stack]) -> list[str]:
    found = [name for name, stack in stacks.items() if (stack.of or name) in base["environs"]]
    if not found and stacks:
        raise ConfigError(
            f"{where}: {base['name']} has the environments {', '.join(base['environs'])}, and "
            f"stacks names none of them; name the stacks of the place by environs"
        )
    return found


def _stack(
    file: Path, name: str, stacks: Mapping[str, Stack], defined: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    said = one_of(stacks, name, f"{file}: environs: no stack")
    nobody = f"{file}: stacks/{name}: the partition has no environment"
    base = one_of(defined, said.of or name, nobody)
    return {**copied({**base, "features": []}, said), "name": name}


def _describe(clone: dict[str, Any], topology: Path) -> None:
    """Adds processor, GPUs and memory of a node: from ReFrame's file, this machine, or Slurm.

    :param topology: the folder in which ReFrame keeps what it found on the nodes of the base.
    """
    for key in ("processor", "devices"):
        path = topology / f"{key}.json"
        if not clone.get(key) and path.is_file():
            clone[key] = json.loads(path.read_text(encoding="utf-8"))
    extras, local = clone.setdefault("extras", {}), clone["scheduler"] == "local"
    known = clone.get("processor") and "memory_bytes" in extras
    shape = None if local or known else _of_slurm(clone)
    if local:
        clone["processor"] = clone.get("processor") or cpuinfo()
        extras.setdefault("memory_bytes", capacity.memory()["limit"])
    elif shape:
        clone["processor"] = clone.get("processor") or shape.processor
        if shape.memory_bytes > slurm.CONFIGURED:
            extras.setdefault("memory_bytes", shape.memory_bytes)
            extras.setdefault("memory_fraction", ALONE)
    if "gpu" in clone["features"] and not clone.get("devices"):
        said = [*clone.get("access", ()), *options(clone)]
        stated = [int(found[1]) for option in said if (found := GPUS.search(option))]
        if number := max(stated, default=shape.gpus if shape else 0):
            clone["devices"] = [{"type": "gpu", "num_devices": number}]


def options(partition: Mapping[str, Any]) -> list[str]:
    return [option for each in partition.get("resources", ()) for option in each["options"]]


def _of_slurm(partition: Mapping[str, Any]) -> Shape | None:
    """What Slurm says of the nodes of a partition; None if it is not here."""
    if partition["scheduler"] not in {"slurm", "squeue"} or not shutil.which("scontrol"):
        return None
    said = _answers()
    known = slurm.partitions(said.partitions)
    named = PARTITION.search(" ".join(partition.get("access", ())))
    for each in known:
        if each.name == named[1] if named else each.default:
            pool = slurm.pool(each, slurm.nodes(said.nodes))
            return pool.shape if pool else None
    return None


_answers = functools.cache(ask.slurm)
