"""What to do about a case that failed: each message that the suite can print has a remedy."""

import re

import fault_tables
import pytest

from assay.show import page, remedies

#: Messages that a page quotes of the suite itself, and not of a case.
NOT_OF_A_CASE = (
    "assay history", "is in environs", "no such job", "its results are of", "nothing was judged",
    "the run calibrates", "2 of 3, without", "selected by", "valid_systems:",
    "ipc-open", "extras: ucx_version", "the package ", "may_skip:", "the file of 8388608",
    "no process was seen", "the files were open", "incomplete: 2 ranks are needed;",
    "-J nodelist", "no case is selected",
)  # fmt: skip


def messages():
    """The messages in the last column of the tables of faults."""
    names = [path.stem for path in fault_tables.FOLDER.glob("*.csv")]
    last = [row[-1] for name in names for row in fault_tables.rows(name)]
    said = {found[1] for cell in last if (found := re.fullmatch("`([^`]+)`", cell))}
    return sorted(one for one in said if not one.startswith(NOT_OF_A_CASE))


def test_the_tables_of_faults_have_messages():
    assert len(messages()) > 100


@pytest.mark.parametrize("message", messages())
def test_each_message_of_the_fault_matrices_has_a_next_step(message):
    assert remedies.remedy_for(message), message


@pytest.mark.parametrize(
    ("message", "begins"),
    [
        ("OMPI_MCA_btl=tcp was set outside of the test", "Unset it"),
        ("the MPI mpich ran, the stack x states openmpi: is the module", "Compare the launcher"),
        ("the launcher of Open MPI started the ranks, which use mpich", "Compare the launcher"),
        ("xhpl: line 79: residual check FAILED: 3.2e-03", "Take the nodes"),
        ("latency_8B: FAIL: 0.6 us is above the upper bound 0.126 us", "Compare it with earlier"),
        ("node02 is IDLE+DRAIN (fault)", "Type `scontrol show node"),
        # It named a cable: "was lost".
        (
            "missing: the job 'osu 1' left no run report: it did not run, or was lost",
            "Read the log",
        ),
        (
            "n2: rxe0:1: times that the link of the port went down: 1 more during the run",
            "Look at the cable",
        ),
        (
            "node02: mounts /scratch is with sync, without sync on 3 others",
            "Type `.venv/bin/assay nodes` for the line",
        ),
        (
            "node02: line 32: Error writing block 3: write: No space left on device",
            "Look at its space",
        ),
        ("GPU 1: uncorrected memory errors since the driver was loaded: 7", "Read `nvidia-smi -q`"),
        ("node02 left before the end: its process ended", "Type `.venv/bin/assay nodes`"),
        ("osu_latency: line 14: 1 values for 2 columns: '1024'", "Open the standard output"),
        ("osu_latency: line 1: unknown version 9.9", "Read docs/adding-a-benchmark.md"),
        ("osu_latency ended with exit code 139 (signal 11)", "Open the standard error"),
    ],
)
def test_the_remedy_is_that_of_the_cause(message, begins):
    assert remedies.remedy_for(message).next.startswith(begins)


def test_a_message_of_no_kind_has_none():
    assert remedies.remedy_for("it broke") is None


def test_no_entry_is_without_use():
    """Each entry is the first that some message finds."""
    used = {remedies.remedy_for(message) for message in [*messages(), *OTHERS]}
    assert [one.pattern for one in remedies.known() if one not in used] == []


#: One message for each entry that no table of faults shows.
OTHERS = (
    "the job script says exit code 0, Slurm says OUT_OF_MEMORY with exit code 0:125 (OutOfMemory)",
    "the job script did not reach its end: Slurm says TIMEOUT (TimeLimit) on n1",
    "the job script did not reach its end: Slurm says NODE_FAIL (NodeDown) on n1",
    "the job script did not reach its end: Slurm says PREEMPTED with exit code 0:15 on n1",
    "the job script did not reach its end: Slurm has forgotten it, and nobody knows how it ended",
    "performance: INCONCLUSIVE: 31 GFLOP/s (range 29 to 32, n=9) straddles 30 to 33",
    "the machine was busy: other work took 1.8 of 2 cores",
    "missing: the job 'osu 1 @x:y+z' left no run report: it did not run, or was lost",
    "node01: the partition says 64 processors, the node has 2",
    "site-config/x/references.yaml: references: no reference for 'rate' [MIPS] of {test: Own}",
)


def test_a_command_of_a_remedy_is_code_on_the_page_and_nothing_else_is_html():
    assert (
        page.commands("Type `a <b>`, then <i>") == "Type <code>a &lt;b&gt;</code>, then &lt;i&gt;"
    )
