"""The plan of a run, and how what was found differs from it.

The plan is what the site, its stacks and the tests ask for. A line about a difference has one of
three classes:

- :class:`Note`: it changes only what is printed, or how a program crashes. It is stated.
- :class:`Doubt`: it may change what is measured. It is stated, and the run is PARTIAL.
- any other text: it contradicts what the case asks for. The case fails.

What the machine itself owns (:class:`Machine`) is no difference. It is recorded, compared between
the nodes, and compared with what the references were calibrated under.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.node.recorded import HIDDEN
from assay.reframe_compat.command import Invocation, Option


class Note(str):
    """A difference that does not change what is measured, in one line."""

    __slots__ = ()


class Doubt(str):
    """A difference that may change what is measured, in one line."""

    __slots__ = ()


#: Directories of a distribution.
SYSTEM = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64")

#: Beginnings of variables that change only what is printed, or how a program crashes.
PRINTED = (
    *("UCX_LOG_", "UCX_PROTO_INFO", "UCX_PRINT_", "UCX_WARN_"),  # the log of UCX
    *("UCX_HANDLE_ERRORS", "UCX_ERROR_", "UCX_GDB_COMMAND"),  # what UCX does in a crash
    "UCX_VFS_",  # UCX shows its objects as files
    *("HWLOC_HIDE_ERRORS", "I_MPI_DEBUG", "MPICH_ENV_DISPLAY", "MPICH_VERSION_DISPLAY"),
    *("LD_BIND_NOW", "LD_WARN", "LD_VERBOSE"),  # symbols are looked up before the program begins
)

#: Words in names of settings of Open MPI that change only what is printed.
PRINTED_BY_MPI = ("_verbose", "_warn_", "show_load_errors", "help_aggregate", "report_bindings")

#: Variables whose effect is judged by the libraries that were loaded, because modules set
#: LD_LIBRARY_PATH on many machines. The witness sets the others.
SEARCH = ("LD_LIBRARY_PATH", "LD_DEBUG", "LD_DEBUG_OUTPUT")

#: Variables that choose the transport: nobody but the case, the stack or the machine may.
CHOOSING = ("UCX_TLS", "OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", "FI_PROVIDER")


@dataclass(frozen=True)
class Machine:
    """What belongs to the machine that is accepted, and not to the person who starts the run.

    :ivar roots: directories; a setting in a file below one of them is the machine's.
    :ivar variables: what modules and the configuration of the site have set.
    """

    roots: tuple[str, ...] = ("/etc", "/usr/etc", *SYSTEM)
    variables: Mapping[str, str] = field(default_factory=dict)

    def owns(self, where: str) -> bool:
        """Whether a place ``file:line`` is in a file of the machine."""
        path = posixpath.normpath(where.rpartition(":")[0])
        inside = tuple(f"{root.rstrip('/')}/" for root in self.roots)
        return path in self.roots or path.startswith(inside)

    def variable(self, name: str, value: str) -> list[str]:
        """What to say of a variable that nobody requested; nothing if it is the machine's."""
        if name in SEARCH or self.variables.get(name) == value:
            return []
        shown = f"{name} (value not recorded)" if value == HIDDEN else f"{name}={value}"
        said = f"{shown} was set outside of the test"
        return [_classed(name, said, "unset it, or put it into the stack's env_vars")]

    def setting(self, where: str, name: str, value: str) -> list[str]:
        """What to say of a setting in a file; nothing if it is the machine's."""
        if self.owns(where):
            return []
        variable = name if name.isupper() else f"OMPI_MCA_{name}"
        said = f"{name} is set to {value} by {where}, which is no file of the machine,"
        mend = f"remove it there, or put {variable} into the stack's env_vars"
        return [_classed(variable, said, mend)]


def _classed(variable: str, said: str, mend: str) -> str:
    """A line about a setting that nobody requested, in its class."""
    if variable.startswith(PRINTED) or any(word in variable for word in PRINTED_BY_MPI):
        return Note(f"{said.removesuffix(',')}; it changes no measurement")
    if variable in CHOOSING:
        return f"{said} and chooses another transport: {mend}"
    return Doubt(f"{said} and may change what is measured: {mend}")


