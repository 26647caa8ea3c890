"""Checks of the ReFrame call that a site makes while ReFrame loads its configuration.

On a host that does not belong to the site, ReFrame takes its builtin system ``generic`` and runs
few cases. This module refuses that, also for a plain ``reframe -r``. What else a call may change is
compared with the plan of the site (:mod:`assay.prove.plan`).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from reframe.core.exceptions import ConfigError

from assay.prove import plan
from assay.reframe_compat import command


def check_switches(given: Iterable[command.Option]) -> None:
    """Refuse options that switch checks off: the run would end green without a verdict."""
    if off := [option.flag for option in given if option.dest in plan.OFF]:
        raise ConfigError(
            f"{' '.join(off)}: a run without its checks proves nothing; leave the option out, or "
            "run `assay calibrate` to measure without judging"
        )


def check_call(site_file: Path, site: str, patterns: Sequence[str]) -> None:
    """Refuse a call of ReFrame's command that loads a site, if there is one."""
    if call := command.of_reframe():
        check_switches(call.given)
        check_system(site_file, site, patterns, call.system)


def check_system(site_file: Path, site: str, patterns: Sequence[str], asked: str | None) -> None:
    """Refuse a system of another site, whether ``--system`` or the host's name selects it.

    :param patterns: its ``hostnames``. ReFrame matches them with the beginning of the host's name.
    :param asked: the value of ``--system`` or ``RFM_SYSTEM``; None if neither is given.
    """
    if asked is not None:
        if asked.partition(":")[0] != site:
            raise ConfigError(
                f"{site_file}: --system={asked} is not of the site {site!r}; "
                f"say --system={site}, or --system={site}:PARTITION"
            )
        return
    host = socket.gethostname()
    try:
        if any(re.match(pattern, host) for pattern in patterns):
            return
    except re.error as error:
        raise ConfigError(
            f"{site_file}: hostnames: {error.pattern!r} is not a regular expression ({error})"
        ) from None
    raise ConfigError(
        f"{site_file}: the host {host!r} is not of the site {site!r} (its hostnames are "
        f"{', '.join(patterns) or 'none'}); say --system={site} if it is, or put its name into "
        "the hostnames of its system"
    )


def check_release(site_file: Path, wanted: str, found: str) -> None:
    """Refuse a machine whose distribution is not that of the site, unless ``--system`` is given.

    :param wanted: distribution and release, as :func:`assay.sites.detect.release` writes them.
    :raises ConfigError: ReFrame's command loads the site on a machine with another distribution.
    """
    call = command.of_reframe()
    site = site_file.parent.name
    if wanted != found and call and call.system is None:
        raise ConfigError(
            f"{site_file}: machines of the site {site!r} have {wanted}, the host "
            f"{socket.gethostname()!r} has {found}; say --system={site} if it is one all the same"
        )
