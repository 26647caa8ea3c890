#!/usr/bin/env python3
"""Sets the clock of a node that has a kernel of its own to that of the host.

Such a kernel reads the host's clock once, while it starts, and then counts. A busy host runs it too
late: the clocks of two nodes differed by 0.2 s. The host asks for the time of the node and gives
the difference back (`match`). On the node, this file answers.
"""

import subprocess
import sys
import time

import agent
from layout import Refusal

#: Questions; the one with the fastest answer counts.
ROUNDS = 10


def match(number, name):
    """Sets the clock of a node. Runs in the node's machine, on the host.

    :raises Refusal: the node does not tell its time.
    """
    words = agent.client(number, (0, 0), [sys.executable, __file__])
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as node:

        def ask():
            begin = time.time_ns()
            node.stdin.write("\n")
            said = int(node.stdout.readline())
            end = time.time_ns()
            return end - begin, (begin + end) // 2 - said

        try:
            _, behind = min(ask() for _ in range(ROUNDS))
            node.stdin.write(f"{behind}\n")
        except (OSError, ValueError):
            raise Refusal(f"{name} does not tell its time; see the log boot.{name}") from None


def answer():
    """Prints the time [ns] for each empty line of standard input; a number is added to the time."""
    for line in sys.stdin:
        if line.strip():
            time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + int(line))
        else:
            print(time.time_ns(), flush=True)


if __name__ == "__main__":
    answer()
