"""What Slurm says of the end of a job: outputs of Slurm 22.05, shortened."""

import pytest

from assay import slurm

SCONTROL = (
    "JobId=7 JobName=rfm_Hpl UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=1 Nice=0 "
    "Account=(null) QOS=(null) JobState={state} Reason={reason} Dependency=(null) Requeue=0 "
    "Restarts={restarts} BatchFlag=1 Reboot=0 ExitCode={code} RunTime=00:00:09 "
    "ReqNodeList=(null) ExcNodeList=(null) NodeList=node[01-02] BatchHost=node01 "
    "Command=/home/u/rfm_job.sh NodeList=x\n"
)


def scontrol(state, reason="None", code="0:0", restarts=0):
    return SCONTROL.format(state=state, reason=reason, code=code, restarts=restarts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (scontrol("COMPLETED"), "Slurm says COMPLETED with exit code 0:0 on node[01-02]"),
        (
            scontrol("OUT_OF_MEMORY", "OutOfMemory", "0:125"),
            "Slurm says OUT_OF_MEMORY with exit code 0:125 (OutOfMemory) on node[01-02]",
        ),
        (
            scontrol("COMPLETED", restarts=2),
            "Slurm says COMPLETED with exit code 0:0, started 3 times, on node[01-02]",
        ),
        ("CANCELLED by 1000|0:15|None assigned\n", "Slurm says CANCELLED with exit code 0:15"),
        ("NODE_FAIL|1:0|node01\n", "Slurm says NODE_FAIL with exit code 1:0 on node01"),
        ("", "Slurm has forgotten it, and nobody knows how it ended"),
        ("\n", "Slurm has forgotten it, and nobody knows how it ended"),
    ],
)
def test_the_end_of_a_job_is_read_from_scontrol_and_from_sacct(text, said):
    assert str(slurm.ended("7", text)) == said


@pytest.mark.parametrize(
    ("text", "rc", "denies"),
    [
        (scontrol("COMPLETED"), 0, False),
        (scontrol("FAILED", "NonZeroExitCode", "3:0"), 3, False),
        (scontrol("FAILED", "NonZeroExitCode", "0:9"), 137, False),
        (scontrol("FAILED", "NonZeroExitCode", "1:0"), 0, True),
        (scontrol("OUT_OF_MEMORY"), 0, True),
        (scontrol("OUT_OF_MEMORY"), 137, True),
        (scontrol("NODE_FAIL"), 0, True),
        (scontrol("COMPLETED", restarts=1), 0, True),
        ("", 0, False),  # its own record decides
    ],
)
def test_slurm_may_deny_what_a_job_says_of_its_end(text, rc, denies):
    assert slurm.ended("7", text).denies(rc) is denies
