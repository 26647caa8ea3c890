"""File systems of nodes in turn: a shared device may be busy, and a slow one is named."""

import random

import pytest

from assay.fleet.storage import DISKS, MEASURED
from assay.fleet.sweep import BESIDE, Turn

NAMES = ("node01", "node02", "node03", "node04")
RATE = 1e6


def look(number, factor, names=NAMES, rounds=3):
    """The turns of one look. `factor` is the remaining share of the rate of a node and a round."""
    return [
        Turn(name, number, turn, {what: {name: RATE * factor(name, turn)} for what in MEASURED})
        for turn in range(rounds)
        for name in names
    ]


def healthy(name, turn):
    return 1.0


def slow_node(name, turn):
    return 0.05 if name == "node02" else 1.0


def disturbed(name, turn):
    """The device is busy in two of three turns of one node."""
    return 0.3 if name == "node02" and turn < 2 else 1.0


def busy_round(name, turn):
    """All nodes that share the device are slower in one round, and faster later."""
    return (0.1, 1.0, 3.0)[turn]


def test_a_slow_disk_is_named_by_both_looks():
    first = look(1, slow_node)
    assert DISKS.suspects(first, 0.6) == ["node02"]
    again = DISKS.second_look(first, 0.6)
    assert again[0] == "node02"
    assert sorted(again) == list(NAMES)
    assert DISKS.slow(first + look(2, slow_node, again), 0.6) == ([
        f"node02: {operation} 50000 KiB/s, the median of 3 others is 1000000 KiB/s (-95.0 %)"
        for operation in MEASURED
    ], [])  # fmt: skip


def test_a_disturbance_of_the_first_look_names_nobody():
    first = look(1, disturbed)
    again = DISKS.second_look(first, 0.6)
    assert again, "it is suspected"
    assert DISKS.slow(first + look(2, healthy, again), 0.6) == ([], [])


def test_a_device_that_is_slow_for_all_in_one_round_makes_no_suspect():
    assert DISKS.second_look(look(1, busy_round), 0.6) == []


def test_the_second_look_acquits_only_who_had_a_turn_in_it():
    first = look(1, slow_node)
    others = [name for name in NAMES if name != "node02"]
    assert len(DISKS.slow(first + look(2, healthy, others), 0.6)[0]) == 2
    assert len(DISKS.slow(first, 0.6)[0]) == 2


def test_two_nodes_are_compared_but_neither_is_accused_and_one_is_not_compared():
    pair = look(1, slow_node, NAMES[:2])
    assert DISKS.suspects(pair, 0.6) == ["node02"]
    accused, undecided = DISKS.slow(pair, 0.6)
    assert accused == []
    assert undecided[0].endswith("(-95.0 %); nobody is accused: no majority of the 2 agrees")
    assert DISKS.suspects(look(1, slow_node, ["node02"]), 0.6) == []


def test_few_that_nobody_suspects_have_further_turns():
    names = [f"n{i:03}" for i in range(100)]
    first = look(1, lambda name, turn: 0.1 if name in ("n007", "n042") else 1.0, names)
    again = DISKS.second_look(first, 0.3)
    assert again[0::2][:2] == ["n007", "n042"]
    assert len(again) == 2 + BESIDE


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_a_shared_device_accuses_nobody_over_many_jobs(seed):
    """Each turn is disturbed with a probability of one half, down to a tenth of the rate."""
    chance = random.Random(seed)

    def noisy(name, turn):
        return chance.choice((1.0, chance.uniform(0.1, 1.0)))

    alarms = once = 0
    for _ in range(20):
        first = look(1, noisy)
        again = DISKS.second_look(first, 0.6)
        once += bool(again)
        alarms += any(DISKS.slow(first + look(2, noisy, again), 0.6))
    assert alarms <= once / 2
