"""BT-IO: bytes and memory of a class, the hosts of its ranks, and the library that did MPI-IO."""

from types import SimpleNamespace

import pytest
from real_outputs import DATA

from assay.parse import npb, openmpi
from assay.prove import mpi
from assay.workloads import btio
from assay.workloads.sizing import Layout, SizingError

OPEN_MPI = mpi.OPEN_MPI


def test_a_class_writes_what_the_program_says_that_it_wrote():
    parsed = npb.parse_npb((DATA / "npb" / "bt.S.x.mpi_io_full.np4.txt").read_text())
    printed = {"S": parsed.rows[0]["io_written"], "W": 22.12, "A": 419.43}  # by NPB 3.4.3
    assert printed == {name: round(btio.bytes_written(name) / 1e6, 2) for name in printed}


def test_each_class_writes_more_than_the_one_before():
    written = [btio.bytes_written(npb_class) for npb_class in "SWABCDE"]
    assert written == sorted(written)
    assert 2.1e12 < written[-1] < 2.2e12


def test_memory_falls_with_the_ranks_and_is_that_of_the_arrays():
    # A process of class A on one rank used 115668 KiB, and one of class S 16764 KiB.
    assert 0.8 < btio.memory_of_rank("A", 1) / (115668 * 1024) < 1
    of_rank = [btio.memory_of_rank("E", ranks) for ranks in (1, 4, 16, 64)]
    assert of_rank == sorted(of_rank, reverse=True)
    assert 300e9 < of_rank[0] < 500e9


@pytest.mark.parametrize(
    ("built", "said", "smoke", "runs"),
    [
        (["S", "W", "A", "B", "C"], None, False, "A"),
        (["S", "W"], None, False, "W"),
        (["C", "D"], None, False, "C"),
        (["S", "A", "E"], "E", False, "E"),
        (["S", "A", "E"], "E", True, "S"),
    ],
)
def test_the_class_that_is_run(built, said, smoke, runs):
    assert btio.chosen(built, said, smoke) == runs


def test_a_class_that_the_stack_has_not():
    with pytest.raises(SizingError, match=r"this stack has no btio class E; it has S, W"):
        btio.chosen(["S", "W"], "E", False)


def test_one_rank_on_each_node_where_they_share_the_directory():
    assert btio.layout(9, ["storage", "shared"], {"nodes": 16}) == Layout(9, 1)
    assert btio.layout(9, ["storage"], {"nodes": 16}) == Layout(1, 9)
    assert btio.layout(9, ["storage", "shared"], {}) == Layout(1, 9)
    with pytest.raises(
        SizingError, match=r"16 nodes are needed, one for each rank; the site offers 9"
    ):
        btio.layout(16, ["shared"], {"nodes": 9})


def test_what_a_class_does_not_fit_on():
    btio.fits("S", Layout(1, 16), 2**30)
    btio.fits("A", Layout(1, 1), None)
    with pytest.raises(SizingError, match="class S is too small for 25 ranks; 16 at most"):
        btio.fits("S", Layout(1, 25), 2**30)
    with pytest.raises(SizingError, match=r"takes \d{12} bytes of memory on each node .* has 1024"):
        btio.fits("E", Layout(1, 1), 1024)


def partition(features, cores, **extras):
    processor = SimpleNamespace(num_cores=cores, num_cpus=cores)
    return SimpleNamespace(features=features, extras=extras, processor=processor)


@pytest.mark.parametrize(
    ("partitions", "counts"),
    [
        ([], [1]),
        ([partition(["intra-node"], 64)], [1]),
        ([partition(["storage"], 2), partition(["storage"], 12)], [1, 4, 9]),
        ([partition(["storage", "shared"], 48, nodes=17)], [1, 4, 9, 16]),
        ([partition(["storage"], 256)], [1, 4, 9, 16, 25, 36, 49, 64]),
        ([partition(["storage"], None)], [1]),
    ],
)
def test_numbers_of_ranks_for_which_some_partition_has_room(partitions, counts):
    assert btio.rank_counts(partitions) == counts


def said(*modules):
    """The output of processes, each with its own module."""
    line = "[node{0}:{0}] io:base:file_select: Selected io module {1}"
    return "\n".join(line.format(*pair) for pair in enumerate(modules, 1))


@pytest.mark.parametrize(
    ("text", "asked", "ranks", "problem"),
    [
        (said("ompio"), "ompio", 1, None),
        (said("romio321", "romio321", "romio321", "romio321"), "romio", 4, None),
        ("", "none", 4, None),
        (said("romio321"), "ompio", 1, "MPI-IO was done by romio321; ompio was asked for"),
        (said("romio341", "ompio"), "romio", 2, "MPI-IO was done by ompio; romio was asked for"),
        (said("ompio"), "ompio", 4, "1 of 4 ranks named their library of MPI-IO"),
        (said("ompio"), "none", 1, "MPI-IO by ompio, where there was to be none"),
        ("", "romio", 1, "does this Open MPI have romio?"),
    ],
)
def test_who_did_the_mpi_io(text, asked, ranks, problem):
    problems = OPEN_MPI.other_io(openmpi.parse_openmpi(text), asked, ranks)
    assert (problem in problems[0]) if problem else problems == []


def test_who_did_the_mpi_io_of_a_real_run():
    text = (DATA / "replay" / "btio-full" / "stderr").read_text()
    assert [module for _, module in openmpi.parse_openmpi(text).io] == ["ompio"]
