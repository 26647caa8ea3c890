"""How well a program scales over two clusters that share one long link.

The model is that of "Operating two InfiniBand grid clusters over 28 km distance" (Richling, Hau,
Kredel, Kruse; 3PGCIC 2010, section "Performance modeling"), after Kruse (2009):

- speed-up on p processes: S(p) <= p / (ln p + t_c(p) / t_B(1))
- time of one process: t_B(1) = n t_A, with n = 2/3 n_p^3 operations for HPL of order n_p
- communication: t_c(p) = t_c2(p) c(p), with c(p) = p^2 / 2
- communication of two processes: t_c2(p) = t_L + <m> / (B / p), since p processes share the
  bandwidth B of the link; <m> is the average length of a message
- as operations: r(p) = t_c2(p) / t_A = t_L / t_A + (<m> / (t_A B)) p, and so
  S(p) <= p / (ln p + r(p) c(p) / n)

Without the link, S(p) = p / ln p. The bound grows with p up to a break, and falls after it.

What a program sends over the link is its :class:`Law`. :mod:`studies.doc003.link_fit` looks for the
link in measured times. README.md says what the model leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

BYTES_PER_DOUBLE = 8

#: Coverage of all intervals, and the logarithm of a factor beyond which one says nothing.
COVERAGE, MOST_HALF = 0.95, 20.0

#: From so many ranks on the grid of HPL has several rows.
COLUMNS = 4

#: Longest message that MPI sends without asking the receiver [B]: Open MPI over TCP
#: (btl_tcp_eager_limit of 4.1). A longer one needs so many crossings.
EAGER, RENDEZVOUS = 64 << 10, 3


class FitError(ValueError):
    """The measurements do not determine the model; the message names what is missing."""


def operations(order: float) -> float:
    """Operations of HPL for a matrix of order n_p, as the model counts them: 2/3 n_p^3."""
    return 2 / 3 * order**3


@dataclass(frozen=True)
class Estimate:
    """A fitted value, and the interval of coverage :data:`COVERAGE`."""

    value: float
    low: float
    high: float

    @property
    def inverse(self) -> Estimate:
        """1 / value: of a time for each byte, the bandwidth."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low)


def interval(logarithm: float, deviation: float, freedom: int) -> Estimate:
    """An estimate from its logarithm; without a finite deviation the interval is everything."""
    from scipy import stats  # noqa: PLC0415 - only a fit needs it, and it loads slowly

    half = float(stats.t.ppf((1 + COVERAGE) / 2, freedom)) * deviation
    if not math.isfinite(half) or half > MOST_HALF:
        return Estimate(math.exp(logarithm), 0.0, math.inf)
    return Estimate(math.exp(logarithm), math.exp(logarithm - half), math.exp(logarithm + half))


@dataclass(frozen=True)
class SharedLink:
    """The link in units of a processor, as the bound sees it.

    :ivar latency: t_L / t_A, the operations of a process during the latency.
    :ivar message: <m> / (t_A B), its operations while an average message crosses the idle link.
    """

    latency: float
    message: float

    def speed_up(self, processes: float, order: float) -> float:
        """The bound S(p); no program on p processes exceeds p either, which matters for p < 3."""
        return processes / max(1.0, math.log(processes) + self._added(processes, order))

    def _added(self, p: float, order: float) -> float:
        """t_c(p) / t_B(1)."""
        return (self.latency + self.message * p) * p**2 / 2 / operations(order)

    def break_at(self, order: float) -> float:
        """The number of processes with the greatest bound: more processes are slower.

        :raises ValueError: the bound only falls: even few processes lose more than they gain.
        """
        from scipy import optimize  # noqa: PLC0415 - only a fit needs it, and it loads slowly

        latency, message = (x / operations(order) for x in (self.latency, self.message))

        def gain(p: float) -> float:
            """Has the sign of dS/dp."""
            return math.log(p) - 1 - latency * p**2 / 2 - message * p**3

        def curvature(p: float) -> float:
            return 1 - latency * p**2 - 3 * message * p**3

        most = 1.0
        while curvature(most) > 0:
            most *= 2
        steepest = optimize.brentq(curvature, most / 2 if most > 1 else 0.0, most)
        if steepest <= 1 or gain(steepest) <= 0:
            raise ValueError(f"order {order:g}: the link is so slow that the bound never grows")
        while gain(most) > 0:
            most *= 2
        return float(optimize.brentq(gain, steepest, most))

    def best(self, order: float) -> float:
        """The greatest bound, at the break."""
        return self.speed_up(self.break_at(order), order)

    def widened(self, factor: float) -> SharedLink:
        """The same link with `factor` times its bandwidth."""
        return replace(self, message=self.message / factor)

    def improvement(self, order: float, factor: float) -> float:
        """By which part the best speed-up grows if the link has `factor` times its bandwidth."""
        return self.widened(factor).best(order) / self.best(order) - 1


