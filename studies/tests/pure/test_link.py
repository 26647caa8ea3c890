"""The times of HplStudy from which the link is fitted; no program runs."""

from types import SimpleNamespace

import pytest

from assay.parse import hpl
from assay.workloads.sizing import Grid
from studies.doc003 import link as study
from studies.doc003 import link_fit

BLOCK = 32

#: A link of 1 MB/s and 10 ms; processes of 5 GFLOP/s.
LINK = SimpleNamespace(latency=1e4, bandwidth=1.0)


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
    return study.study.HplStudyBase.orders(one, Grid(1, one.nodes))


def test_the_first_problem_across_does_not_count_for_the_link(monkeypatch):
    """It takes ten times as long as the law says; all others take as long as that."""
    law = link_fit.of_hpl(BLOCK)
    studies = [of(1, False), of(2, False), of(2, True)]

    def rows(one):
        ranks, link = one.nodes, (1e-2, 1e6) if one.between else (1e-4, 1e8)
        for order in orders(one):
            time = law.work(ranks, order) / 5e9 + law.messages(ranks, order) * link[0]
            time += law.volume(ranks, order) / link[1]
            rate = hpl.hpl_operations(order) / time / 1e9
            slow = 10 if order == one.warm_up else 1
            yield {"n": order, "nb": BLOCK, "p": 1, "q": ranks, "performance": rate / slow}

    for one in studies:
        one.rows = lambda one=one: list(rows(one))
    monkeypatch.setattr(study.testcase, "compared", lambda test: studies)
    test = SimpleNamespace(between=LINK)
    study.LinkFromHpl.read(test)
    assert len(test._runs) == 3 * len(orders(studies[0]))
    assert studies[2].warm_up not in {run.order for run in test._runs}
    assert test._fit.bandwidth.value == pytest.approx(1e6, rel=0.01)
