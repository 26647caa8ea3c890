"""Each part of the pages that the build writes (`docs/generated.py`) can be written."""

from __future__ import annotations

import pytest
from docs import generated


@pytest.mark.parametrize("name", generated.PARTS)
def test_a_generated_part_is_written(name):
    assert generated.PARTS[name]().strip()


def test_the_command_line_has_each_command():
    written = generated.command_line()
    for command in ("usage: assay history", "usage: assay verify", "usage: assay report"):
        assert command in written
