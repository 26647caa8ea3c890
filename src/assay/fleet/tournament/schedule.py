"""The schedule of a tournament: all pairs of n nodes, in rounds with at most one pair per node.

The schedule uses the circle method (Kirkman, "On a problem in combinations", 1847; Lucas,
"Recreations mathematiques" II, 1883): one node stays, the others rotate around it. This file also
runs on compute nodes with the Python that is installed there. So it needs Python 3.6 or newer, uses
only the standard library, and imports no other module of Assay.
"""

from typing import List, Optional, Tuple

Pair = Tuple[int, int]


def count(n: int) -> int:
    """Number of rounds in which all pairs of `n` nodes meet: n - 1, and n for an odd `n`.

    :raises ValueError: there are fewer than two nodes, so there is no pair.
    """
    if n < 2:
        raise ValueError(f"a tournament needs two nodes, not {n}")
    return n - 1 + n % 2


def pairs(n: int, number: int) -> List[Pair]:
    """The pairs (a, b), a < b, of one round; nodes are 0 ... n - 1, `number` is 0 ... count(n) - 1.

    Each node is in one pair. If `n` is odd, one node has no pair in each round.

    :raises ValueError: there is no such round.
    """
    turning = count(n)
    if not 0 <= number < turning:
        raise ValueError(f"round {number} of {n} nodes: 0 to {turning - 1}")
    # Two rotating nodes meet if their sum is the number of the round, modulo the number of
    # rotating nodes. One rotating node would meet itself. If n is even, it meets the node that
    # stays. If n is odd, it has no pair in this round.
    found = []
    for a in range(turning):
        b = (number - a) % turning
        if a < b:
            found.append((a, b))
        elif a == b and n % 2 == 0:
            found.append((a, n - 1))
    return found


def rounds(n: int, limit: Optional[int] = None) -> List[List[Pair]]:
    """All rounds of `n` nodes; with a `limit`, that many of them, spread evenly over all.

    The rounds are spread because a node meets consecutive partners in consecutive rounds, and
    nodes with consecutive names are often on one switch. No pair is in two rounds.

    :raises ValueError: fewer than two nodes, or a limit below one.
    """
    total = count(n)
    if limit is None or limit >= total:
        return [pairs(n, number) for number in range(total)]
    if limit < 1:
        raise ValueError(f"a tournament needs a round, not {limit}")
    return [pairs(n, step * total // limit) for step in range(limit)]
