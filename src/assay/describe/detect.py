"""What this machine has: programs, transports, memory, file systems.

All comes from the programs and the kernel. What is not there is left out, never guessed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay import catalogue
from assay.catalogue import BTIO_CLASSES, BTIO_SUBTYPES, PROGRAMS
from assay.describe import ask
from assay.fleet.node import provenance
from assay.gpu.accelerator import ACCELERATORS
from assay.node import answers
from assay.prove import mpi
from assay.prove.transports import opened_transports

#: Command that shows whether `mpicc` has a compiler, and the `mpi.h` of Open MPI. The wrapper alone
#: shows neither. It compiles nothing; the header is long.
HEADER = (
    *("sh", "-c"),
    "mpicc -E -include mpi.h -x c /dev/null 2>&1 | grep -m 1 ompi_communicator_t",
)

#: Command that asks the UCX which Open MPI loads for its version. `ucx_info` may be of another UCX.
UCX_OF_MPI = (
    *("sh", "-c"),
    "LD_DEBUG=libs ompi_info --param pml ucx 2>&1 | "
    "sed -n 's|.*calling init: \\(/.*/libucp\\.so.*\\)|\\1|p' | head -n 1 | "
    "xargs -r -d '\\n' python3 -c "
    "'import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).ucp_get_version_string; "
    'f.restype = ctypes.c_char_p; print("Version", f().decode())\'',
)


def programs(has: Callable[[str], object] = shutil.which) -> dict[str, str]:
    """The programs that exist: feature word -> name of the program.

    :param has: tells whether a program of a given name exists; by default, on PATH.
    """
    found = {}
    for word, program in PROGRAMS.items():
        if program.detected and (name := next(filter(has, program.executables), None)):
            found[word] = name
    return found


def btio_built(has: Callable[[str], object]) -> dict[str, list[str]]:
    """The classes and subtypes of BT-IO for which every combination exists; empty without any.

    A program of another class, such as one that is left of an older build, hides no subtype: the
    class counts that most subtypes have, and the subtypes that have it.
    """
    of_class = {c: [s for s in BTIO_SUBTYPES if has(catalogue.btio(c, s))] for c in BTIO_CLASSES}
    found = max(of_class.values(), key=len)
    classes = [c for c in BTIO_CLASSES if {*found} <= {*of_class[c]}]
    return {"classes": classes, "subtypes": found} if found else {}


def version(extra: str, said: Callable[..., str] = ask.output) -> str | None:
    """The version for an extra of a stack, None if the program does not print a version."""
    asked = catalogue.VERSIONS[extra]
    match = re.search(asked.pattern, said(*asked.command))
    return match[1] if match else None


def too_old(found: Iterable[str], said: Callable[..., str] = ask.output) -> dict[str, str]:
    """The programs that lack an option that the suite needs: word -> what has it.

    A program that prints no help at all may be sound: some MPI libraries start on no login node.
    """
    needs = {word: asked for word in found if (asked := PROGRAMS[word].needs)}
    printed = {word: said(*asked.command) for word, asked in needs.items()}
    return {
        word: f"{asked.what} is needed, and {asked.command[0]} is older"
        for word, asked in needs.items()
        if re.search("usage|synopsis", printed[word], re.IGNORECASE)
        and not re.search(asked.pattern, printed[word], re.MULTILINE)
    }


def describe_programs(
    has: Callable[[str], object] = shutil.which, said: Callable[..., str] = ask.output
) -> tuple[list[str], dict[str, Any]]:
    """Features and extras of a stack that has the programs for which `has` says so."""
    found, extras = programs(has), dict[str, Any]()
    if older := too_old(found, said):
        extras["too_old"] = older
    found = {word: name for word, name in found.items() if word not in older}
    features = list(found)
    for word in found:
        asked = PROGRAMS[word].version
        if asked and (printed := version(asked.extra, said)):
            extras[asked.extra] = printed
    of_mpi = re.search(r"^Version (\d\S*)$", said(*UCX_OF_MPI), re.M) if "mpi" in found else None
    if of_mpi and of_mpi[1] != extras.get("ucx_version"):
        if "ucx_version" in extras:
            extras["ucx_tools_version"] = extras["ucx_version"]
        extras["ucx_version"] = of_mpi[1]
    other = mpi.of_run((), said("mpirun", "--version")) if "mpi" in found else None
    if other and "openmpi_version" not in extras:
        extras["mpi"] = other.word  # tests of a path are skipped by it
    if "mpi" in found and "ompi_communicator_t" in said(*HEADER):
        features.append("mpicc")
    if "netpipe" in found:
        extras["netpipe_command"] = found["netpipe"]
    # UCX lists only transports that this machine has a driver for.
    there = opened_transports(said("ucx_info", "-d")) if "ucx" in found else []
    features += [f"ucx-{word}" for word, gpu in ACCELERATORS.items() if gpu.copy in there]
    if built := btio_built(has):
        features.append("btio")
        extras["btio_built"] = built
    return features, extras


def ucx_problems() -> list[str]:
    """Why it is not known what UCX can do here, one line each; only of commands that were asked."""
    problems = []
    for command in (("ucx_info", "-v"), ("ucx_info", "-d")):
        code = ask.ended.get(command, 0)
        if code != 0:
            how = "did not end" if code is None else f"ended with exit code {code}"
            problems.append(f"{' '.join(command)} {how}: what UCX has is not known")
    return problems


def not_on_path() -> list[str]:
    """Programs whose Debian package is installed, but whose name is not on PATH, one line each."""
    packages = dict.fromkeys(p.debian for p in PROGRAMS.values() if p.debian)
    listing = ask.output("dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *packages)
    installed = set(re.findall(r"^(\S+) installed$", listing, re.MULTILINE))
    there = programs()
    return [
        f"the package {p.debian} is installed, but {' or '.join(p.executables)} is not on "
        "PATH: install it again, or mend PATH"
        for word, p in PROGRAMS.items()
        if p.debian in installed and p.detected and word not in there
    ]


def release(said: str | None = None) -> str:
    """The distribution and its release, such as ``debian 12``, or ``an unknown distribution``."""
    text = answers.read("/etc/os-release") if said is None else said
    words = dict(re.findall(r"^(ID|VERSION_ID)=['\"]?([^'\"\n]*)", text or "", re.MULTILINE))
    named = f"{words.get('ID', '')} {words.get('VERSION_ID', '')}".strip()
    return named or "an unknown distribution"


def clock_hz(said: Mapping[str, str | None] | None = None) -> float | None:
    """Nominal clock of a core [Hz], from the model name or the base frequency; None if unknown.

    The kernel's ``cpu MHz`` is normally the current clock. In a virtual machine it is the nominal
    clock, because a virtual machine knows no other clock. It is therefore used only there.
    """
    said = said or provenance.clock()
    info, base = said["cpuinfo"] or "", said["base_frequency"]
    if match := re.search(r"^model name\s*:.* @ ([\d.]+)GHz", info, re.MULTILINE):
        return float(match[1]) * 1e9
    if base and base.isdigit():
        return float(base) * 1e3
    virtual = re.search(r"^flags\s*:.*\bhypervisor\b", info, re.MULTILINE)
    mhz = re.search(r"^cpu MHz\s*:\s*([\d.]+)", info, re.MULTILINE)
    return float(mhz[1]) * 1e6 if virtual and mhz else None


def pml(ports: Mapping[str, object]) -> dict[str, str]:
    """The extra ``pml`` of a machine: ob1 if nothing here makes Open MPI choose another.

    Without an adapter named ``mlx*`` Open MPI gives pml ucx a lower priority than ob1
    (opal/mca/common/ucx/common_ucx.c of 4.1.4 and 5.0.10). With another adapter the choice depends
    on the stack, and the extra stays away.
    """
    return {} if ports else {"pml": "ob1"}
