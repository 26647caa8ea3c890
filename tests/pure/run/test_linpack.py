"""Orders of the study of HPL; no program runs."""

from types import SimpleNamespace

import pytest
import shell
from reframe.core.exceptions import ConfigError

from assay.run.linpack import LinpackCheck
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
