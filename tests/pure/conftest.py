import pytest
from report_results import Results


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A copy of the results of a real session. The command `assay` finds it."""
    made = Results(tmp_path)
    monkeypatch.setenv("ASSAY_RESULTS", str(made.directory))
    return made
