"""Two clusters over one link: the link from times of HPL, simulated and measured."""

import math
from dataclasses import replace

import numpy as np
import pytest

from studies.doc003 import link_fit
from studies.doc003.link_fit import Estimate, FitError, Run

#: A link as in the document: 145 us and 930 MB/s, and 2 us and 1300 MB/s within a cluster.
OPERATION, LATENCY, BANDWIDTH = 1 / 5e9, 145e-6, 930e6
NEAR_LATENCY, NEAR_BANDWIDTH = 2e-6, 1300e6
LAW = link_fit.of_hpl(192)
#: Orders at which latency, bandwidth and work all matter on some number of processes.
ORDERS = (1000, 2500, 10_000, 20_000, 40_000)


def simulated(seed, noise=0.02, **otherwise):
    """Times of HPL on one cluster and across, each measured twice, with log-normal noise.

    :param otherwise: what is different from the law.
    """
    law = replace(LAW, **otherwise)
    random = np.random.default_rng(seed)

    def run(processes, order, across):
        latency = LATENCY if across else NEAR_LATENCY
        bandwidth = BANDWIDTH if across else NEAR_BANDWIDTH
        time = law.work(processes, order) * OPERATION
        time += law.messages(processes, order) * latency + law.volume(processes, order) / bandwidth
        return Run(processes, order, time * math.exp(random.normal(0, noise)), across)

    within = [run(p, n, False) for p in (1, 4, 16, 64, 256) for n in 2 * ORDERS]
    return within + [run(p, n, True) for p in (8, 32, 128, 512, 2048) for n in 2 * ORDERS]


@pytest.mark.parametrize("seed", range(3))
def test_times_with_noise_give_latency_and_bandwidth_within_a_tenth(seed):
    found = link_fit.fit(simulated(seed), LAW)
    assert found.bandwidth.value == pytest.approx(BANDWIDTH, rel=0.1)
    assert found.latency.value == pytest.approx(LATENCY, rel=0.1)
    assert found.spread[True] == pytest.approx(0.02, rel=0.5)
    for estimate, true in ((found.bandwidth, BANDWIDTH), (found.latency, LATENCY)):
        assert estimate.low < estimate.value < estimate.high
        assert estimate.low / 1.05 < true < estimate.high * 1.05


def test_a_problem_that_was_not_measured_is_predicted_within_a_fifth():
    runs = simulated(seed=7)
    largest = max(run.order for run in runs)
    found = link_fit.fit([run for run in runs if run.order < largest], LAW)
    for run in runs:
        if run.order == largest:
            predicted = found.time(run.processes, run.order, run.across)
            assert predicted.value == pytest.approx(run.time, rel=0.2)
            assert predicted.low < predicted.value < predicted.high


def test_half_the_bandwidth_is_told_apart_from_the_whole():
    slow = []
    for run in simulated(seed=1):
        more = LAW.volume(run.processes, run.order) / BANDWIDTH if run.across else 0.0
        slow.append(Run(run.processes, run.order, run.time + more, run.across))
    assert link_fit.fit(slow, LAW).bandwidth.high < 0.7 * BANDWIDTH


def few(seed, latency):
    """Times of one and two ranks with noise of 1 %, at 5 GFLOP/s and 0.5 MB/s."""
    law, random = link_fit.of_hpl(192), np.random.default_rng(seed)

    def run(p, order, across):
        time = law.work(p, order) / 5e9 + law.volume(p, order) / (5e5 if across else 1e8)
        time += law.messages(p, order) * (latency if across else 1e-4)
        return Run(p, order, time * math.exp(random.normal(0, 0.01)), across)

    places = ((1, False), (2, False), (2, True))
    return [run(p, order, across) for p, across in places for order in (384, 960, 1920)]


