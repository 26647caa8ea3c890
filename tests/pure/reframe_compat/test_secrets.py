"""Lines of ReFrame's log have what their format names of a test, and no more is worked out."""

from __future__ import annotations

import io
import logging
from types import SimpleNamespace

import pytest
from reframe.core import logging as of_reframe

from assay import reframe_compat


class Check(SimpleNamespace):
    """A test of which ReFrame can be asked for one variable. It counts how often it is."""

    raw_params: dict[str, object] = {}
    asked = 0

    @classmethod
    def loggable_attrs(cls) -> list[tuple[str, str | None]]:
        return [("colour", None)]

    @property
    def colour(self) -> str:
        Check.asked += 1
        return "blue"

    def info(self) -> str:
        return "Check @here"


@pytest.mark.parametrize(
    ("form", "kind", "said", "asked"),
    [
        ("%(check_info)s: %(message)s", "file", "Check @here: hello", 0),
        ("%(message)s", "stream", "hello", 0),
        ("%(check_colour)s: %(message)s", "file", "blue: hello", 1),
        ("%(message)s", "httpjson", "hello", 1),  # it sends all variables, whatever its format
    ],
)
def test_only_a_log_that_names_variables_of_a_test_has_them(
    form: str, kind: str, said: str, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reframe_compat.install()
    monkeypatch.setattr(Check, "asked", 0)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(of_reframe.RFC3339Formatter(form))
    handler._rfm_type = kind
    logger = of_reframe.Logger("test")
    logger.addHandler(handler)
    of_reframe.LoggerAdapter(logger, Check()).info("hello")
    assert (stream.getvalue().strip(), Check.asked) == (said, asked)
