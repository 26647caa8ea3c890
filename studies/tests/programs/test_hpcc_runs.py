"""HpccStudy and HpccOverRanks on two and four nodes: the real tests on recorded outputs.

The outputs are of HPCC 1.5.0 with the input files that the test writes for two and four nodes. All
ranks ran on one machine and shared less than one core.
"""

from __future__ import annotations

import re

import pytest
from bench import ROOT
from made_nodes import MadeNodes

pytestmark = pytest.mark.slow

TWO, FOUR = (
    (ROOT / f"studies/tests/data/replay/hpcc-study/np{ranks}.txt").read_text() for ranks in (2, 4)
)

#: The memory of a node for which the recorded runs have the orders that the test asks for [B].
MEMORY = 50_688_000


def slower(text, factor):
    """An output whose network is slower: PTRANS, RandomAccess and the ring bandwidth (made)."""

    def number(by):
        return lambda found: f"{found[1]}{float(found[2]) * by:.12f}{found[3]}"

    for pattern, by in (
        (r"(PTRANS_GBs=|MPIRandomAccess_GUPs=|RandomlyOrderedRingBandwidth_GBytes=)(\S+)()", 1),
        (r"(MPIRandomAccess_time=)(\S+)()", -1),
        (r"(WALL .*PASSED +)(\S+)( )", 1),
        (r"(Randomly  Ordered Ring Bandwidth: +)(\S+)( )", 1),
        (
            r"(Begin of MPIRandomAccess section\.\n(?:.*\n)*?Real time.*\n)(\S+)( Billion)",
            1,
        ),
    ):
        text, count = re.subn(pattern, number(factor**-by), text)
        assert count, pattern
    return text


#: Stack -> outputs of two and four ranks; of which nodes a study fails, if one does; the cause.
RUNS = {
    "healthy": (slower(TWO, 600), FOUR, None, ""),
    # As recorded: four ranks that share a core are slower than two.
    "falls": (
        TWO,
        FOUR,
        None,
        "ptrans: 4 ranks reach 0.01106 GB/s together, 2 ranks reach 5.826 GB/s: more of them must",
    ),
    "summary-unlike-section": (
        slower(TWO, 600),
        FOUR.replace("PTRANS_GBs=0.0110596", "PTRANS_GBs=0.0090596"),
        4,
        "PTRANS_GBs=0.0090596, but its section has 0.011",
    ),
    "fewer-ranks": (slower(TWO, 600), TWO, 4, "hpcc says 2 ranks, 4 were asked for"),
    "no-output": ("", FOUR, 2, "banner of HPCC not found"),
}


@pytest.fixture
def nodes(bench):
    return four_nodes(bench)


def four_nodes(bench, **more):
    """Four nodes with a core each, and an adapter of InfiniBand."""
    extras = {
        "network_device": "mlx5_0:1",
        "nodes": 4,
        "cores_per_node": 1,
        "memory_bytes": MEMORY,
        "memory_fraction": 0.02,
        **more,
    }
    bench.partition(features=["inter-node"], extras=extras)
    return MadeNodes(bench, 4, "1", {"mlx5_0": "0-3"})


def hpcc(nodes, name, outputs, moved=10**12):
    folder = nodes.bench.folder / "outputs" / name
    folder.mkdir(parents=True)
    for ranks, text in zip((2, 4), outputs):
        (folder / str(ranks)).write_text(text)
    table = f"of_now {folder}/$MADE_SIZE >hpccoutf.txt"
    nodes.stack(name, ["hpcc"], ["hpcc"], table, moved=f"echo mlx5_0 {moved}")


@pytest.mark.long
def test_more_nodes_must_not_carry_less(bench, nodes):
    for name, (two, four, _, _) in RUNS.items():
        hpcc(nodes, name, (two, four))
    hpcc(nodes, "another-way", (slower(TWO, 600), FOUR), moved=1000)
    words = ("-n", "HpccOverRanks", "-S", "HpccStudy.block=80")
    run = bench.run(*words, path="studies/doc002/hpcc.py")
    # Whatever this test finds wrong, its output then has all reasons.
    for key, outcome in run.cases.items():
        print(*key, outcome.result, *outcome.record.get("problems", [outcome.reason]), sep="\n    ")
    for name, (_, _, failed, cause) in RUNS.items():
        if failed:
            run.says(f"HpccStudy %nodes={failed}", cause, environ=name)
            assert run.case("HpccOverRanks", environ=name).result == "fail_deps"
        else:
            for number in (2, 4):
                run.says(f"HpccStudy %nodes={number}", environ=name)
            run.says("HpccOverRanks", cause, environ=name)
    said = "over mlx5_0:1, the benchmark moves at least "
    run.says("HpccStudy %nodes=4", said, "the bytes took another way", environ="another-way")
    record = run.case("HpccOverRanks", environ="healthy").record
    assert [row["ranks"] for row in record["parsed"]["rows"]] == [2, 4]
    assert record["metrics"]["random_access_most_ranks"]["value"] == 0.000345374


def test_ranks_that_share_the_cores_of_one_host_are_drawn_and_not_compared(bench):
    hpcc(four_nodes(bench, options={"HpccOverRanks.host_cores": 2}), "falls", RUNS["falls"][:2])
    words = ("-n", "HpccOverRanks", "-S", "HpccStudy.block=80")
    run = bench.run(*words, path="studies/doc002/hpcc.py")
    run.says("HpccOverRanks", environ="falls")
    record = run.case("HpccOverRanks", environ="falls").record
    assert [row["ranks"] for row in record["parsed"]["rows"]] == [2, 4]
