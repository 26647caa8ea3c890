"""How a call of ReFrame differs from the plan of its site: what it selects, and what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.reframe_compat.command import Invocation, Option

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
