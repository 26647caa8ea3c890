import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.workloads import hpl_input, sizing


@pytest.mark.parametrize(
    ("ranks", "grid"),
    [(1, (1, 1)), (2, (1, 2)), (3, (1, 3)), (4, (2, 2)), (6, (2, 3)), (48, (6, 8))],
)
def test_the_grid_is_as_square_as_it_can_be(ranks, grid):
    assert hpl_input.process_grid(ranks) == sizing.Grid(*grid)


@pytest.mark.parametrize("prime", [5, 7, 31, 127])
def test_a_prime_rank_count_is_refused_with_a_usable_one(prime):
    with pytest.raises(sizing.SizingError, match=f"{prime} ranks are a prime number") as refused:
        hpl_input.process_grid(prime)
    assert f"use {sizing.usable_ranks(prime)} ranks" in str(refused.value)


@given(st.integers(1, 2000))
def test_usable_ranks_always_have_a_grid_and_waste_little(cores):
    ranks = sizing.usable_ranks(cores)
    grid = hpl_input.process_grid(ranks)
    assert ranks <= cores
    assert grid.q <= 2 * grid.p or ranks <= 3
    assert ranks >= 0.8 * cores or cores < 16


@given(
    st.integers(2**30, 2**44),
    st.floats(0.01, 0.9),
    st.sampled_from([64, 128, 192, 384]),
    st.integers(1, 64).filter(lambda n: n < 4 or any(n % d == 0 for d in range(2, n))),
)
def test_the_matrix_fits_and_is_made_of_whole_blocks(memory, fraction, block, ranks):
    grid = hpl_input.process_grid(ranks)
    step = block * math.lcm(grid.p, grid.q)
    try:
        order = hpl_input.matrix_order(memory, fraction, block, grid)
    except sizing.SizingError:
        assert step**2 * 8 > memory * fraction
        return
    assert order % step == 0
    assert order**2 * 8 <= memory * fraction < (order + step) ** 2 * 8 * (1 + 1e-9)


@pytest.mark.parametrize("fraction", [0, -0.1, 0.95, 80])
def test_a_fraction_out_of_range_is_refused(fraction):
    with pytest.raises(sizing.SizingError, match="memory fraction"):
        hpl_input.matrix_order(2**34, fraction, 128, sizing.Grid(1, 2))


def test_ranks_for_pairs():
    assert [sizing.even_ranks(n) for n in (2, 3, 7)] == [2, 2, 6]
    with pytest.raises(sizing.SizingError):
        sizing.even_ranks(1)


@pytest.mark.parametrize(
    ("nodes", "orders"),
    [(1, [192, 384, 960]), (3, [192, 384, 960]), (4, [192, 384, 960, 1920])],
)
def test_a_study_has_the_same_orders_for_all_numbers_of_nodes_and_more_that_only_many_hold(
    nodes, orders
):
    assert hpl_input.study_orders(1000, nodes, 192) == orders


def test_a_study_of_a_tiny_node_has_each_order_once():
    assert hpl_input.study_orders(200, 1, 192) == [192]
