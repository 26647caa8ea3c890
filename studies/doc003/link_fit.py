"""Two clusters and the link between them, from times of HPL within a cluster and across.

Looks for the time of an operation t_A, and for the latency and the bandwidth of both links. The
time is a sum with unknown factors; a :class:`Law` says what a program does on p processes for a
matrix of order n_p:

    T(p, n_p) = t_A work(p, n_p) + t_L messages(p, n_p) + volume(p, n_p) / B

The factors are fitted as logarithms (scipy), by relative deviations, so none is negative and the
intervals are ratios.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
class Law:
    """What a program does on p processes for a matrix of order n_p.

    :ivar work: operations on the critical path.
    :ivar messages: messages over the link that follow each other.
    :ivar volume: bytes over the link in one direction [B].
    """

    work: Callable[[float, float], float]
    messages: Callable[[float, float], float]
    volume: Callable[[float, float], float]


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


#: Names of the terms: the time of an operation, of a message, and of a byte, within and across.
OPERATION, NEAR_LATENCY, NEAR_PER_BYTE, LATENCY, PER_BYTE = TERMS = (
    "operation", "latency within", "byte within", "latency across", "byte across"
)  # fmt: skip

#: A term that is a smaller share of every time does not show.
SHOWN = 0.01

#: The least deviation of a time from the model that is assumed, as a part of it. Few times may lie
#: nearer to the model by chance.
LEAST_SPREAD = 0.01

#: The times show the latency if the ends of its interval differ by at most this factor.
WIDE = 2.0

#: What the runs must show at least, and the runs that show it.
NEEDED = {
    OPERATION: "small numbers of processes and large orders",
    LATENCY: "small orders across",
    PER_BYTE: "large orders on many processes across",
}


@dataclass(frozen=True)
class Run:
    """One measured time of HPL.

    :ivar time: [s].
    :ivar across: whether its processes were on both clusters, half on each.
    """

    processes: int
    order: int
    time: float
    across: bool


@dataclass(frozen=True)
class Fit:
    """What times of HPL say of the processes and of both links, as the program feels them.

    :ivar terms: :data:`TERMS` -> the fitted factor. A term within a cluster may be missing: it
        then adds nothing that the times show.
    :ivar covariance: of the logarithms of the terms, in their order.
    :ivar spread: across or not -> typical relative deviation of a measured time from the model.
    """

    law: Law
    terms: Mapping[str, Estimate]
    covariance: Any
    freedom: int
    spread: Mapping[bool, float]

    @property
    def latency(self) -> Estimate:
        """t_L of the link across [s]."""
        return self.terms[LATENCY]

    @property
    def bandwidth(self) -> Estimate:
        """B of the link across [B/s]."""
        return self.terms[PER_BYTE].inverse

    def time(self, processes: int, order: int, across: bool, widened: float = 1.0) -> Estimate:
        """Predicted time [s] of a problem, and the interval of a measurement of it.

        :param widened: the link across has so many times its bandwidth.
        """
        known = _factors(self.law, processes, order, across)
        known[PER_BYTE] /= widened
        parts = np.array([known[name] * self.terms[name].value for name in self.terms])
        share = parts / parts.sum()
        spread = self.spread.get(across, max(self.spread.values()))
        deviation = math.sqrt(share @ self.covariance @ share + spread**2)
        return interval(math.log(parts.sum()), deviation, self.freedom)

    def speed_up(self, processes: int, order: int, across: bool, widened: float = 1.0) -> float:
        """The time of one process, as predicted, divided by the predicted time."""
        alone = self.time(1, order, across=False).value
        return alone / self.time(processes, order, across, widened).value


def fit(runs: Iterable[Run], law: Law, latency: float | None = None) -> Fit:
    """Fits the model to measured times.

    :param latency: t_L of the link across [s], if it is known. Else it is fitted, too.
    :raises FitError: there are too few runs, or they do not show the latency or the bandwidth.
    """
    measured = list(runs)
    if bad := [run for run in measured if not (math.isfinite(run.time) and run.time > 0)]:
        raise FitError(f"{bad[0]}: the time is not above 0")
    if not any(run.across for run in measured):
        raise FitError("no run is across: nothing shows the link")
    unknown = [name for name in TERMS if name != LATENCY or latency is None]
    if len(measured) <= len(unknown):
        raise FitError(
            f"{len(measured)} times: {len(unknown)} terms need at least {len(unknown) + 1}"
        )
    known = [_factors(law, run.processes, run.order, run.across) for run in measured]
    times = np.array([run.time for run in measured])
    matrix = np.array([[row[name] for name in unknown] for row in known])
    fixed = np.array([row[LATENCY] for row in known]) * (latency or 0.0)
    if (late := fixed >= times).any():
        run = measured[int(late.argmax())]
        raise FitError(f"{run}: its messages alone take longer at a latency of {latency:.3g} s")
    across = np.array([run.across for run in measured])
    equal = np.full(len(times), LEAST_SPREAD)
    names, _, _, deviations = _least_squares(unknown, matrix, times, fixed, equal)
    # Milliseconds within a group deviate more than seconds across. Each kind has its own weight.
    spread = _spread(names, across, deviations)
    weights = np.array([spread[bool(kind)] for kind in across])
    names, found, covariance, _ = _least_squares(unknown, matrix, times, fixed, weights)
    freedom = len(times) - len(names)
    terms = {
        name: interval(value, math.sqrt(variance), freedom)
        for name, value, variance in zip(names, found, np.diag(covariance))
    }
    if latency is not None:
        terms[LATENCY] = Estimate(latency, latency, latency)
        covariance = np.pad(covariance, (0, 1))  # which is known exactly
    return Fit(law, terms, covariance, freedom, spread)


def _spread(names: Sequence[str], across: Any, deviations: Any) -> dict[bool, float]:
    """Across or not -> root mean square of the deviations, per degree of freedom."""
    of_link = sum(name in (LATENCY, PER_BYTE) for name in names)
    found = {}
    for kind, terms in ((True, of_link), (False, len(names) - of_link)):
        own = deviations[across == kind]
        if len(own):
            freedom = max(1, len(own) - terms)
            found[kind] = max(LEAST_SPREAD, math.sqrt(float(own @ own) / freedom))
    return found


def _least_squares(
    names: Sequence[str], matrix: Any, times: Any, fixed: Any, spread: Any
) -> tuple[list[str], Any, Any, Any]:
    """The terms that show, their logarithms, the covariance, and a deviation for each time.

    :param matrix: a row for each time, a column for each name.
    :param fixed: the known part of each time [s].
    :param spread: the expected relative deviation of each time.
    :raises FitError: the times do not show a term that is needed.
    """
    from scipy import optimize  # noqa: PLC0415 - only a fit needs it, and it loads slowly

    def model(rows: Any, *logarithms: float) -> Any:
        return np.log(rows @ np.exp(logarithms) + fixed)

    # Each equation is divided by its time, and each column by its size: deviations are relative.
    relative = matrix / times[:, None]
    size = np.linalg.norm(relative, axis=0)
    size[size == 0] = 1.0
    found, _ = optimize.nnls(relative / size, 1 - fixed / times)
    found /= size
    shown = _shown(names, relative * found)
    while True:
        # A term may vanish in the fit. The fit without it has an interval for each of the others.
        places = [names.index(name) for name in shown]
        names, matrix, start = shown, matrix[:, places], np.log(found[places])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optimize.OptimizeWarning)
            logarithms, covariance = optimize.curve_fit(
                model, matrix, np.log(times), start, spread, absolute_sigma=True
            )
        found = np.exp(logarithms)
        shown = _shown(names, matrix * found / times[:, None])
        if len(shown) == len(names):
            break
    if not np.isfinite(covariance).all():
        raise FitError("the times do not tell the terms apart: measure more orders, more often")
    return shown, logarithms, covariance, np.log(times) - model(matrix, *logarithms)


def _shown(names: Sequence[str], shares: Any) -> list[str]:
    """The terms that are more than :data:`SHOWN` of any time.

    :param shares: a row for each time, a column for each name.
    :raises FitError: one of :data:`NEEDED` is not.
    """
    shown = [name for name, most in zip(names, shares.max(axis=0)) if most > SHOWN]
    if hidden := [name for name in NEEDED if name in names and name not in shown]:
        raise FitError(
            f"the times do not show the {hidden[0]}: measure {NEEDED[hidden[0]]}, more often"
        )
    return shown


def best(runs: Iterable[Run], law: Law, latency: float) -> tuple[Fit, float | None]:
    """The fit, with the latency of the times if they show it, and the latency that it was given.

    :param latency: t_L of the link across [s] from elsewhere, for times that do not show it.
    :raises FitError: see :func:`fit`.
    """
    measured = list(runs)
    try:
        found = fit(measured, law)
    except FitError:
        return fit(measured, law, latency), latency
    if found.latency.high <= WIDE * found.latency.low:
        return found, None
    return fit(measured, law, latency), latency


def unpredicted(
    runs: Iterable[Run], law: Law, latency: float | None = None, tolerance: float = 0.2
) -> list[str]:
    """The times across of the largest order that a fit to all other times misses, one line each.

    :param latency: see :func:`fit`.
    :param tolerance: accepted difference, as a part of the measured time.
    :raises FitError: see :func:`fit`.
    """
    measured = list(runs)
    largest = max(run.order for run in measured if run.across)
    left_out = [run for run in measured if run.across and run.order == largest]
    found = fit([run for run in measured if run not in left_out], law, latency)
    lines = []
    for run in left_out:
        predicted = found.time(run.processes, run.order, run.across).value
        if abs(predicted / run.time - 1) > tolerance:
            lines.append(
                f"N = {run.order} on {run.processes} processes across took {run.time:.3g} s, the "
                f"model of all other times predicts {predicted:.3g} s: was one of them disturbed?"
            )
    return lines


#: Factors of the bandwidth for which a speed-up is predicted, and up to how many processes.
WIDENED, MOST_PROCESSES = (1, 2, 10), 4096

#: The figures of :func:`speed_ups`.
SINGLE, COUPLED, BOTH, WIDER = FIGURES = (
    "speed-up on one cluster",
    "speed-up on the coupled clusters",
    "speed-up on one cluster and on both",
    "speed-up on a wider link",
)


def speed_ups(runs: Iterable[Run], found: Fit) -> list[dict[str, Any]]:
    """Rows ``figure``, ``line``, ``processes``, ``speed_up``: measured, and predicted.

    The speed-up refers to the time that the fit gives to one process. The figures of both clusters
    and of wider links are for the largest order across.
    """
    measured = sorted(runs, key=lambda run: (run.across, run.order, run.processes))
    largest = max(run.order for run in measured if run.across)
    rows = []
    for run in measured:
        speed_up = found.time(1, run.order, across=False).value / run.time
        row = {"processes": run.processes, "speed_up": speed_up}
        where = COUPLED if run.across else SINGLE
        rows.append({"figure": where, "line": f"N = {run.order}", **row})
        if run.order == largest:
            line = "both clusters" if run.across else "one cluster"
            rows.append({"figure": BOTH, "line": f"{line}, N = {largest}", **row})
    counts = [1 << k for k in range(1, MOST_PROCESSES.bit_length())]
    return rows + [
        {
            "figure": WIDER,
            "line": f"{factor} x the bandwidth, N = {largest}",
            "processes": count,
            "speed_up": found.speed_up(count, largest, True, factor),
        }
        for factor in WIDENED
        for count in counts
    ]


def _factors(law: Law, p: int, order: int, across: bool) -> dict[str, float]:
    """What each term is multiplied by."""
    messages, volume = law.messages(p, order), law.volume(p, order)
    return {
        OPERATION: law.work(p, order),
        NEAR_LATENCY: 0.0 if across else messages,
        NEAR_PER_BYTE: 0.0 if across else volume,
        LATENCY: messages if across else 0.0,
        PER_BYTE: volume if across else 0.0,
    }
