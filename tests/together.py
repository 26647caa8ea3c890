"""Which tests one worker runs: those of a file whose tests share one measurement."""

from __future__ import annotations

from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

#: Files whose tests share one measurement, which one worker makes. (pytest-xdist 3.8 has a marker
#: for this, xdist_group, but it has no effect with pytest 9.2.)
TOGETHER = (
    "test_fault_matrix.py",
    "test_figure.py",
    "test_gitlab_history.py",
    "test_gpu_fault_matrix.py",
    "test_job_scripts.py",
    "test_page.py",
    "test_site.py",
    "test_steering_runs.py",
    "test_validation_page.py",
)


class Schedule(LoadScopeScheduling):
    """Hands out single tests to the workers, but all tests of a file in TOGETHER to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", maxsplit=1)[0]
        return file if Path(file).name in TOGETHER else nodeid
