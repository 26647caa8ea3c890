"""NVLinks without rates: pairs that the driver keeps apart, and GPUs with fewer links.

The matrices of links are made, none is of hardware. The access is that of recorded emulated GPUs.
"""

import itertools

import pytest
from tests.pure.gpu.test_gpus import log

from assay.accused import How
from assay.gpu import gpu_ways, gpus
from assay.gpu.gpu_ways import Copy, Turn
from assay.gpu.gpus import GPUS


def turns(links, number=8, nodes=("node01",), *, apart=lambda a, b: False):
    """Turns of GPUs that `links(node, a, b)` NVLinks join; all copies have the same rate."""
    found = []
    for turn, node in itertools.product(range(3), nodes):
        copies = []
        for a, b in itertools.permutations(range(number), 2):
            joined = links(node, *sorted((a, b)))
            kind = f"model NV{joined}" if joined else "model SYS"
            copies.append(
                Copy(f"bus{a}", f"bus{b}", kind, 10, 10, not apart(a, b), "", joined)
            )  # fmt: skip
        names = {f"bus{n}": f"GPU {n} (model)" for n in range(number)}
        found.append(Turn(node, 1, turn, names, tuple(copies)))
    return found


def half_of_one(node, a, b):
    """A switch joins all by NV18; GPU 5 of node01 has half of its links."""
    return 9 if 5 in (a, b) and node == "node01" else 18


def test_a_gpu_that_lost_half_of_its_links_is_named_on_one_node():
    accused, undecided = GPUS.slow(turns(half_of_one), 0.2)
    assert undecided == []
    assert accused == [
        "node01: GPU 5 (model) has fewer NVLinks than others: its pairs (7 by NV9) have 63 in sum, "
        "the median of 7 others of the node is 117"
    ]
    assert (accused[0].nodes, accused[0].how) == (("node01",), How.DIFFERS)


def test_the_other_nodes_name_it_where_a_node_has_two_gpus():
    def links(node, a, b):
        return 2 if node == "node02" else 4

    accused, _ = GPUS.slow(turns(links, 2, ("node01", "node02", "node03")), 0.2)
    assert [line[:14] for line in accused] == ["node02: GPU 0 ", "node02: GPU 1 "]
    assert all("the median of the same on 2 other nodes is 4" in line for line in accused)


def test_a_link_that_two_gpus_lost_names_both():
    accused, _ = GPUS.slow(turns(lambda node, a, b: 3 if (a, b) == (1, 2) else 4), 0.2)
    assert [line.partition(" has fewer")[0] for line in accused] == [
        "node01: GPU 1 (model)", "node01: GPU 2 (model)"
    ]  # fmt: skip
    assert "its pairs (1 by NV3, 6 by NV4) have 27 in sum" in accused[0]


def cube_mesh(node, a, b):
    """Two groups of four: each GPU has 2+1+1 links in its group, and 2 to its partner."""
    if a // 4 != b // 4:
        return 2 if b - a == 4 else 0
    return 2 if a ^ b == 1 else 1


HEALTHY = {
    "switch": (lambda node, a, b: 18, 8),
    "bridges": (lambda node, a, b: 4 if a ^ b == 1 else 0, 4),
    "one bridge of three GPUs": (lambda node, a, b: 4 if (a, b) == (0, 1) else 0, 3),
    "cube mesh": (cube_mesh, 8),
    "NV4 and NV8": (lambda node, a, b: 8 if a ^ b == 1 else 4, 4),
    "no NVLink": (lambda node, a, b: 0, 8),
    "two kinds of bridges": (lambda node, a, b: {(0, 1): 4, (2, 3): 2}.get((a, b), 0), 4),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_links_name_nobody(name):
    links, number = HEALTHY[name]
    found = turns(links, number)
    assert GPUS.slow(found, 0.2) == ([], [])
    assert GPUS.second_look(found, 0.2) == []


def test_gpus_that_have_as_few_links_on_other_nodes_are_built_so():
    def links(node, a, b):
        return 9 if 5 in (a, b) else 18

    assert GPUS.slow(turns(links, nodes=("node01", "node02")), 0.2) == ([], [])


def test_links_that_no_majority_can_judge_are_listed():
    def said(*what):
        return [line for line in gpus.not_compared(turns(*what)) if "NVLink" in line]

    assert said(*HEALTHY["two kinds of bridges"]) == [
        f"node01: GPU {n} (model): the number of its NVLinks" for n in (2, 3)
    ]
    three = said(*HEALTHY["one bridge of three GPUs"])
    assert "node01: GPU 2 (model): it has no NVLink, others have" in three
    assert said(*HEALTHY["no NVLink"]) == said(half_of_one) == []


def test_a_pair_that_nvlink_joins_needs_no_majority_to_be_named():
    found = turns(lambda node, a, b: 4, 2, apart=lambda a, b: True)
    accused, undecided = GPUS.slow(found, 0.2)
    assert undecided == []
    assert accused == [
        "node01: GPU 0 (model) and GPU 1 (model) are joined by NV4, but cannot access each other's "
        "memory"
    ]
    assert (accused[0].nodes, accused[0].how) == (("node01",), How.DIFFERS)
    assert GPUS.second_look(found, 0.2) == ["node01"]
    one_way = turns(lambda node, a, b: 4, 2, apart=lambda a, b: a == 1)
    assert GPUS.slow(one_way, 0.2)[0] == [
        "node01: GPU 1 (model) and GPU 0 (model) are joined by NV4, but the first cannot access "
        "the memory of the second"
    ]


def test_pairs_that_nvlink_does_not_join_need_no_access():
    assert GPUS.slow(turns(lambda node, a, b: 0, apart=lambda a, b: True), 0.2) == ([], [])


def test_recorded_emulated_gpus_without_any_access_are_one_line_of_the_node():
    found, failed = gpu_ways.turns(log("no-access-at-all"))
    assert failed == []
    (line,), undecided = GPUS.slow(found, 0.2)
    assert undecided == []
    assert line.startswith(
        "node01: 6 of the 6 pairs of GPUs that NVLink joins are without access to each other's "
        "memory; GPU 0 (EMULATED GPU, "
    )
    assert "are joined by NV1, but cannot access each other's memory, for instance" in line
