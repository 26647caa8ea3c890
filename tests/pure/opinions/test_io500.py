"""IOR and mdtest by the rules of IO500: ranks, sizes, and what the programs are told."""

import pytest

from assay.opinions import io500
from assay.workloads.sizing import Layout, SizingError


def test_all_nodes_that_share_a_directory_take_part():
    there = io500.layout(["storage", "shared"], {"nodes": 4, "cores_per_node": 2}, 8)

    assert there == Layout(4, 2)


def test_a_directory_of_one_node_is_filled_by_its_cores():
    assert io500.layout(["storage"], {"nodes": 4, "cores_per_node": 2}, 8) == Layout(1, 8)
    assert io500.layout(["storage", "shared"], {"cores_per_node": 2}, 8) == Layout(1, 8)


@pytest.mark.parametrize("pattern", io500.PATTERNS)
def test_the_ranks_of_a_node_write_no_more_than_they_may(pattern):
    block, segments = io500.block(pattern, 2**30, 3)

    written = 3 * block * segments
    assert 2**30 - 3 * io500.TRANSFER[pattern] < written <= 2**30
    assert block % io500.TRANSFER[pattern] == 0
    assert (segments == 1) == (pattern == io500.EASY)


def test_too_few_bytes_for_one_transfer():
    with pytest.raises(SizingError, match="2 ranks of a node cannot write 2097152 bytes each"):
        io500.block(io500.EASY, 2**21, 2)


def test_the_second_phase_of_ior_reads_and_compares_what_the_first_one_wrote():
    lines = io500.phases_of_ior(io500.EASY, 300, 2**30, 1)

    first, second = "\n".join(lines).split("RUN")[:2]
    assert "deadlineForStonewalling=300" in first and "writeFile=1" in first
    assert "readFile=1" in second and "checkRead=1" in second and "writeFile=0" in second
    # Every phase reads how many blocks were written, and no phase removes the files.
    assert "stoneWallingStatusFile=" in first and "keepFile=1" in first and "keepFile" not in second


def test_files_without_data_are_not_read():
    easy, hard = (io500.options_of_mdtest(pattern, 300, 10) for pattern in io500.PATTERNS)

    assert io500.mdtest_operations(io500.EASY) == ["create", "stat", "remove"]
    assert "-E" not in easy and "-X" not in easy
    assert "-E" in hard and "-X" in hard
    assert ("-u" in easy, "-u" in hard) == (True, False)
