import importlib
import sys

import pytest
from shell import ROOT


@pytest.fixture
def modules(monkeypatch, tmp_path):
    """Imports modules of vcluster, for a cluster below `tmp_path`. The test forgets them again."""
    monkeypatch.syspath_prepend(str(ROOT / "lab/vcluster"))
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path))
    for folder in ("etc", "run"):
        (tmp_path / folder).mkdir()
    names = [path.stem for path in (ROOT / "lab/vcluster").glob("*.py")]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(others)
