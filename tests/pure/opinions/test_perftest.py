"""ucx_perftest as the tests start it: what its output must repeat of the request."""

import pytest

pytest.importorskip("reframe")

from real_outputs import texts

from assay.opinions import perftest
from assay.opinions.parse import ucx_perftest
from assay.run.outputs import not_as_requested

TEXTS = texts("ucx-perftest")
SIZES = {"tag_lat": 8, "put_lat": 8, "fadd": 8, "tag_bw": 1 << 20, "get": 1 << 16, "am_bw": 1 << 16}


def outputs():
    """(parsed, size, iterations) of the real outputs of a plain run."""
    for name, text in TEXTS.items():
        how = name.removeprefix("ucx_perftest.").split(".")[-1].removesuffix("-log")
        if how in SIZES:
            parsed = ucx_perftest.parse_ucx_perftest(text)
            yield parsed, SIZES[how], parsed.rows[-1]["iterations"]


def test_real_outputs_are_of_the_requested_size():
    found = list(outputs())
    assert len(found) > 5
    for parsed, size, _ in found:
        assert perftest.not_requested(parsed, size) == []


def test_a_much_larger_size_and_other_iterations_are_problems():
    for parsed, size, iterations in outputs():
        (said,) = perftest.not_requested(parsed, 1000 * size)
        assert f"are not messages of {1000 * size} B" in said
        (said,) = not_as_requested(parsed, {"iterations": iterations + 1})
        assert said == f"{iterations} iterations were run, {iterations + 1} were asked for"