def digest(settings: Mapping[str, str]) -> str:
    """One hash of the settings of a machine, without the numbers of their lines."""
    lines = sorted(f"{where.rpartition(':')[0]} {said}" for where, said in settings.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def within(where: str, line: str) -> str:
    """The line, with the place that it is about; a doubt or a note stays as it is."""
    return line if isinstance(line, (Doubt, Note)) else f"{where}: {line}"


def sorted_out(lines: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Problems, doubts and notes, each line once."""
    once = list(dict.fromkeys(lines))
    return (
        [line for line in once if not isinstance(line, (Doubt, Note))],
        [line for line in once if isinstance(line, Doubt)],
        [line for line in once if isinstance(line, Note)],
    )


#: Options of ReFrame, by the names that ReFrame gives them, that change no measurement.
HARMLESS = frozenset(
    [
        # What is printed.
        *("verbose", "quiet", "colorize", "table_format", "table_format_delim", "term_lhs"),
        *("term_rhs", "perf_info_level", "performance_report", "failure_stats", "warn_as_error"),
        "dump_pipeline_progress",
        # Where the results of the run are kept, and how the run is named.
        *("report_file", "report_junit", "compress_report", "generate_file_reports", "output"),
        *("save_log_files", "perflogdir", "timestamp", "keep_stage_files", "httpjson_url"),
        *("enable_results_storage", "sqlite_db_file", "sqlite_db_file_mode", "sqlite_conn_timeout"),
        "prefix",  # a site names both directories itself
        *("syslog_address", "session_extras"),
        # How often cases are launched, and which are first: all launches are judged.
        *("reruns", "duration", "maxfail", "exec_order"),
        # Which site: :mod:`assay.sites` compares it with the host.
        *("system", "recursive", "run", "autodetect_method", "autodetect_methods"),
        *("autodetect_fqdn", "autodetect_xthostname"),
        "RFM_INSTALL_PREFIX",  # ReFrame sets it itself
    ]
)

#: Options of ReFrame that select some of the cases, or other cases than those of the site.
SELECTING = frozenset(
    [
        *("names", "exclude_names", "tags", "exclude_tags", "filter_expr", "maintainers"),
        *("cpu_only", "gpu_only", "prgenv", "failed", "restore_session", "distribute", "repeat"),
        *("parameterize", "param_values_delim", "skip_system_check", "skip_prgenv_check"),
    ]
)

#: Options of ReFrame that switch checks off: the run would end green without a verdict.
OFF = frozenset(["skip_sanity_check", "skip_performance_check", "hooks"])

#: Variables of tests (``-S``) that make the judgement stricter only.
STRICTER = frozenset(["least_launches"])

#: Options of jobs (``-J``) that give them a name only.
NAMING = frozenset(["job-name", "account", "A", "comment", "mail-type", "mail-user", "wckey"])


@dataclass(frozen=True)
class Call:
    """How a call of ReFrame differs from the plan of its site.

    :ivar given: all options and variables of ReFrame, as the user gave them.
    :ivar selected: those that select some of the cases.
    :ivar changed: those that may change what is measured.
    :ivar other_cases: one of the latter may also change which cases there are.
    """

    given: tuple[str, ...] = ()
    selected: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    other_cases: bool = False


def of_call(
    call: Invocation, site_file: Path, suite: Path, profiles: Sequence[str], retries: int
) -> Call:
    """Compares a call of ReFrame with the plan of a site.

    :param site_file: the site's ``reframe.py``.
    :param suite: the folder of its tests.
    :param profiles: the modes that run the whole suite.
    :param retries: how often these modes launch a case again.
    """
    mode = next((o.value for o in call.given if o.dest == "mode"), None)
    selected, changed, variables = [], [], False
    for option in call.given:
        said = str(option)
        if option.dest in SELECTING or (option.dest == "system" and ":" in option.value):
            selected.append(said)
        elif option.dest == "checkpath":
            selected += [] if Path(option.value).resolve() == suite.resolve() else [said]
        elif option.dest == "mode":
            selected += [] if option.value in profiles else [said]
        elif option.dest == "config_files":
            changed += [] if Path(option.value).resolve() == site_file.resolve() else [said]
        elif option.dest == "max_retries":
            changed += [said] if mode and int(option.value) < retries else []
        elif option.dest == "vars" and not _stricter(option, mode or "full"):
            changed.append(said)
            variables = True
        elif option.dest == "job_options":
            changed += [] if option.value.partition("=")[0].lstrip("-") in NAMING else [said]
        elif option.dest not in {*HARMLESS, *OFF, "vars"}:
            changed.append(said)
    return Call(tuple(map(str, call.given)), tuple(selected), tuple(changed), variables)


def _stricter(option: Option, mode: str) -> bool:
    name, _, value = option.value.partition("=")
    name = name.rpartition(".")[2]
    # A calibration is red by itself.
    return name in STRICTER or (name, value) == ("profile", mode) or name == "purpose"
