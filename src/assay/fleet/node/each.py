"""Runs one command on each node, on some nodes at a time, and compares the clocks of the nodes.

Start ``python3 each.py plan.json`` in a directory that all nodes share. In addition to the entries
of a meeting, the plan has: ``command``, the words of the command; ``limit``, how long it may run
[s]; ``width``, the number of nodes that run it at the same time; ``turns``, the number of turns of
each node. If some nodes need a second look, the plan also has ``advice``, a command that reads the
log and prints the ranks that get the same number of turns again, or ``turns_again``.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import meeting

#: Number of queries for the time of a node; the quickest of them is the least disturbed.
QUESTIONS = 5


def work(order):
    """Carry out an order on this node."""
    if order is None:
        return None
    if order["do"] == "time":
        return {"time": time.time()}
    return meeting.Process(order["command"], {}, ".").end(order["limit"])


def clock(member):
    """How far a node's clock is ahead of that of rank 0, and the uncertainty of this value [s]."""
    best = None
    for _ in range(QUESTIONS):
        asked = time.time()
        there = member.ask({"do": "time"}, 10)["time"]
        took = time.time() - asked
        if best is None or took < best["within"] * 2:
            best = {"ahead": there - asked - took / 2, "within": took / 2}
    return best


def preside(plan, members, log):
    """The part of rank 0."""
    order = {"do": "run", "command": plan["command"], "limit": plan["limit"]}

    def look(which, chosen):
        turns = plan["turns"] if which == 1 else plan.get("turns_again", plan["turns"])
        for turn in range(turns):

            def ask(member, turn=turn):
                with suppress(meeting.Lost):  # the last line of the log gives the reason
                    done = member.ask(order, plan["limit"] + 20)
                    log.add(dict(done, node=member.rank, look=which, turn=turn))

            with ThreadPoolExecutor(plan["width"] or len(chosen)) as pool:
                list(pool.map(ask, chosen))

    present = [members[number] for number in sorted(members)]
    for member in present:
        with suppress(meeting.Lost):
            log.add(dict(clock(member), node=member.rank))
    look(1, present)
    if "advice" not in plan:
        return
    try:
        again = [members[rank] for rank in meeting.advice(plan["advice"]) if rank in members]
    except meeting.NoAdvice as error:
        log.add({"no_second_look": str(error)})
        return
    if again:
        look(2, again)


if __name__ == "__main__":
    meeting.hold(sys.argv[1], preside, lambda plan: work)
