"""A criterion from the population: outliers are named, and nobody without a majority."""

import math
import random
import statistics

import pytest

from assay.fleet import population


def rounds(values, count=3):
    return [dict(values)] * count


def named(values, tolerance=0.2, **more):
    found = population.population_of(rounds(values), tolerance, **more)
    return list(found.outliers), list(found.undecided)


GOOD = {f"n{i}": 100.0 + i for i in range(8)}


@pytest.mark.parametrize(
    ("values", "outliers", "undecided"),
    [
        (GOOD, [], []),
        ({**GOOD, "n3": 60.0}, ["n3"], []),
        ({**GOOD, "n3": 60.0, "n5": 0.0}, ["n5", "n3"], []),
        ({**GOOD, "n0": 50.0, "n1": 50.0, "n2": 50.0}, ["n0", "n1", "n2"], []),
        # Two camps of the same size, and the slow camp in the majority.
        ({**GOOD, **{f"n{i}": 50.0 for i in range(4)}}, [], ["n0", "n1", "n2", "n3"]),
        ({**GOOD, **{f"n{i}": 50.0 + i for i in range(5)}}, [], []),
        # The smallest populations.
        ({"a": 1.0, "b": 1.0, "c": 0.5}, ["c"], []),
        ({"a": 1.0, "b": 0.5}, [], ["b"]),
        ({"a": 1.0}, [], []),
        ({}, [], []),
        # Just within, and just beyond the tolerance.
        ({**dict.fromkeys("abcd", 1.0), "e": 0.81}, [], []),
        ({**dict.fromkeys("abcd", 1.0), "e": 0.79}, ["e"], []),
        # The others differ by as much.
        ({"a": 1.0, "b": 0.9, "c": 0.6, "d": 1.4, "e": 0.55}, [], ["e", "c"]),
    ],
    ids=[
        *("healthy", "one", "two", "three of eight", "two camps", "slow majority", "one of three"),
        *("one of two", "alone", "nobody", "within", "beyond", "wide"),
    ],
)  # fmt: skip
def test_who_is_named(values, outliers, undecided):
    assert named(values) == (outliers, undecided)


def test_a_slower_majority_is_the_usual_and_the_faster_are_not_accused():
    """A member that is too good is no fault here; a plausibility check judges it."""
    assert named({**dict.fromkeys("abc", 1.0), "d": 9.0}) == ([], [])


def test_times_are_worse_if_they_are_longer():
    times = {**dict.fromkeys("abcd", 80.0), "e": 160.0}
    assert named(times, fault="upper") == (["e"], [])
    assert named(times) == ([], [])
    assert population.population_of(rounds(times), 0.2, fault="upper").shares["e"] == 0.5


def test_a_round_that_is_slow_for_all_changes_nothing():
    slower = [{name: value * factor for name, value in GOOD.items()} for factor in (1, 0.1, 3)]
    assert population.population_of(slower, 0.2).suspects == []
    slower[1]["n2"] /= 10  # in one round of three
    assert population.population_of(slower, 0.2).suspects == []
    slower[2]["n2"] /= 10  # in two
    assert population.population_of(slower, 0.2).outliers == ("n2",)


def test_the_cleaning_finds_what_a_worse_one_hides():
    """Before n0 is removed, the spread is too wide for n1."""
    values = {"n0": 0.001, "n1": 0.7, "n2": 0.98, "n3": 1.0, "n4": 1.02}
    found = population.population_of(rounds(values), 0.2)
    assert found.outliers == ("n0", "n1")
    assert found.members == ("n2", "n3", "n4")


def test_the_distance_is_in_spreads():
    found = population.population_of(rounds({**GOOD, "n3": 50.0}), 0.2)
    wide = found.spread
    assert found.distance(math.exp(-2 * wide)) == pytest.approx(2)
    assert found.distance(found.shares["n3"]) > population.SPREADS
    same = population.population_of(rounds({**dict.fromkeys("abcd", 1.0), "e": 0.5}), 0.2)
    assert same.spread == 0 and same.distance(0.5) == math.inf and same.distance(1) == 0


