"""What steered the processes of a launch from outside the test, and where they ran.

``witness.sh`` starts each rank. It writes down the environment that reaches the program, its
processors, and the settings in the user's files that UCX reads. The dynamic linker then lists the
libraries that the program loads (LD_DEBUG=libs, which adds nothing after a library is loaded).
After the benchmark the job script writes the same of itself, and hashes the libraries of MPI and
UCX. It adds the settings in the files of the machine. All of it carries the nonce of the launch.

Below, `asked` are the requested environment variables, and `given` is the environment of the
process that submitted the job.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import assay.node
from assay.node.lists import numbers
from assay.node.recorded import HIDDEN, listed, recorded
from assay.parse.reading import Process
from assay.parse.ucx_log import UcxLog
from assay.prove.plan import PRINTED, SEARCH, SETTINGS, SYSTEM, Doubt, Machine, Note

#: The script and its list, the files that it leaves of each rank, and the file that it leaves of
#: the job.
WITNESS = Path(assay.node.__file__).with_name("witness.sh")
RECORDED = WITNESS.with_name("recorded.txt")
RANKS, LOADED, JOB = "rank.*.*", "loaded.*.*", "assay.witness"

#: Command of the job script, after the benchmark. Only its own shell knows its functions.
OF_JOB = f'"$assay_stage"/{WITNESS.name} job $(compgen -A function -A alias)'

COMPUTING = SETTINGS["computing"]

#: Libraries that the dynamic linker loads into each program (ld.so(8)).
PRELOADED = "/etc/ld.so.preload"

#: Where the dynamic linker looks first.
SEARCHED = "LD_LIBRARY_PATH"

#: A value that the shell of the job script leaves as it is.
PLAIN = re.compile(r"[\w.,:^/=+@%-]*")


@dataclass(frozen=True)
class Steering:
    """What one process inherited.

    :ivar nonce: the nonce of the launch, as the process read it; empty if there was none.
    :ivar cpus: the processors that it may run on.
    :ivar memories: the NUMA nodes whose memory it may use.
    :ivar policy: where the kernel puts its pages (numa(7)): ``default``, ``bind:1``; empty if the
        kernel does not say.
    :ivar place: the variables by which a launcher gives a rank its place in the world.
    :ivar variables: those that steer the dynamic linker, UCX and Open MPI.
    :ivar files: ``file:line``, section of the file (empty outside of one), name and value of each
        setting in a file of UCX; of the job script, also of Open MPI, PMIx and PRRTE.
    """

    host: str
    nonce: str
    cpus: frozenset[int] = frozenset()
    memories: frozenset[int] = frozenset()
    variables: Mapping[str, str] = field(default_factory=dict)
    files: tuple[tuple[str, str, str, str], ...] = ()
    policy: str = ""
    place: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """What the job script says of its node, after the benchmark.

    :ivar programs: paths of mpirun and ucx_info, without symbolic links.
    :ivar libraries: path of each library of MPI and UCX that a rank loaded -> its SHA-256.
    :ivar cores: processor -> the processors of its core.
    :ivar numa: processor -> its NUMA node.
    :ivar launcher: the first lines of ``mpirun --version``.
    """

    job: Steering
    programs: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    cores: Mapping[int, frozenset[int]] = field(default_factory=dict)
    numa: Mapping[int, int] = field(default_factory=dict)
    launcher: str = ""


_HEAD = re.compile(r"rank (\S+) (?:\d+|-) ?(\S*)")
_VARIABLE = re.compile(r"([A-Z]\w*)=(.*)")
_FILE = re.compile(r"file (/?[^:]*:\d+):\s*(?:(\[.*)|(\w+)\s*[=:]\s*(.*))")
_PRELOAD = re.compile(r"preload (\d+):\s*(\S.*)")
_LIBRARY = re.compile(r"([0-9a-f]{64}) [ *](/.*)")
_CORE = re.compile(r"\S*/cpu(\d+)/topology/thread_siblings_list:([\d,-]+)")
_NUMA = re.compile(r"\S*/node(\d+)/cpulist:([\d,-]+)")


def _said(word: str, lines: Iterable[str]) -> list[str]:
    """What follows a word at the beginning of lines."""
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{word} ")]


def rank(text: str) -> Steering:
    """Parses the file of one rank, or the beginning of that of the job.

    :raises ValueError: the file is torn.
    """
    lines = text.splitlines()
    head = _HEAD.fullmatch(lines[0]) if lines else None
    if head is None:
        raise ValueError(f"its first line is not that of a rank: {text[:60]!r}")
    allowed = (_said(f"{what}_allowed_list", lines) for what in ("Cpus", "Mems"))
    cpus, memories = (numbers(",".join(lists)) for lists in allowed)
    variables = {match[1]: match[2] for match in map(_VARIABLE.fullmatch, lines) if match}
    place = {name: it for name, _, it in (each.partition("=") for each in _said("place", lines))}
    files, sections = [], {}
    for line in lines:
        if match := _PRELOAD.fullmatch(line):
            files.append((f"{PRELOADED}:{match[1]}", "", "LD_PRELOAD", match[2].strip()))
        elif match := _FILE.fullmatch(line):
            path = match[1].rpartition(":")[0]
            if match[2]:
                sections[path] = match[2].strip()
            else:
                files.append((match[1], sections.get(path, ""), match[3], match[4].strip()))
    policy = "".join(_said("policy", lines)[-1:])
    return Steering(head[1], head[2], cpus, memories, variables, tuple(files), policy, place)


def node(text: str) -> Node:
    """Parses the file of the job.

    :raises ValueError: the file is torn.
    """
    lines = text.splitlines()
    libraries, cores, nodes = (
        [match.groups() for match in map(pattern.fullmatch, lines) if match]
        for pattern in (_LIBRARY, _CORE, _NUMA)
    )
    return Node(
        job=rank(text),
        programs=tuple(_said("program", lines)),
        functions=tuple(_said("function", lines)),
        libraries={path: sha256 for sha256, path in libraries},
        cores={int(cpu): numbers(siblings) for cpu, siblings in cores},
        numa={cpu: int(node) for node, cpus in nodes for cpu in numbers(cpus)},
        launcher="".join(f"{line}\n" for line in _said("launcher", lines)),
    )


def processes(names: Iterable[str]) -> set[Process]:
    """Host and process id in names of files, :data:`RANKS` or :data:`LOADED`."""
    found = (re.fullmatch(r"\w+\.(.+)\.(\d+)", name) for name in names)
    return {(match[1], int(match[2])) for match in found if match}


def steering_of_job(process: Steering) -> Steering:
    """What steers any program by the job script: the dynamic linker, and the start of ranks."""
    judged = ("LD_", "GLIBC_", "MALLOC_", *SETTINGS["starting"])
    return replace(process, variables={k: v for k, v in process.variables.items()
                                       if k.startswith(judged)})  # fmt: skip


def without_computing(process: Steering) -> Steering:
    """What steers a program that does not compute: a job may have the threads of another one."""
    kept = {k: v for k, v in process.variables.items() if not k.startswith(COMPUTING)}
    return replace(process, variables=kept)


def machine(
    node: Node, extras: Mapping[str, Any], asked: Mapping[str, str], given: Mapping[str, str]
) -> Machine:
    """What belongs to the machine, on the node of a job.

    What the job has, and the process that submitted it has not, comes from the modules and the
    configuration of the site.
    """
    roots = [f"{prefix}/etc" for prefix in _prefixes(node.programs)]
    for path in own_libraries(extras, asked):
        roots += [path, f"{posixpath.dirname(path)}/etc"]
    # The stack may name a file or a directory of settings.
    named = (asked.get(name, "") for name in SETTINGS["naming_files"])
    roots += [path for path in named if path.startswith("/")]
    if "image" in extras:  # its programs have a prefix that is not seen from outside
        roots.append("/opt")
    # A file of the user may set variables in the shell of the job, too.
    home = given.get("HOME") or "/nonexistent"
    if node.job.variables.get("BASH_ENV", "").startswith(f"{home}/"):
        return Machine((*Machine.roots, *roots))
    # A value that is not written down cannot be compared: it counts as the user's.
    known = listed()
    before = {name: (value, recorded(name, value, known)) for name, value in given.items()}
    loaded = {
        name: value
        for name, value in node.job.variables.items()
        if name not in asked and value not in before.get(name, ())
    }
    if SEARCHED in loaded:
        of_user = given.get(SEARCHED, "").split(":")
        new = [path for path in loaded[SEARCHED].split(":") if path not in of_user]
        loaded[SEARCHED] = ":".join(new)
    return Machine((*Machine.roots, *roots), loaded)


def settings(node: Node, machine: Machine) -> dict[str, str]:
    """The settings of the machine that a job saw: ``file:line`` or ``module:`` -> the setting."""
    return {
        **{where: f"{name} = {value}" for where, _, name, value in node.job.files
           if machine.owns(where)},
        **{f"module:{name}": value for name, value in sorted(machine.variables.items())},
    }  # fmt: skip


def unasked(process: Steering, asked: Mapping[str, str], machine: Machine) -> list[str]:
    """The variables, and the settings in files, that nobody requested, one line each."""
    found: list[str] = []
    for name, value in process.variables.items():
        if name == "BASH_ENV" or (
            name.startswith(("OMPI_MCA_", "PRTE_MCA_"))
            and name not in machine.variables
            and (name in asked or not name.startswith(SETTINGS["placing"]))
        ):
            continue  # Open MPI itself reports the settings that its ranks read
        if narrowed(name, value, asked):
            continue
        if name in asked:
            if not name.startswith(PRINTED):
                found += other_value(name, value, asked[name])
        else:
            found += machine.variable(name, value)
    for where, _, name, value in process.files:
        variable = f"OMPI_MCA_{name}"
        # The environment counts more than a file. Open MPI itself reports how it chose.
        if name not in asked and variable not in asked and variable not in SETTINGS["choosing"]:
            found += machine.setting(where, name, value)
    return found


def partly(ranks: Sequence[Steering], machine: Machine) -> list[str]:
    """The variables of the machine that reached some ranks only, one line each."""
    found: list[str] = []
    for name, value in machine.variables.items():
        if name in SEARCH or name.startswith(PRINTED):
            continue  # the loaded libraries tell, or it changes nothing
        without = sorted({rank.host for rank in ranks if name not in rank.variables})
        if without and any(name in rank.variables for rank in ranks):
            said = f"{name}={value} of the site did not reach the ranks on {', '.join(without)}"
            mend = "put it into the stack's env_vars, or let the launcher pass it"
            found.append(Doubt(f"{said}: {mend}"))
    return found


def hidden(node: Node, script: str, given: Mapping[str, str]) -> list[str]:
    """Functions and aliases of a person that hide a program of the job script, one line each.

    What a command of the site defines in the job, as Spack does, is the machine's.
    """
    words = set(re.findall(r"[\w.+-]+", script))
    own = set(re.findall(r"^\s*([\w.+-]+)\s*\(\)", script, re.MULTILINE))
    by = node.job.variables.get("BASH_ENV")
    return [
        Doubt(
            f"the shell of the job has a function or an alias {name}, which hides the program "
            f"of this name: unset {'BASH_ENV, which is ' + by if by else 'it where it is exported'}"
        )
        for name in node.functions
        if name in words - own - {*SETTINGS["modules"]} and (by or f"BASH_FUNC_{name}%%" in given)
    ]


def lost(process: Steering, asked: Mapping[str, str], words: tuple[str, ...]) -> list[str]:
    """The requested variables with these beginnings that did not reach a rank, one line each."""
    return [
        f"{name} did not reach the ranks on {process.host}, {asked[name]} was asked for"
        for name in sorted({*asked} - {*process.variables})
        if name.startswith(words) and not name.startswith(PRINTED)
    ]


def other_value(name: str, value: str, asked: str) -> list[str]:
    """A problem if a variable has another value than the requested one, as far as it is plain."""
    if value in (asked, HIDDEN) or not PLAIN.fullmatch(asked):
        return []
    return [f"{name} was {value} where the program ran, {asked} was asked for"]


def narrowed(name: str, value: str, asked: Mapping[str, str]) -> bool:
    """Whether a launcher gave a rank some of the devices, of which it was to use one at a time.

    Launchers do so to give each rank the device of its socket. The counters of all devices that
    were asked for show which one carried the messages.
    """
    if name != "UCX_NET_DEVICES" or name not in asked or asked.get("UCX_MAX_RNDV_RAILS") != "1":
        return False
    return {*value.split(",")} <= {*asked[name].split(",")}


def own_libraries(extras: Mapping[str, Any], asked: Mapping[str, str]) -> list[str]:
    """Directories that a stack names for its libraries: by an extra, or by LD_LIBRARY_PATH."""
    requested = asked.get(SEARCHED, "").split(":")
    return [*extras.get("libraries", ()), *(path for path in requested if path.startswith("/"))]


def searched(processes: Iterable[Steering]) -> list[str]:
    """Directories that the environment names to the dynamic linker."""
    found = []
    for process in processes:
        found += process.variables.get(SEARCHED, "").split(":")
        preloaded = re.split("[: ]", process.variables.get("LD_PRELOAD", ""))
        found += [posixpath.dirname(path) for path in preloaded]
    return [path for path in dict.fromkeys(found) if path.startswith("/")]


def foreign(
    libraries: Collection[str],
    programs: Iterable[str],
    own: Iterable[str],
    directories: Iterable[str] | None = None,
) -> list[str]:
    """Libraries that are neither of the distribution nor beside the programs of the stack.

    :param programs: paths of programs of the stack; what is below their prefix belongs to it.
    :param directories: of a stack of modules, where the environment let the linker look. What is
        elsewhere was named when the programs were built; it is stated.
    """
    inside = _below({*SYSTEM, *own, *map(str, _prefixes(programs))})
    brought = None if directories is None else _below(directories)
    return [
        f"{path} was loaded, which is not of this stack: unset LD_LIBRARY_PATH, or put its "
        "directory into the stack's extra libraries"
        if brought is None or path.startswith(brought)
        else Note(f"{path} was loaded, as the programs of the module name it")
        for path in sorted(libraries)
        if not posixpath.normpath(path).startswith(inside)
    ]


def _below(directories: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{path.rstrip('/')}/" for path in directories)


def _prefixes(programs: Iterable[str]) -> list[PurePosixPath]:
    """Where programs are installed; not / or /usr, which hold everything."""
    prefixes = dict.fromkeys(PurePosixPath(program).parent.parent for program in programs)
    return [prefix for prefix in prefixes if len(prefix.parts) > 2]


def of_other_launcher(ranks: Sequence[Steering], mpi: str) -> list[str]:
    """Why ranks of an MPI other than Open MPI may each be a world of their own, one line.

    :param mpi: the name of the MPI, or the path of its library.
    """
    places = {name for rank in ranks for name in rank.place}
    if any(name.startswith("OMPI_") for name in places):
        said = f"the launcher of Open MPI started the ranks, which use {mpi}: each is then a world"
        return [f"{said} of its own; put the launcher of their MPI first on PATH"]
    if ranks and not places:
        said = f"no launcher gave the ranks of {mpi} a place in a world (PMI_RANK, PMIX_RANK)"
        return [f"{said}: is an option of the launcher missing, such as --mpi of srun?"]
    return []


def crowded(ranks: Sequence[Steering], cores: Mapping[int, frozenset[int]]) -> list[str]:
    """Nodes whose ranks have fewer cores than ranks, one line each.

    :param cores: processor -> the processors of its core, on any of the (identical) nodes.
    """
    problems = []
    for host in sorted({rank.host for rank in ranks}):
        there = [rank.cpus for rank in ranks if rank.host == host and rank.cpus]
        # Several ranks may share a set. Only the ranks whose processors are among those of one
        # rank can be too many for them.
        for cpus in dict.fromkeys((*there, frozenset().union(*there))):
            inside = sum(other <= cpus for other in there)
            available = {min(cores.get(cpu, {cpu})) for cpu in cpus}
            if inside > len(available):
                said = f"{inside} ranks on {host} share {len(available)} core "
                why = "is the launcher told to bind them, or the job given too few cores?"
                problems.append(f"{said}(processors {_named(cpus)}): {why}")
                break
    return problems


def far_memory(ranks: Sequence[Steering], numa: Mapping[int, int]) -> list[str]:
    """Hosts whose ranks take their memory from far NUMA nodes, one line each.

    :param numa: processor -> its NUMA node, on any of the (identical) nodes.
    """
    problems = []
    for rank in ranks:
        mode, _, nodes = rank.policy.partition(":")
        near = {numa[cpu] for cpu in rank.cpus if cpu in numa}
        far = numbers(nodes) if mode.startswith(("bind", "prefer", "interleave")) else frozenset()
        far = far or rank.memories
        if near and far and not near & far:
            problems.append(
                f"ranks on {rank.host} take their memory from NUMA node {_named(far)}, their "
                f"processors are on {_named(near)}: is there a numactl, or an option of the "
                "launcher?"
            )
    return list(dict.fromkeys(problems))


def _named(found: Collection[int]) -> str:
    return ", ".join(map(str, sorted(found)))


def of_ucx(log: UcxLog, asked: Mapping[str, str], machine: Machine) -> list[str]:
    """The variables that UCX read with another value than the requested one, or unasked.

    Also the requested ones that reached some of the processes only.
    """
    found: list[str] = []
    read = {name for variables in log.env.values() for name in variables}
    for (host, pid), variables in log.env.items():
        for name in sorted({*asked} & read - {*variables, "UCX_TLS"}):
            if not name.startswith(PRINTED):
                found.append(f"{name} did not reach {host}:{pid}, {asked[name]} was asked for")
        for name, value in variables.items():
            # UCX_TLS has a message of its own.
            if name == "UCX_TLS" or narrowed(name, value, asked):
                continue
            if name not in asked:
                found += machine.variable(name, value)
            elif not name.startswith(PRINTED) and "$" not in asked[name] and value != asked[name]:
                said = f"{name} was {value} where the program ran, {asked[name]} was asked for"
                found.append(said)
    return list(dict.fromkeys(found))
