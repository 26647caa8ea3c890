"""Orders of the study of HPL; no program runs."""

from types import SimpleNamespace

import pytest
import shell
from reframe.core.exceptions import ConfigError

from assay.prove.busy import Others
from assay.run.linpack import LinpackCheck
from assay.run.mpi import MpiCheck
from assay.workloads.sizing import Grid

study = shell.module("reframe/compute/hpl_study.py")

BLOCK = 32


def of(nodes, across):
    """What HplStudy knows of itself on these nodes."""
    return SimpleNamespace(
        nodes=nodes,
        block=BLOCK,
        warm_up=0,
        between=across,
        current_partition=SimpleNamespace(features=["across"] if across else []),
        memory=lambda: (10**8, 0.8),
        shortened=lambda order: min(order, 1984),
    )


def orders(one):
    return study.HplStudyBase.orders(one, Grid(1, one.nodes))


def test_across_the_groups_a_smaller_problem_comes_first():
    within, across = of(2, False), of(2, True)
    first, *others = orders(across)
    assert others == orders(within)
    assert first == across.warm_up == others[0] - BLOCK
    assert within.warm_up == 0


def test_a_block_larger_than_the_smoke_profile_is_refused():
    test = SimpleNamespace(profile="smoke", between_nodes=True, block=4000)
    with pytest.raises(
        ConfigError, match="block: 4000 is more than the largest order of the smoke"
    ):
        LinpackCheck.shortened(test, 10_000)


@pytest.mark.parametrize(
    ("claimed", "ours", "said"),
    [
        (3.0, 1.96, ""),
        (3.0, 1.0, "2 ranks had 4.0 s of all cores in the 3.0 s that xhpl says it computed"),
        (2.0, 1.0, ""),  # more than half of the launch went before it
        (3.0, None, ""),
    ],
)
def test_ranks_that_share_a_core_are_named(claimed, ours, said):
    others = None if ours is None else Others(0.1, 2, ours=ours)
    test = SimpleNamespace(
        num_tasks=2,
        _crosses_the_link=False,
        _launched=SimpleNamespace(others=others, begin=100.0, end=104.0),
        claimed=lambda parsed: claimed,
        _program=lambda: "xhpl",
    )
    found = MpiCheck.shares_a_core(test, None)
    assert (found[0] if found else "").startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(("ranks", "order"), [(2, 4000), (8, 8000), (128, 32000)])
def test_in_the_smoke_profile_each_rank_has_as_many_elements(ranks, order):
    test = SimpleNamespace(profile="smoke", between_nodes=False, num_tasks=ranks, block=1)
    assert LinpackCheck.shortened(test, 10**6) == order


def test_a_core_that_computes_faster_than_any_is_named():
    assert LinpackCheck.too_fast(None, 600.0, 2) == []
    (said,) = LinpackCheck.too_fast(None, 700.0, 2)
    assert said == "700 GFLOP/s on 2 cores: no core computes more than 320 GFLOP/s"
