"""The pairs of a round that share a link begin each launch at the same time."""

import importlib
import sys
import threading

import pytest
from shell import ROOT


@pytest.fixture(scope="module")
def pairs():
    """The script of the nodes, as a module."""
    sys.path.insert(0, str(ROOT / "src/assay/fleet/node"))
    yield importlib.import_module("pairs")
    sys.path.pop(0)
    sys.modules.pop("pairs", None)


#: How a program ends that says nothing.
ENDED = {"rc": 0, "seconds": 1.0, "out": ""}


class Node:
    """A member that only notes its orders."""

    def __init__(self, rank, orders, serve=lambda: {"addresses": ["127.0.0.1"], "port": 1}):
        self.host, self.rank, self.orders, self.serve = f"node{rank}", rank, orders, serve

    def ask(self, order, limit):
        answer = self.serve() if order["do"] == "serve" else dict(ENDED)
        self.orders.append((order["do"], self.rank))
        return answer


class Log(list):
    add = list.append


TESTS = {
    "tag_bw": {"options": [], "launches": 1, "iterations": 10},
    "tag_lat": {"options": [], "launches": 1, "iterations": 7},
}


def play(pairs, together, serve, round_=((0, 1), (2, 3))):
    """Two pairs of one round; the first server answers as `serve` says. Returns orders and log."""
    orders, log = [], Log()
    members = {rank: Node(rank, orders) for rank in range(4)}
    members[0].serve = lambda: serve(orders)
    plan = {"width": None, "limit": 20, "tests": TESTS, "together": together, "seconds": None}
    pairs.Tournament(plan, members, log).play([round_], 2)
    return orders, log


READY = {"addresses": ["127.0.0.1"], "port": 1}


@pytest.fixture
def late(monkeypatch):
    """Makes a server that is ready when the other pair has begun, or waits for its pair to begin.

    One of both happens, however slow the machine is.
    """
    waits = threading.Event()

    class Barrier(threading.Barrier):
        def wait(self, timeout=None):
            waits.set()
            return super().wait()  # without a limit: the late server comes

    monkeypatch.setattr(threading, "Barrier", Barrier)

    def serve(orders):
        while ("connect", 3) not in orders and not waits.is_set():
            threading.Event().wait(0.002)
        return READY

    return serve


@pytest.mark.parametrize("together", [True, False])
def test_no_client_begins_before_the_server_of_each_pair_is_ready(pairs, together, late):
    orders, log = play(pairs, together, late)
    assert [entry["error"] for entry in log] == ["", ""]
    assert (orders.index(("serve", 0)) < orders.index(("connect", 3))) is together


def test_a_pair_that_fails_does_not_make_the_others_wait(pairs):
    _, log = play(pairs, True, lambda orders: {"error": "no port"})
    assert [(entry["error"], entry["follows"]) for entry in log] == [
        ("node0: no port", False),
        ("another pair of its round failed: they did not run together", True),
    ]


def test_under_load_each_pair_runs_its_own_tests_and_begins_with_the_others(pairs, late):
    load = {"pairs": [(0, 1), (2, 3)], "tests": [{"tag_lat": (3, 1)}, {"tag_bw": (1, 2)}]}

    orders, log = play(pairs, True, late, load)
    runs = [[(run["test"], run["iterations"]) for run in entry["runs"]] for entry in log]
    assert runs == [[("tag_lat", 7)] * 3, [("tag_bw", 20)]]
    assert orders.index(("serve", 0)) < orders.index(("connect", 3))
    assert all(run["began"] <= run["ended"] for entry in log for run in entry["runs"])


def test_a_pair_that_fails_under_load_ends_its_round(pairs):
    load = {"pairs": [(0, 1), (2, 3)], "tests": [{"tag_lat": (3, 1)}, {"tag_bw": (1, 2)}]}
    _, log = play(pairs, True, lambda orders: {"error": "no port"}, load)
    assert [(entry["error"], entry["follows"]) for entry in log] == [
        ("node0: no port", False),
        ("another pair of its round failed: they did not run together", True),
    ]
