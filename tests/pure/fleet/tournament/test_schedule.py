from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.fleet.tournament import schedule


@given(st.integers(2, 60))
def test_every_pair_meets_once_and_no_node_is_in_two_pairs_of_a_round(n):
    rounds = schedule.rounds(n)
    assert len(rounds) == schedule.count(n) == (n - 1 if n % 2 == 0 else n)
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == list(combinations(range(n), 2))
    for pairs in rounds:
        busy = [node for pair in pairs for node in pair]
        assert len(busy) == len(set(busy)) == n - n % 2


@given(st.integers(3, 41).filter(lambda n: n % 2))
def test_with_an_odd_number_each_node_pauses_once(n):
    idle = Counter(
        node
        for pairs in schedule.rounds(n)
        for node in set(range(n)) - {x for pair in pairs for x in pair}
    )
    assert idle == Counter(range(n))


@given(st.integers(2, 400), st.integers(1, 20))
def test_a_limit_takes_whole_rounds_of_the_full_tournament(n, limit):
    few = schedule.rounds(n, limit)
    full = schedule.rounds(n)
    assert len(few) == min(limit, len(full))
    assert [r for r in full if r in few] == few  # and in their order
    degree = Counter(node for pairs in few for pair in pairs for node in pair)
    assert set(degree.values()) <= {len(few), len(few) - 1}


def test_the_partners_of_few_rounds_are_spread_over_the_machine():
    n, limit = 1024, 8
    met = sorted(
        {abs(a - b) for pairs in schedule.rounds(n, limit) for a, b in pairs if 0 in (a, b)}
    )
    assert len(met) == limit
    assert max(met) - min(met) > n // 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: schedule.rounds(1), "a tournament needs two nodes, not 1"),
        (lambda: schedule.rounds(8, 0), "a tournament needs a round, not 0"),
        (lambda: schedule.pairs_of_round(8, 7), "round 7 of 8 nodes: 0 to 6"),
        (lambda: schedule.pairs_of_round(8, -1), "round -1 of 8 nodes: 0 to 6"),
    ],
)
def test_what_makes_no_tournament_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()
