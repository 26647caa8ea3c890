"""The place of a deprecation that ReFrame reports, found without reading any source."""

import inspect
import warnings

import pytest

pytest.importorskip("reframe")

from reframe.core.warnings import ReframeDeprecationWarning, user_deprecation_warning

from assay.reframe_compat import warnings as quick


def refuse(*_):
    raise AssertionError("reads sources, or looks at all modules")


def test_a_warning_names_the_line_of_the_user(monkeypatch):
    quick.install()
    here = inspect.currentframe()
    with warnings.catch_warnings(record=True) as caught, monkeypatch.context() as patch:
        warnings.simplefilter("always", ReframeDeprecationWarning)
        patch.setattr(inspect, "stack", refuse)
        patch.setattr(inspect, "getmodule", refuse)
        line = here.f_lineno + 1
        user_deprecation_warning("it is old", "1.0.0")
    (one,) = caught
    assert (one.filename, one.lineno, str(one.message)) == (__file__, line, "it is old")