def from_breaks(breaks: Mapping[float, float], latency: float = 0.0) -> tuple[SharedLink, Estimate]:
    """The link whose bound breaks at the given numbers of processes; and the interval of `message`.

    :param breaks: order n_p -> number of processes p from which the speed-up falls.
    :param latency: t_L / t_A, if it is known.
    :raises FitError: fewer than two breaks, which leave no deviation to judge the fit by.
    """
    from scipy import optimize  # noqa: PLC0415 - only a fit needs it, and it loads slowly

    if len(breaks) < 2:
        raise FitError(f"{len(breaks)} break: the fit needs at least 2 orders")
    orders = np.array(list(breaks), dtype=float)

    def places(orders: Any, log_message: float) -> Any:
        link = SharedLink(latency, math.exp(log_message))
        return np.log([link.break_at(order) for order in orders])

    # Of the middle break alone: ln p - 1 = message p^3 / n.
    order, p = sorted(breaks.items())[len(breaks) // 2]
    start = math.log((math.log(p) - 1) * operations(order) / p**3)
    found, covariance = optimize.curve_fit(places, orders, np.log(list(breaks.values())), [start])
    message = interval(float(found[0]), math.sqrt(float(covariance[0, 0])), len(breaks) - 1)
    return SharedLink(latency, message.value), message


@dataclass(frozen=True)
class Law:
    """What a program does on p processes for a matrix of order n_p.

    :ivar work: operations on the critical path.
    :ivar messages: messages over the link that follow each other.
    :ivar volume: bytes over the link in one direction [B].
    """

    work: Callable[[float, float], float]
    messages: Callable[[float, float], float]
    volume: Callable[[float, float], float]


def of_document(message: float) -> Law:
    """The law of the document: T = t_B(1) / S(p).

    :param message: <m>, the average length of a message [B].
    """
    return Law(
        work=lambda p, order: operations(order) * max(1.0, math.log(p)) / p,
        messages=lambda p, _: p / 2 if p > 1 else 0.0,
        volume=lambda p, _: message * p**2 / 2 if p > 1 else 0.0,
    )


def of_hpl(block: int) -> Law:
    """The law of HPL itself with block size NB, if the halves of its ranks are on two clusters.

    The ranks fill the grid row by row, so its columns cross the link. From 4 ranks on, a column
    has several ranks: they exchange each of the n_p pivots with 2 NB + 4 doubles (HPL 2.3,
    src/pfact/HPL_pdmxswp.c; of its log2(P) steps one crosses), and the rows U, which are 4 n_p^2
    bytes in all. On 2 or 3 ranks the only row of the grid crosses. For each block, it sends a panel
    of all rows that are left, the block itself included (src/panel/HPL_pdpanel_init.c: `len`), and
    in the solution a part of the vector (src/pgesv/HPL_pdtrsv.c).

    A message longer than :data:`EAGER` crosses three times: request, answer, data.
    """

    def panels(order: float) -> Any:
        """Bytes of each panel [B]."""
        left = np.arange(math.ceil(order / block), 0, -1) * block
        return BYTES_PER_DOUBLE * block * np.minimum(left, order)

    def messages(p: float, order: float) -> float:
        if p < 2:
            return 0.0
        sizes = panels(order)
        crossings = len(sizes) + float(np.where(sizes > EAGER, RENDEZVOUS, 1).sum())
        return crossings + (order if p >= COLUMNS else 0.0)

    def volume(p: float, order: float) -> float:
        if p < 2:
            return 0.0
        if p < COLUMNS:
            return float(panels(order).sum())
        pivots = order * (2 * block + 4) * BYTES_PER_DOUBLE
        return BYTES_PER_DOUBLE / 2 * order**2 + pivots

    return Law(lambda p, order: operations(order) / p, messages, volume)