def test_the_record_has_the_criterion_and_who_is_beyond_it():
    said = population.population_of(
        rounds({**dict.fromkeys("abcd", 1.0), "e": 0.5}), 0.2
    ).as_entry()
    assert said == {
        "measured": 5, "members": 4, "spread": 0.0, "bound": 0.8,
        "outliers": {"e": 0.5}, "undecided": {},
    }  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 4, 7, 10, 30])
def test_the_spread_is_that_of_normal_values(n):
    chance = random.Random(n)
    found = [population.spread([chance.gauss(5, 2) for _ in range(n)]) for _ in range(2000)]
    assert statistics.mean(found) == pytest.approx(2, rel=0.06)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("fault", ["lower", "upper"])
def test_a_value_that_is_no_measurement_is_refused(value, fault):
    with pytest.raises(ValueError, match=r"n1: .* is not a measurement"):
        population.population_of([{**GOOD, "n1": value}], 0.2, fault)


def test_a_time_of_0_is_refused_and_a_rate_of_0_is_the_worst():
    with pytest.raises(ValueError, match=r"n1: 0.0 is not a measurement"):
        population.population_of([{**GOOD, "n1": 0.0}], 0.2, "upper")
    assert named({**GOOD, "n1": 0.0}) == (["n1"], [])
    assert population.population_of(rounds(dict.fromkeys("abc", 0.0)), 0.2).suspects == []


def test_a_second_look_acquits_confirms_or_stays_silent():
    first = rounds({**GOOD, "n3": 50.0})
    assert [f.name for f in population.confirmed(first, [], 0.2)] == ["n3"]
    assert population.confirmed(first, rounds(GOOD), 0.2) == []
    (finding,) = population.confirmed(first, rounds({"n3": 40.0, "n1": 100.0}), 0.2)
    assert finding.accused and finding.share == pytest.approx(50 / 104.5)
    assert finding.said.startswith(", ") and "times the spread of the others" in finding.said


def test_the_second_look_of_many_suspects_is_held_against_those_without_suspicion():
    """Four suspects have turns beside two others: they are the majority of that look only."""
    values = {**{f"n{i:02}": 100.0 for i in range(20)}, **{f"n{i:02}": 50.0 for i in range(4)}}
    again = {name: values[name] for name in ("n00", "n01", "n02", "n03", "n10", "n11")}
    found = population.confirmed(rounds(values), rounds(again), 0.2)
    assert [finding.name for finding in found] == ["n00", "n01", "n02", "n03"]
    assert all(finding.accused for finding in found)


def test_without_a_majority_nobody_is_accused_and_the_reason_is_given():
    (finding,) = population.confirmed(rounds({"a": 1.0, "b": 0.5}), [], 0.2)
    assert not finding.accused
    assert finding.said == "; nobody is accused: no majority of the 2 agrees"


@pytest.mark.parametrize("n", [4, 8, 64])
@pytest.mark.parametrize("sigma", [0.02, 0.2])
def test_healthy_members_are_hardly_ever_accused(n, sigma):
    """Normal disturbances of 2 % and 20 %: accusations in at most 1 of 60 healthy jobs."""
    chance = random.Random(n)

    def look():
        return [{f"n{i}": math.exp(chance.gauss(0, sigma)) for i in range(n)} for _ in range(3)]

    findings = [population.confirmed(look(), look(), 0.3) for _ in range(60)]
    assert sum(any(f.accused for f in found) for found in findings) <= 1


@pytest.mark.parametrize("n", [4, 64])
def test_a_member_at_half_speed_is_found_behind_disturbances_of_5_percent(n):
    chance = random.Random(n)

    def look():
        found = [{f"n{i}": math.exp(chance.gauss(0, 0.05)) for i in range(n)} for _ in range(3)]
        for of_round in found:
            of_round["n1"] /= 2
        return found

    findings = [population.confirmed(look(), look(), 0.3) for _ in range(40)]
    assert sum([f.name for f in found if f.accused] == ["n1"] for found in findings) >= 39


def test_ten_thousand_cores_are_compared():
    values = {f"n{i // 100}:{i % 100}": 1.0 + i % 7 / 100 for i in range(10_000)}
    values.update({name: 0.5 for name in values if name.startswith("n42:")})
    found = population.population_of([values], 0.2)
    assert len(found.outliers) == 100
