"""CrossingPairs on four "nodes" of this machine, across a link that is as stated, or cannot be."""

import pytest
from nodes import machine

pytestmark = pytest.mark.slow

#: Runs the real program. The printed rates are those of a quiet machine.
LYING = """#!/bin/sh
case "$*" in *tag_*) ;; *) exec {real} "$@" ;; esac
{real} "$@" >out.$$
rc=$?
awk 'NF == 8 && $1 ~ /^[0-9]+$/ {{ $0 = "  " $1 " 9 9 9 1000 1000 111111 111111" }}
  {{ print }}' out.$$
exit $rc
"""

#: All "nodes" have one counter of segments, and a busy machine sends some of them again.
LOSSY = {"link_resent_max": 0.9}


@pytest.mark.long
@pytest.mark.parametrize(
    ("bandwidth", "said"),
    [
        (2097, ""),
        (1500, "2 pairs across moved 2097 MB/s, more than the 1500 MB/s of the link"),
    ],
    ids=["as stated", "faster than it can be"],
)
def test_pairs_across_share_the_link_that_the_site_states(bench, bandwidth, said):
    groups = {"east": "node[01-02]", "west": "node[03-04]"}
    real = machine(
        bench,
        features=["inter-node", "across", "tcp"],
        options={"PairsOfNodes.seconds": 0.05},
        health=LOSSY,
        # Both are what the program prints, in MB/s and us.
        between={"groups": groups, "bandwidth": bandwidth, "latency": 9},
    )
    bench.program("live", "ucx_perftest", LYING.format(real=real))
    run = bench.run("-n", "CrossingPairs", path="studies/doc003/crossing_pairs.py")
    outcome = run.says("CrossingPairs", said) if said else run.says("CrossingPairs")
    rows = outcome.record["parsed"]["rows"]
    assert [(row["line"], row["pairs"]) for row in rows] == [
        ("within", 1), ("within", 2), ("across", 1), ("across", 2),
    ]  # fmt: skip
