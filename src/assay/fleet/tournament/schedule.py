"""The schedule of a tournament: all pairs of n nodes, in rounds with at most one pair per node.

The schedule uses the circle method (Kirkman, "On a problem in combinations", 1847; Lucas,
"Recreations mathematiques" II, 1883): one node stays, the others rotate around it.
"""

from collections.abc import Sequence

Pair = tuple[int, int]

#: With fewer partners a median is not reliable. Six partners outvote two faulty ones.
FEWEST_ROUNDS = 6


def count(n: int) -> int:
    """Number of rounds in which all pairs of `n` nodes meet: n - 1, and n for an odd `n`.

    :raises ValueError: there are fewer than two nodes, so there is no pair.
    """
    if n < 2:
        raise ValueError(f"a tournament needs two nodes, not {n}")
    return n - 1 + n % 2


def pairs_of_round(n: int, number: int) -> list[Pair]:
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


def rounds(n: int, limit: int | None = None) -> list[list[Pair]]:
    """All rounds of `n` nodes; with a `limit`, that many of them, spread evenly over all.

    Consecutive rounds have consecutive partners, which are often on one switch.

    :raises ValueError: fewer than two nodes, or a limit below one.
    """
    total = count(n)
    if limit is None or limit >= total:
        return [pairs_of_round(n, number) for number in range(total)]
    if limit < 1:
        raise ValueError(f"a tournament needs a round, not {limit}")
    return [pairs_of_round(n, step * total // limit) for step in range(limit)]


def sparse(n: int) -> int:
    """Rounds of a sparse tournament: log2 of the nodes, but at least six; at most all rounds.

    :raises ValueError: fewer than two nodes.
    """
    return min(count(n), max(FEWEST_ROUNDS, (n - 1).bit_length()))


def by_switch(groups: Sequence[Sequence[int]], limit: int) -> list[list[Pair]]:
    """`limit` rounds of which half are within switches; the others are spread over all nodes.

    With hardly a pair within a switch, a slow switch would look like slow uplinks.

    :param groups: the nodes 0 ... n - 1, switch by switch. A node that is left over in its switch
        meets one that is left over in another.
    :raises ValueError: fewer than two nodes, or a limit below one.
    """
    order = [node for group in groups for node in group]
    most = max((count(len(group)) for group in groups if len(group) > 1), default=0)
    within = min(limit // 2, most)
    made = []
    for number in range(within):
        found = []
        left = []
        for group in groups:
            if len(group) > 1:
                total = count(len(group))
                met = pairs_of_round(len(group), number * max(1, total // within) % total)
                found += [(group[a], group[b]) for a, b in met]
                met_nodes = {place for pair in met for place in pair}
                left += [node for place, node in enumerate(group) if place not in met_nodes]
            else:
                left += group
        found += list(zip(left[::2], left[1::2]))
        made.append([(min(pair), max(pair)) for pair in found])
    for met in rounds(len(order), limit - within):
        made.append([(min(order[a], order[b]), max(order[a], order[b])) for a, b in met])
    return made
