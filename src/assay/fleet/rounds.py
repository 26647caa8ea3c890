"""Rounds of pairs of nodes at the same time: what each round measured, and what its pairs share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.fleet.tournament.measured import Pair

#: By how much the rate of all pairs may be above that of what they share, as a part of it.
ABOVE = 0.05

#: A pair alone fills a way if it reaches this share of its rate: the rest is noise.
FILLS = 0.9


@dataclass(frozen=True)
class Round:
    """Pairs of nodes that are measured at the same time.

    :ivar where: what the pairs have between them.
    """

    where: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Measured:
    """The rates [MB/s] and latencies [us] of the pairs of a round, which begin at the same time."""

    where: str
    rates: tuple[float, ...]
    latencies: tuple[float, ...]

    @property
    def together(self) -> float:
        """What all pairs moved per second until the last one was done [MB/s].

        All pairs move the same number of bytes. The sum of their rates would be too large: if they
        share the link unequally, the last pair has the link for itself at the end.
        """
        return len(self.rates) * min(self.rates)

    def moved(self, alone: float, shared: float) -> float:
        """What all pairs moved, to compare it with what they share [MB/s].

        :param alone: what one pair moves alone. If it fills neither what they share nor what all of
            them moved, the last pair leaves a part of the way idle at the end, and the sum of the
            rates is closer to the truth.
        :param shared: what all pairs can move together.
        """
        fills = alone >= FILLS * min(shared, self.together)
        return self.together if fills else sum(self.rates)


def in_rounds(played: Sequence[Round], pairs: Sequence[Pair]) -> Iterator[Measured]:
    """What each round measured, from the pairs in the order in which they ran.

    :raises ValueError: the pairs are not those of the rounds, or one of them has no value.
    """
    left = list(pairs)
    for turn, round_ in enumerate(played, 1):
        here, left = left[: len(round_.pairs)], left[len(round_.pairs) :]
        if [(pair.a, pair.b) for pair in here] != list(round_.pairs):
            said = ", ".join(f"{pair.a} - {pair.b}" for pair in here) or "none"
            raise ValueError(f"round {turn} ({round_.where}): the log has the pairs {said}")
        # A pair that failed ends its round, so the others have no value either.
        if failed := sorted((pair for pair in here if pair.error), key=lambda pair: pair.follows):
            raise ValueError(f"round {turn} ({round_.where}): {failed[0].error}")
        yield Measured(
            round_.where,
            *(
                tuple(pair.values[metric] for pair in here if metric in pair.values)
                for metric in ("bandwidth", "latency")
            ),
        )
    if left:
        raise ValueError(f"the log has {len(left)} pairs beyond the {len(played)} rounds")


def alone(played: Sequence[Round], pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of the rounds that have one pair. Pairs that share a full link lose packets."""
    counts = [len(one.pairs) for one in played for _ in one.pairs]
    return [pair for pair, count in zip(pairs, counts) if count == 1]
