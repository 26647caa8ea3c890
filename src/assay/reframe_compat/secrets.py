"""Keeps values that may not be written down out of ReFrame's log and run report."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from reframe.core import logging
from reframe.frontend import reporting

from assay.node import recorded


def _format(self: Any, of_reframe: Any, record: Any) -> str:
    return recorded.redacted(of_reframe(self, record), recorded.listed())


def _update(self: Any, of_reframe: Any, info: Mapping[str, Any]) -> None:
    texts = {k: recorded.without_user(v) for k, v in info.items() if isinstance(v, str)}
    of_reframe(self, {**info, **texts})


def install() -> None:
    """Wraps ReFrame's formatter of the log, and what its run report says of the session."""
    formatter, report = logging.RFC3339Formatter, reporting.RunReport
    formatter.format = functools.partialmethod(_format, formatter.format)
    report.update_session_info = functools.partialmethod(_update, report.update_session_info)
