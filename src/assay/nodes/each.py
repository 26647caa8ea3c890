"""Runs one command on each node, so many nodes at a time, and compares their clocks.

``python3 each.py plan.json`` in a directory that all share. Beside what a meeting needs the plan
has: ``command``, its words; ``limit``, how long it may run [s]; ``width``, on how many nodes at a
time; ``turns``, how often each node has its turn.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import meeting

#: The quickest of so many questions for the time is the one least disturbed.
QUESTIONS = 5


def work(order):
    """What a node does when told to."""
    if order is None:
        return None
    if order["do"] == "time":
        return {"time": time.time()}
    return meeting.Process(order["command"], {}, ".").end(order["limit"])


def clock(member):
    """How far a node's clock is ahead of that of rank 0, and how far off that may be [s]."""
    best = None
    for _ in range(QUESTIONS):
        asked = time.time()
        there = member.ask({"do": "time"}, 10)["time"]
        took = time.time() - asked
        if best is None or took < best["within"] * 2:
            best = {"ahead": there - asked - took / 2, "within": took / 2}
    return best


def preside(plan, members, minutes):
    """Rank 0's part."""
    order = {"do": "run", "command": plan["command"], "limit": plan["limit"]}

    def ask(member):
        try:
            done = dict(member.ask(order, plan["limit"] + 20), node=member.rank)
        except meeting.Lost:
            return  # why is in the last line of the minutes
        minutes.add(done)

    present = [members[number] for number in sorted(members)]
    for member in present:
        try:
            minutes.add(dict(clock(member), node=member.rank))
        except meeting.Lost:
            continue
    for _ in range(plan["turns"]):
        with ThreadPoolExecutor(plan["width"] or len(present)) as pool:
            list(pool.map(ask, present))


if __name__ == "__main__":
    meeting.hold(sys.argv[1], preside, work)
