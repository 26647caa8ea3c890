"""Nodes out of service: outputs of Slurm 22.05 on the emulated cluster (shortened)."""

import pytest

pytest.importorskip("reframe")
from reframe.core.exceptions import JobSchedulerError, SpawnedProcessError

from assay import slurm
from assay.prove import node_state

LINE = (
    "NodeName={name} Arch=x86_64 CPUAlloc=0 State={state} ThreadsPerCore=1 Weight=1 "
    "Partitions=batch  ExtSensorsTemp=n/s{end}"
)
DRAINED = {"state": "IDLE+DRAIN", "end": " Reason=fault [root@2026-11-21T14:43:08]"}
DEAD = {
    "state": "DOWN+NOT_RESPONDING",
    "end": " Reason=Not responding [slurm@2026-11-21T14:53:19]",
}


def line(name="node01", state="IDLE", end=""):
    return LINE.format(name=name, state=state, end=end)


class Slurm:
    """The parts of ReFrame's scheduler that :mod:`assay.prove.node_state` uses."""

    registered_name = "squeue"

    def __init__(self, *lines):
        self.lines = lines

    def allnodes(self):
        return [type("Node", (), {"descr": text}) for text in self.lines]

    def filternodes(self, job, nodes):
        return nodes


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, ""),
        ({"state": "ALLOCATED"}, ""),
        ({"state": "IDLE+POWERED_DOWN"}, ""),
        ({"state": "IDLE~"}, ""),
        (DRAINED, "IDLE+DRAIN (fault)"),
        (DEAD, "DOWN+NOT_RESPONDING (Not responding)"),
        ({"state": "IDLE*"}, "IDLE*"),
        ({"state": "DOWN*", "end": " Reason=bad disk"}, "DOWN* (bad disk)"),
        (
            {"state": "MIXED+DRAIN", "end": " Reason=gpu fell off Comment=x"},
            "MIXED+DRAIN (gpu fell off)",
        ),
    ],
)
def test_a_node_takes_jobs_or_slurm_says_why_not(said, why):
    node = slurm.node(line(**said))
    assert (node.name, node.out) == ("node01", why)


def test_what_has_no_node_is_refused():
    with pytest.raises(ValueError, match="no node: 'slurm_load"):
        slurm.node("slurm_load_node error: Unable to contact slurm controller")


def test_of_enough_nodes_those_that_are_out_do_not_matter():
    slurm = Slurm(line(), line("node02"), line("node03", **DRAINED))
    assert node_state.in_service(slurm, None, 2) == (2, [])


def test_too_few_nodes_are_named():
    slurm = Slurm(line(), line("node03", **DRAINED), line("node02", **DEAD))
    assert node_state.in_service(slurm, None, 4) == (
        1,
        [
            "node02 is DOWN+NOT_RESPONDING (Not responding)",
            "node03 is IDLE+DRAIN (fault)",
            "Slurm has 3 nodes for this job, 4 are asked for",
        ],
    )


def test_only_nodes_of_the_job_are_lost():
    slurm = Slurm(line(), line("node02", **DEAD), line("node03", **DRAINED))
    assert node_state.lost(slurm, ["node02", "node01"]) == [
        "node02 is DOWN+NOT_RESPONDING (Not responding)"
    ]


@pytest.mark.parametrize("name", ["local", "pbs"])
def test_other_schedulers_are_not_asked(name):
    slurm = Slurm()
    slurm.registered_name = name
    assert node_state.in_service(slurm, None, 4) == (4, [])
    assert node_state.lost(slurm, ["node01"]) == []


HUNG = SpawnedProcessError("scontrol show", "", "scontrol did not end within 30 s", 124)
ABSENT = FileNotFoundError(2, "No such file or directory", "scontrol")


@pytest.mark.parametrize(
    ("error", "cause", "said"),
    [
        (JobSchedulerError("no node information"), HUNG, "scontrol did not end within 30 s"),
        (ABSENT, None, "[Errno 2] No such file or directory: 'scontrol'"),
    ],
    ids=["hung", "not installed"],
)
def test_a_scheduler_that_does_not_answer_decides_nothing_and_is_named(error, cause, said):
    slurm = Slurm()

    def allnodes():
        raise error from cause

    slurm.allnodes = allnodes
    lines = [f"Slurm does not say how its nodes are: {said}"]
    assert node_state.in_service(slurm, None, 4) == (4, lines)
    assert node_state.lost(slurm, ["node01"]) == lines
