"""Limits of time as schedulers write them."""

import pytest

from assay.run.job_request import seconds


@pytest.mark.parametrize(
    ("scheduler", "option", "said"),
    [
        ("slurm", "--time=40", 2400),
        ("slurm", "-t 1:30", 90),
        ("squeue", "-p short --time 02:00:00", 7200),
        ("slurm", "--time=1-12", 129600),
        ("slurm", "--time=1-0:30", 88200),
        ("slurm", "--time=UNLIMITED", None),
        ("slurm", "--ntasks=4", None),
        ("pbs", "-l walltime=00:20:00", 1200),
        ("pbspro", "-l select=1,walltime=90", 90),
        ("pbs", "-t 1-10", None),
        ("oar", "/host=1,walltime=2:0:0", 7200),
        ("sge", "-l h_rt=3600", 3600),
        ("lsf", "-W 40", 2400),
        ("lsf", "-q short -W 1:30", 5400),
    ],
)
def test_a_limit_of_time(scheduler, option, said):
    assert seconds(scheduler, option) == said
