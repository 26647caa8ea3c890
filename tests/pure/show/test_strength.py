from dataclasses import asdict

import pytest

from assay.judge import Verdict
from assay.show.strength import Strength, least_loss, said_loss
from assay.store.cases import Case
from assay.store.record import Metric


def rate(value=100.0, lower=80.0, yardstick="published", **more):
    its = {"name": "rate", "unit": "MB/s", "verdict": Verdict.PASS, **more}
    return Metric(value=value, lower=lower, yardstick=yardstick, **its)


def case(*metrics, proves="rate", hosts=("a", "b"), **more):
    made = Case(
        test="T", display_name="T", unique_name="T", system="s", partition="p", environ="e",
        verdict=Verdict.PASS, metrics=metrics, nodes=hosts, proves={proves: ("rate",)}, **more,
    )  # fmt: skip
    assert made.hosts == hosts
    return made


@pytest.mark.parametrize(
    ("unit", "value", "lower", "upper", "loss"),
    [
        ("MB/s", 100.0, 80.0, None, 1.25),
        ("us", 2.0, 0.1, 5.0, 2.5),
        ("1", 1.0, 0.5, 4.0, 2.0),
        ("MB/s", 100.0, None, 110.0, None),
    ],
)
def test_the_least_loss_is_the_way_from_the_value_to_the_bound_of_a_fault(
    unit, value, lower, upper, loss
):
    assert least_loss(rate(value, lower, upper=upper, unit=unit)) == loss


def test_what_is_red_or_recorded_has_no_such_loss():
    assert least_loss(rate(verdict=Verdict.RECORDED)) is None
    assert least_loss(rate(verdict=Verdict.FAIL, value=70.0)) is None


def test_a_run_says_by_what_its_cases_were_judged_and_what_it_would_have_seen():
    cases = [
        case(rate(), rate(yardstick="any machine")),
        case(rate(lower=96.0, yardstick="reference")),
        case(rate(lower=2.5, yardstick="any machine"), proves="write"),
        case(rate(verdict=Verdict.RECORDED, lower=None), proves="memory"),
    ]
    found = Strength.of(cases)
    assert asdict(found) == {
        "cases": {"reference": 1, "published": 1, "any machine": 1},
        "losses": {"network rate": pytest.approx(100 / 96), "disk write": 40.0},
        "blind": ("memory",),
    }
    assert found.said == [
        "judged: 1 by references of the site, 1 by what machines of this hardware publish, "
        "1 by bounds of any machine",
        "the least loss that would have been red: network rate 4 % slower, "
        "disk write 40 times slower",
        "without a loss that would have been red: memory",
    ]
    assert not found.wide_only
    assert Strength.of(cases[2:]).wide_only


def test_a_latency_that_is_judged_well_says_nothing_of_a_rate_that_is_not():
    short = rate(1.0, None, upper=1.05, unit="us")
    found = Strength.of([case(short, proves="latency"), case(rate(lower=2.5))])
    assert found.losses == {"network latency": 1.05, "network rate": 40.0}


def test_within_a_node_bytes_cross_no_network_and_a_cached_write_no_disk():
    inside = case(rate(), hosts=("a",))
    cached = case(rate(), proves="write", parameters={"sync": "cached"})
    assert Strength.of([inside, cached]).losses == {}


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (1.0, "1 % slower"),
        (1.25, "20 % slower"),
        (3.0, "3.0 times slower"),
        (40, "40 times slower"),
    ],
)
def test_a_loss_is_a_share_below_two_and_a_factor_above(loss, said):
    assert said_loss(loss) == said
