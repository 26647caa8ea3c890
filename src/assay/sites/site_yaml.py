"""The file ``assay.yaml`` of a site: its words, and the partitions and stacks that they make.

The words are those of a partition and of an environment in ReFrame's configuration reference, and
few more. A place is a copy of the nodes that it names by ``of``, with other words: of ``nodes`` in
the same file, or of a partition of the configuration that ``beside`` names.
"""

from __future__ import annotations

import copy
import os
import re
import runpy
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from reframe.core.exceptions import ConfigError

from assay import files
from assay.sites import stacks

#: The name of the file, beside the file that ReFrame loads.
FILE = "assay.yaml"

#: ``${NAME}`` and ``${NAME:-DEFAULT}`` stand for a variable of the process that loads the site.
_VALUE = re.compile(r"\$\{(\w+)(?::-((?:[^{}]|\$\{\w+\})*))?\}")

#: Keys whose values the shell of a job reads.
_OF_JOBS = ("env_vars", "prepare_cmds")

T = TypeVar("T")
_Texts = list[str] | UnsetType
_Pair = Annotated[list[str], Meta(min_length=2, max_length=2, description="[NAME, VALUE]")]


class _Struct(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class Processor(_Struct):
    """A processor has numbers of a node: num_cpus counts hardware threads."""

    num_cpus: int | UnsetType = UNSET
    num_cpus_per_core: int | UnsetType = UNSET
    num_cpus_per_socket: int | UnsetType = UNSET
    num_sockets: int | UnsetType = UNSET
    arch: str | UnsetType = UNSET
    vendor: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    platform: str | UnsetType = UNSET
    topology: dict[str, Any] | UnsetType = UNSET


class Device(_Struct):
    """A device has a type, and the number of them on a node."""

    type: str
    num_devices: int = 1
    arch: str | UnsetType = UNSET
    model: str | UnsetType = UNSET


class Resource(_Struct):
    """A resource has a name and options of jobs, such as `--gres=gpu:{num_gpus_per_node}`."""

    name: str
    options: list[str] = []


class _Words(_Struct):
    when: Annotated[Any, Meta(description="not there where this is empty, 0 or false")] = True
    features: _Texts = UNSET
    extras: dict[str, Any] | UnsetType = UNSET
    env_vars: list[_Pair] | UnsetType = UNSET
    prepare_cmds: _Texts = UNSET


class Nodes(_Words):
    """Nodes and places have the keys of a partition of ReFrame, and of and when."""

    of: Annotated[str, Meta(description="the nodes, or the partition, that this is a copy of")] = ""
    descr: str | UnsetType = UNSET
    scheduler: str | UnsetType = UNSET
    launcher: str | UnsetType = UNSET
    access: _Texts = UNSET
    environs: _Texts = UNSET
    processor: Processor | UnsetType = UNSET
    devices: list[Device] | UnsetType = UNSET
    resources: list[Resource] | UnsetType = UNSET
    modules: _Texts = UNSET
    time_limit: str | UnsetType = UNSET
    max_jobs: int | UnsetType = UNSET
    sched_options: dict[str, Any] | UnsetType = UNSET
    container_platforms: list[dict[str, Any]] | UnsetType = UNSET


class Stack(_Words):
    """A stack has the keys of an environment, and of, when, spack, view, image and programs."""

    of: Annotated[str, Meta(description="the environment, beside another configuration")] = ""
    spack: Annotated[str, Meta(description="a spack.lock, or the folder of a view")] = ""
    view: Annotated[str, Meta(description="a view of the lock")] = "default"
    image: Annotated[str, Meta(description="an image of Apptainer")] = ""
    programs: Annotated[str, Meta(description="the folder that `make programs` filled")] = ""
    modules: list[str | dict[str, Any]] | UnsetType = UNSET


class SiteFile(_Struct):
    """The file has places and stacks, or machine; or beside, system, places and stacks."""

    descr: str = ""
    hostnames: Annotated[
        list[str], Meta(description="regular expressions for the beginning of the host's name")
    ] = []
    modules_system: Literal["nomod", "lmod", "tmod", "tmod31", "tmod32", "tmod4", "spack"] = "nomod"
    machine: Annotated[
        Literal["this", "detect"] | UnsetType,
        Meta(description="this machine alone, or a cluster or machine as it is found"),
    ] = UNSET
    release: Annotated[str, Meta(description="the only distribution, such as debian 12")] = ""
    beside: Annotated[
        list[str], Meta(description="files of the ReFrame configuration that there is already")
    ] = []
    system: Annotated[str, Meta(description="the system of that configuration")] = ""
    one_at_a_time: Annotated[bool, Meta(description="cases wait for each other")] = True
    max_local_jobs: int | UnsetType = UNSET
    general: Annotated[dict[str, Any], Meta(description="of ReFrame's configuration")] = {}
    perflog: Annotated[
        list[dict[str, Any]], Meta(description="ReFrame's handlers of performance logs")
    ] = []
    facts: Annotated[str, Meta(description="a Python file whose functions give values")] = ""
    problems: Annotated[
        list[str] | None, Meta(description="what a site that describes itself cannot find out")
    ] = None
    nodes: dict[str, Nodes | None] = {}
    places: dict[str, Nodes | None] = {}
    stacks: dict[str, Stack | None] = {}


#: Stack whose ``when`` is empty -> its features.
Absent = Mapping[str, frozenset[str]]


def read(site_file: Path) -> tuple[SiteFile, Absent]:
    """The words of a site, with the values of variables and facts in place of their names.

    :returns: the words, and the stacks that are not there.
    :raises ConfigError: the file cannot be read or is not valid, or a variable is not set.
    """
    file = site_file.with_name(FILE)
    raw = files.read_yaml(file, ConfigError, hint="; it describes the site: docs/adding-a-site.md")
    its = raw.get("facts") if isinstance(raw, dict) else None
    facts = runpy.run_path(str(file.parent / its)) if isinstance(its, str) else {}
    said = _Values(site_file, facts).fill(raw, "")
    if fault := files.misshapen(said, SiteFile):
        raise ConfigError(f"{file}: {fault}")
    found = msgspec.convert(said, SiteFile)
    absent = {
        name: frozenset(raw["stacks"][name].get("features", ()))
        for name, stack in found.stacks.items()
        if stack is None and isinstance(raw["stacks"][name], dict)
    }
    return found, absent


@dataclass(frozen=True)
class _Values:
    """The values of names in a file: functions of its facts, else variables of this process."""

    site_file: Path
    facts: Mapping[str, Any]

    def fill(self, part: Any, where: str) -> Any:
        """A part of the file with its values; None for one whose ``when`` is empty."""
        if isinstance(part, dict):
            if "when" in part and not self.fill(part["when"], f"{where}/when"):
                return None
            filled = {
                key: each if key in _OF_JOBS else self.fill(each, f"{where}/{key}".lstrip("/"))
                for key, each in part.items()
            }
            # A fact that is nothing leaves its key out; a place or a stack keeps its name.
            return {
                key: each
                for key, each in filled.items()
                if each is not None or part[key] is None or where in ("nodes", "places", "stacks")
            }
        if isinstance(part, list):
            return [one for n, each in enumerate(part) for one in self._items(each, f"{where}/{n}")]
        if not isinstance(part, str):
            return part
        if whole := _VALUE.fullmatch(part):
            return self._value(whole, where)
        return _VALUE.sub(lambda found: str(self._value(found, where)), part)

    def _items(self, part: Any, where: str) -> list[Any]:
        """What an entry of a list stands for: a name stands for all words of its value."""
        said = self.fill(part, where)
        if not (isinstance(part, str) and _VALUE.fullmatch(part)):
            return [said]
        words = shlex.split(said) if isinstance(said, str) else said
        return words if isinstance(words, list) else [words]

    def _value(self, found: re.Match[str], where: str) -> Any:
        name, default = found.groups()
        if name in self.facts:
            return self.facts[name](self.site_file)
        said = os.environ.get(name) or self.fill(default, where)
        if said is None and not where.endswith("/when"):
            raise ConfigError(
                f"{self.site_file.with_name(FILE)}: {where}: the variable {name} is not set; "
                f"export it, or write ${{{name}:-DEFAULT}}"
            )
        return said


def one_of(known: Mapping[str, T], name: str, nobody: str) -> T:
    """The entry of a name.

    :param nobody: what the message says before the name if there is no such entry.
    """
    if name not in known:
        raise ConfigError(f"{nobody} {name!r}; {files.nearest(name, known)}")
    return known[name]


def copied(base: Mapping[str, Any], words: Nodes | Stack) -> dict[str, Any]:
    """A copy of a partition or an environment with other words; extras are added, key by key."""
    ours = ("of", "when", "spack", "view", "image", "programs")
    own = {key: it for key, it in msgspec.to_builtins(words).items() if key not in ours}
    made = {**copy.deepcopy(dict(base)), **own}
    extras = files.changed(base.get("extras", {}), own.get("extras", {}))
    if extras := {key: it for key, it in extras.items() if it is not None}:
        made["extras"] = extras
    return made


def system(
    site_file: Path, said: SiteFile, partitions: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """The system of a site, in the format of ReFrame; its name is that of the folder.

    :param more: keys that are not as the file says.
    """
    keys = ("descr", "hostnames", "modules_system", "max_local_jobs")
    given = {key: it for key in keys if (it := getattr(said, key)) not in ("", UNSET)}
    return {"name": site_file.parent.name, **given, "partitions": partitions, **more}


def places(site_file: Path, said: SiteFile) -> list[dict[str, Any]]:
    """The partitions of a site, in the format of ReFrame.

    :raises ConfigError: a place names nodes or a stack that the file does not have, or lacks what
        each partition has.
    """
    file, made = site_file.with_name(FILE), []
    bases: dict[str, dict[str, Any]] = {"": {}}
    for name, its in said.nodes.items():
        if its is not None:
            bases[name] = copied(one_of(bases, its.of, f"{file}: nodes/{name}/of: no nodes"), its)
    for name, its in said.places.items():
        if its is None:
            continue
        where = f"{file}: places/{name}"
        place: dict[str, Any] = {"environs": [*said.stacks]}
        place |= {**copied(one_of(bases, its.of, f"{where}/of: no nodes"), its), "name": name}
        for key in ("scheduler", "launcher"):
            if key not in place:
                raise ConfigError(f"{where}: `{key}` is missing; add it, or name nodes by `of`")
        for stack in place["environs"]:
            one_of(said.stacks, stack, f"{where}/environs: no stack")
        made.append(place)
    return made


def programs_of(site_file: Path, stack: Stack) -> Path:
    """The folder of the programs of a stack; a path is relative to the site's file."""
    return Path(os.path.normpath(site_file.parent / stack.programs))


def environments(site_file: Path, said: SiteFile) -> list[dict[str, Any]]:
    """The stacks of a site, in the format of ReFrame.

    :raises ConfigError: a lock, a view or an image cannot be read, or a folder has no programs.
    """
    made = []
    for name, its in said.stacks.items():
        if its is None:
            continue
        base: dict[str, Any] = {"features": []}
        if its.spack:
            lock = Path(os.path.normpath(site_file.parent / its.spack))
            base = stacks.spack(site_file, lock, its.view)
        elif its.image:
            container = resolve_name("assay.describe.container")
            image = container.look(its.image, files.repository(site_file.parent))
            base = container.container_stack(site_file, image)
        elif its.programs:
            base = stacks.compiled(programs_of(site_file, its))
        made.append({**copied(base, its), "name": name})
    return made
