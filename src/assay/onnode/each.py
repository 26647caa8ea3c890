"""Runs one command on each node, so many nodes at a time, and compares their clocks.

``python3 each.py plan.json`` in a directory that all share. Beside what a meeting needs the plan
has: ``command``, its words; ``limit``, how long it may run [s]; ``width``, on how many nodes at a
time; ``turns``, how often each node has its turn; and if some are to be looked at twice
``advice``, a command that reads the minutes and prints the ranks that have as many turns again.
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

    def look(which, chosen):
        for turn in range(plan["turns"]):

            def ask(member, turn=turn):
                try:
                    done = member.ask(order, plan["limit"] + 20)
                except meeting.Lost:
                    return  # why is in the last line of the minutes
                minutes.add(dict(done, node=member.rank, look=which, turn=turn))

            with ThreadPoolExecutor(plan["width"] or len(chosen)) as pool:
                list(pool.map(ask, chosen))

    present = [members[number] for number in sorted(members)]
    for member in present:
        try:
            minutes.add(dict(clock(member), node=member.rank))
        except meeting.Lost:
            continue
    look(1, present)
    if "advice" not in plan:
        return
    try:
        again = [members[rank] for rank in meeting.advice(plan["advice"]) if rank in members]
    except meeting.NoAdvice as error:
        minutes.add({"no_second_look": str(error)})
        return
    if again:
        look(2, again)


if __name__ == "__main__":
    meeting.hold(sys.argv[1], preside, work)
