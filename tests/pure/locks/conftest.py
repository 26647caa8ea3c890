from __future__ import annotations

from pathlib import Path

import pytest
from spack_copy import Copy


@pytest.fixture
def copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Copy:
    return Copy(tmp_path, capsys)