@pytest.mark.parametrize("seed", range(5))
def test_times_that_do_not_show_the_latency_get_that_of_the_site(seed):
    runs, law = few(seed, latency=1e-3), link_fit.of_hpl(192)
    found, given = link_fit.best(runs, law, 1e-3)
    assert given == 1e-3
    assert found.latency == Estimate(1e-3, 1e-3, 1e-3)
    assert found.bandwidth.value == pytest.approx(5e5, rel=0.05)
    assert found.bandwidth.low < found.bandwidth.value < found.bandwidth.high
    assert link_fit.unpredicted(runs, law, given) == []
    largest = max(range(len(runs)), key=lambda n: (runs[n].across, runs[n].order))
    runs[largest] = replace(runs[largest], time=1.5 * runs[largest].time)
    assert len(link_fit.unpredicted(runs, law, given)) == 1


def on_nodes(orders, times):
    """Runs on one node, on two of a group, and on two across; a tuple of times [s] for each."""
    places = ((1, False), (2, False), (2, True))
    return [
        Run(p, order, time, across)
        for (p, across), of_place in zip(places, times)
        for order, time in zip(orders, of_place)
    ]


#: Times of xhpl 2.3 with NB = 192 on emulated nodes: on one, on two of a group, and on two across a
#: link of 10 ms and the given rate [B/s], headers included; seen on 2026-11-23.
ON_NODES = {
    500e3: [(0.003188, 0.01830, 0.10812), (0.009442, 0.04254, 0.15514), (1.86054, 9.2564, 34.0969)],
    1e6: [(0.003597, 0.02282, 0.10949), (0.009538, 0.04218, 0.16096), (0.96736, 4.73154, 17.1893)],
}


@pytest.mark.parametrize("rate", ON_NODES)
def test_times_on_emulated_nodes_give_the_rate_of_their_link(rate):
    runs, law = on_nodes((384, 960, 1920), ON_NODES[rate]), link_fit.of_hpl(192)
    found, given = link_fit.best(runs, law, 0.0101)
    assert given == 0.0101, "three times of two ranks do not show it"
    assert found.bandwidth.value == pytest.approx(rate, rel=0.1)
    assert link_fit.unpredicted(runs, law, given, tolerance=0.2) == []
    largest = runs.pop()
    predicted = link_fit.fit(runs, law, given).time(2, 1920, True).value
    assert predicted == pytest.approx(largest.time, rel=0.05)


def test_a_term_that_vanishes_in_the_fit_is_left_out():
    """The same with NB = 32, 40 Mbit/s: nothing shows the bytes within. Seen on 2026-11-23."""
    alone, near = (0.003344, 0.02084, 0.10367), (0.010654, 0.03318, 0.12478)
    runs = on_nodes((480, 992, 1984), (alone, near, (0.69312, 1.81060, 5.47546)))
    found, _ = link_fit.best(runs, link_fit.of_hpl(32), 0.0101)
    assert set(found.terms) == {*link_fit.TERMS} - {link_fit.NEAR_PER_BYTE}
    assert 0 < found.bandwidth.low < 5e6 < found.bandwidth.high < 1e9
    assert found.speed_up(2, 1984, True) < found.speed_up(2, 1984, True, 10) < 2


#: The same with NB = 32, so with more messages, and a link of 20 ms; seen on 2026-11-23.
MORE_MESSAGES = {
    2.5e6: [(0.002352, 0.01492, 0.09559), (0.01418, 0.02743, 0.11414), (1.2992, 3.8227, 11.3067)],
    1.25e6: [(0.004076, 0.01561, 0.09785), (0.00987, 0.02688, 0.10559), (1.6873, 5.4771, 17.8185)],
}


@pytest.mark.parametrize("rate", MORE_MESSAGES)
def test_times_with_many_messages_give_latency_and_rate_of_an_emulated_link(rate):
    runs = on_nodes((480, 992, 1984), MORE_MESSAGES[rate])
    found, given = link_fit.best(runs, link_fit.of_hpl(32), 0.0201)
    assert given is None, "the latency is that of the times"
    assert found.latency.value == pytest.approx(0.0201, rel=0.02)
    assert found.bandwidth.value == pytest.approx(rate, rel=0.03)
    for estimate in (found.latency, found.bandwidth):
        assert 0.85 < estimate.low / estimate.value < 1 < estimate.high / estimate.value < 1.15
    # Milliseconds within a group deviate much more, and do not widen these intervals.
    assert found.spread[True] < 0.02
    assert found.spread[False] > 0.1


