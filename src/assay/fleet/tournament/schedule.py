"""Who measures with whom, and when: all pairs of n nodes in rounds in which no node has two.

The circle method (Kirkman, "On a problem in combinations", 1847; Lucas, "Recreations
mathematiques" II, 1883): one node stays, the others turn about it. Standard library only, Python
3.6 or newer, no import of ours: this file also runs on compute nodes with the Python that is there.
"""

from typing import List, Optional, Tuple

Pair = Tuple[int, int]


def count(n: int) -> int:
    """Number of rounds in which all pairs of `n` nodes meet: n - 1, and n for an odd `n`.

    :raises ValueError: fewer than two nodes have no pair.
    """
    if n < 2:
        raise ValueError(f"a tournament needs two nodes, not {n}")
    return n - 1 + n % 2


def pairs(n: int, number: int) -> List[Pair]:
    """The pairs (a, b), a < b, of one round; nodes are 0 ... n - 1, `number` is 0 ... count(n) - 1.

    Each node is in one pair; where `n` is odd, one node has no pair in each round.

    :raises ValueError: there is no such round.
    """
    turning = count(n)
    if not 0 <= number < turning:
        raise ValueError(f"round {number} of {n} nodes: 0 to {turning - 1}")
    # Of the turning nodes those meet whose sum is the round's number, modulo their count. One of
    # them would meet itself: it meets the node that stays, which is the bye where n is odd.
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

    Spread, because consecutive rounds let a node meet consecutive others, which in the order of
    names are often those of one switch. No pair is in two rounds.

    :raises ValueError: fewer than two nodes, or a limit below one.
    """
    total = count(n)
    if limit is None or limit >= total:
        return [pairs(n, number) for number in range(total)]
    if limit < 1:
        raise ValueError(f"a tournament needs a round, not {limit}")
    return [pairs(n, step * total // limit) for step in range(limit)]
