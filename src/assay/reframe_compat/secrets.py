"""Keeps out of ReFrame's log and run report what may not be written down, or nobody asked for."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from reframe.core import logging
from reframe.frontend import reporting

from assay.node import recorded

_known = functools.cache(recorded.listed)  # a run writes thousands of lines


def _format(self: Any, of_reframe: Any, record: Any) -> str:
    return recorded.redacted(of_reframe(self, record), _known())


def _variables(self: Any, of_reframe: Any) -> None:
    # ReFrame works out all variables of a test for each line, which takes half of its time.
    texts = [h.formatter._fmt for h in self.logger.handlers if h._rfm_type in ("file", "stream")]
    named = str(texts).replace("(check_info)", "")
    if self.check is None or len(texts) < len(self.logger.handlers) or "(check_" in named:
        of_reframe(self)
    else:
        self.extra["check_info"] = self.check.info()


def _update(self: Any, of_reframe: Any, info: Mapping[str, Any]) -> None:
    texts = {k: recorded.without_user(v) for k, v in info.items() if isinstance(v, str)}
    of_reframe(self, {**info, **texts})


def install() -> None:
    formatter, report = logging.RFC3339Formatter, reporting.RunReport
    formatter.format = functools.partialmethod(_format, formatter.format)
    adapter = logging.LoggerAdapter
    adapter._update_check_extras = functools.partialmethod(_variables, adapter._update_check_extras)
    report.update_session_info = functools.partialmethod(_update, report.update_session_info)