def test_times_that_show_the_latency_keep_it():
    found, given = link_fit.best(simulated(0), LAW, 1.0)
    assert given is None
    assert found.latency.value == pytest.approx(LATENCY, rel=0.1)


def test_a_latency_longer_than_the_times_is_refused():
    with pytest.raises(FitError, match="its messages alone take longer at a latency of"):
        link_fit.fit(few(0, 1e-3), link_fit.of_hpl(192), 1e3)


def test_a_wider_link_saves_time_across_and_none_within():
    found = link_fit.fit(simulated(seed=2), LAW)
    assert found.time(64, 10_000, False, 10).value == found.time(64, 10_000, False).value
    assert found.speed_up(512, 40_000, True, 10) > 1.1 * found.speed_up(512, 40_000, True)
    assert found.speed_up(1, 40_000, False) == 1


def test_a_time_that_the_others_do_not_explain_is_named():
    runs = simulated(seed=4)
    assert link_fit.unpredicted(runs, LAW) == []
    at = next(n for n, run in enumerate(runs) if run.across and run.order == 40_000)
    runs[at] = replace(runs[at], time=1.5 * runs[at].time)
    (line,) = link_fit.unpredicted(runs, LAW)
    assert line.startswith("N = 40000 on 8 processes across took ")


def test_speed_ups_are_drawn_as_measured_and_for_wider_links():
    runs = simulated(seed=5)
    rows = link_fit.speed_ups(runs, link_fit.fit(runs, LAW))
    assert {row["figure"] for row in rows} == {*link_fit.FIGURES}
    coupled = {row["line"] for row in rows if row["figure"] == link_fit.COUPLED}
    assert coupled == {f"N = {order}" for order in ORDERS}
    last = {row["line"]: row["speed_up"] for row in rows if row["figure"] == link_fit.WIDER}
    one, two, ten = last.values()
    assert one < two < ten


def nothing(processes, order):
    """What a property of the link costs that does not show."""
    return 0.0


@pytest.mark.parametrize(
    "runs,reason",
    [
        (simulated(0)[:50], "no run is across"),
        (simulated(0)[-5:], "5 times: 5 terms need at least 6"),
        (simulated(3, 0.0, messages=nothing), "show the latency across: measure small"),
        (simulated(3, 0.0, volume=nothing), "show the byte across: measure large orders"),
        ([*simulated(0), Run(4, 100, 0.0, True)], "time is not above 0"),
    ],
    ids=["within only", "too few", "no latency", "no bandwidth", "no time"],
)
def test_measurements_that_do_not_show_the_link_are_refused(runs, reason):
    with pytest.raises(FitError, match=reason):
        link_fit.fit(runs, LAW)


#: Order -> bytes that two emulated nodes sent by their counters while xhpl 2.3 ran on one rank of
#: each with NB = 64, headers and answers included; seen on 2026-11-23.
COUNTED = {448: 568_588 + 439_721, 960: 2_216_998 + 1_973_441, 1984: 8_805_180 + 8_332_281}

#: A segment of TCP has 1448 B of 1514 B; MPI and Slurm send some kB more.
HEADERS, START = 1514 / 1448, 50_000


@pytest.mark.parametrize("order", COUNTED)
def test_the_bytes_of_two_ranks_are_those_that_counters_saw(order):
    said = link_fit.of_hpl(64).volume(2, order) * HEADERS + START
    assert said == pytest.approx(COUNTED[order], rel=0.02)


def test_a_long_panel_asks_before_it_is_sent():
    law = link_fit.of_hpl(64)
    # The panels of order 192 have 96, 64 and 32 KiB. The solution adds a message for each.
    assert law.messages(2, 192) == 3 + 1 + 1 + 3
    assert law.messages(1, 192) == 0
