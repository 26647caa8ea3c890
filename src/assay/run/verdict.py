"""Phase ``performance``: the verdict of each metric, over all launches of the case."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before
from reframe.core.exceptions import ConfigError, PerformanceError

from assay import files, judge
from assay import metrics as known
from assay.judge import RED, Peak, Ratios, Reference, ReferencesError, Verdict, curves, of_peak
from assay.parse import Parsed, Quantity, formulas
from assay.prove import mpi
from assay.reframe_compat import runner
from assay.run.case import CaseBase
from assay.run.site import hardware_peak, site_references
from assay.store import record
from assay.store.record import BUSY, CALIBRATION

#: A quantity with its unit from the output, or computed numbers (a ratio), one for each launch.
Measured = Quantity | float | Sequence[float]


def in_declared_units(
    measured: Mapping[str, Measured], declared: Mapping[str, str]
) -> tuple[dict[str, list[float]], list[str]]:
    """The values of each metric, and the metrics that are missing or have another unit.

    :param declared: unit of every metric that must be present; no other metric may be present.
    """
    problems = [f"metric {name!r} was not extracted" for name in declared if name not in measured]
    problems += [f"metric {name!r} is not declared" for name in measured if name not in declared]
    samples: dict[str, list[float]] = {}
    for name, value in measured.items():
        if isinstance(value, Quantity):
            unit = declared.get(name, value.unit)
            if value.unit != unit:
                problems.append(f"metric {name!r} is in {value.unit!r}, not in {unit!r}")
            samples[name] = [value.value]
        else:
            samples[name] = list(value) if isinstance(value, Sequence) else [value]
        finite = (isinstance(each, Real) and math.isfinite(each) for each in samples[name])
        if not samples[name] or not all(finite):
            problems.append(f"metric {name!r} is not finite: {value}")
    return samples, problems


class Judged(CaseBase):
    """The part of :class:`assay.run.strict.StrictCheck` that judges what was measured."""

    #: Metric -> its value in the last launch.
    _newest: Mapping[str, float] = {}

    #: What speaks against all launches together, beside the metrics: one line, or none.
    _against_all: list[str] = []

    @run_after("setup")
    def _units_are_known(self) -> None:
        if problems := known.unknown(self.declares):
            raise ConfigError(f"{type(self).__name__}: {'; '.join(problems)}")

    @run_before("performance")
    def _judge(self) -> None:
        if self.is_dry_run():
            return
        own = [name for name in self.perf_variables if name not in self.declares]
        if own:
            # ReFrame passes a run in which such a function raises an error.
            self._fail([f"metric {name!r} does not come from measure()" for name in own])
        if not self.declares:
            self._attempts.passed = True
            return
        parsed = self._parsed
        assert parsed is not None, "sanity fails without one"
        try:
            measured, origins = formulas.of(self.measure, parsed)
            peaks = dict(self.peaks(parsed))
            values, problems = in_declared_units(measured, self.declares)
        except (LookupError, TypeError, ValueError, ZeroDivisionError) as error:
            problems = [f"metrics cannot be read from the output of {parsed.program}: {error}"]
        if problems and "busy" in self._record:
            return  # phase sanity has left the case without a verdict
        if problems:
            self._fail(problems)
        self._newest = {name: statistics.median(of_launch) for name, of_launch in values.items()}
        try:
            ratios = self._ratios(parsed, peaks)
        except ReferencesError as error:
            self._fail([str(error)])
        busy_with = self._record.get("busy") or self._disturbance()
        if busy_with and self._disturbed(
            self._judge_all(values, peaks, origins), ratios, busy_with
        ):
            return  # ReFrame stores the values, and then the case fails
        every = self._attempts.add(values, ratios, parsed.rows)
        metrics = self._record["metrics"] = self._judge_all(every, peaks, origins)
        curve = self._curve() if "curve" in self._record else None
        best = curves.best(self._attempts.rows, *curve) if curve else {}
        plausible = judge.judge_ratios(self._attempts.ratios, best)
        verdict = judge.worst(Verdict(m["verdict"]) for m in metrics.values())
        self._against_all = []
        if plausible.verdict is not Verdict.PASS:
            verdict = judge.worst([verdict, plausible.verdict])
            self._against_all = [f"{plausible.verdict.value}: {plausible.why}"]
        elif verdict is Verdict.PASS and (few := self._too_few()):
            verdict = Verdict.INCONCLUSIVE
            self._against_all = [f"{verdict.value}: {few}"]
            # ReFrame passes this launch, so that tests that depend on the case run, too.
            self._record[record.AGAIN] = self._attempts.launches <= (runner.retries() or 1)
        self._close_record(verdict, self._against_all)
        if verdict not in RED:
            # A case with `measures_anew` false may still add a verdict of its own.
            self._attempts.passed = self.measures_anew
        elif not self._record.get(record.AGAIN) and (
            not self.measures_anew
            or judge.decided(verdict, self._attempts.counted)
            or self._attempts.launches > runner.retries()
        ):
            self._attempts.settle(PerformanceError(self._said_against()))

    def _too_few(self) -> str:
        """What a case lacks that has passed all its launches so far; empty if they are enough."""
        done = self._attempts.earlier + self._attempts.counted
        least = max(self.least_launches, judge.LAUNCHES_TO_PASS)
        return f"{done} of at least {least} launches" if self.measures_anew and done < least else ""

    def _judge_all(
        self,
        values: Mapping[str, list[float]],
        peaks: Mapping[str, Peak],
        origins: Mapping[str, Any],
    ) -> dict[str, Any]:
        metrics: dict[str, Any] = {}
        errors = []
        for name, unit in self.declares.items():
            try:
                metrics[name] = self._judge_one(name, unit, values[name], peaks.get(name))
                if name in origins:
                    metrics[name]["origin"] = origins[name]
            except ReferencesError as error:
                errors.append(str(error))
        if errors:
            self._record["metrics"] = metrics
            self._fail(errors)
        return metrics

    def _ratios(self, parsed: Parsed, peaks: Mapping[str, Peak]) -> Ratios:
        """What must be plausible in the last launch; a calibration judges all launches itself."""
        column = curves.column(parsed.rows)
        if column:
            library = self.current_environ.extras.get("mpi", "openmpi")
            # The site or the launch may say that ranks wait for a core.
            waits = mpi.OPEN_MPI.waits(self._requested_variables()) or self._others is not None
            self._record["curve"] = curves.judged_as(self.curve, waits, library)
            if once := curves.paid_once(parsed.rows, self.counted):
                self._record["once"] = once
        if self.purpose == "calibration":
            return {}
        rates = {
            name: peak
            for name, peak in peaks.items()
            if peak.most is not None and known.fault(self.declares[name]) == "lower"
        }
        found = {
            f"peak {name}": of_peak(f"{name} is", self._newest[name], peak, self.declares[name])
            for name, peak in rates.items()
        }
        links = [peak.value for name, peak in rates.items() if self.declares[name] == "MB/s"]
        if parsed.rows and {"file_size", "record_size"} <= parsed.rows[0].keys():
            rates_of_a_table = self.declares.keys() & parsed.rows[0].keys()
            found.update(curves.cells(parsed.rows, sorted(rates_of_a_table)))
        if column:
            alone = not runner.retries()
            if not alone:
                bounds = site_references().envelope(self._keys(), column, parsed.units[column])
                found.update(curves.outside(parsed.rows, bounds))
            peak = max(links, default=None)
            if peak is None and column == "latency":
                peak = hardware_peak(self, "link", "bandwidth")
            found.update(curves.ratios(parsed.rows, *self._curve(), peak, alone))
        return found

    def _curve(self) -> tuple[str, curves.Once]:
        """The pattern by which the curve is judged, and what a launch pays once."""
        return self._record["curve"], self._record.get("once", {})

    def _disturbed(self, metrics: dict[str, Any], ratios: Ratios, why: str) -> bool:
        """Whether a launch does not count: there was other work, and a metric is out of bounds."""
        bad = [m for m in metrics.values() if m["verdict"] in RED]
        plausible = judge.judge_ratios([ratios])
        said = [f"{n}: {m['why']}" for n, m in metrics.items() if m in bad]
        if plausible.verdict is not Verdict.PASS:
            said.append(plausible.why)
        if "busy" in self._record:  # phase sanity has left the numbers without a verdict
            bad = list(metrics.values())
        elif not said or (self._of_a_person and self._too_good(metrics, ratios)):
            return False
        else:
            self._undecided(why, said)
        for metric in bad:
            metric.update(verdict=self._record["verdict"], why=f"{why}: {metric['why']}")
        self._record["metrics"] = metrics
        self._close_record(Verdict(self._record["verdict"]), self._record["problems"], said)
        return True

    def _too_good(self, metrics: Mapping[str, Any], ratios: Ratios) -> bool:
        """Whether a number is too good. Other work only makes numbers worse, and excuses none."""
        for name, metric in metrics.items():
            worse = known.fault(self.declares[name])
            low, high, value = metric.get("lower"), metric.get("upper"), metric["value"]
            if worse == "lower" and high is not None and value > high:
                return True
            if worse == "upper" and low is not None and value < low:
                return True
        return any(
            ratio.value > ratio.most
            for key, ratio in ratios.items()
            if key.startswith(curves.TOO_FAST)
        )

    def _undecided(self, why: str, against: Sequence[str], busy: bool = True) -> str:
        """Closes the record of a launch that does not count.

        :param busy: the machine was busy; `why` is what other work took.
        :returns: the reason for the failure of the case. It is empty on the machine of a person,
            where the last such launch ends the case without a verdict.
        """
        case = self._attempts  # whose `disturbed` are the launches before this one
        most = min(judge.LAUNCHES_TO_FAIL, runner.retries() + 1)
        enough = case.disturbed + 1 >= most or case.launches > runner.retries()
        last = enough or not self.measures_anew
        self._attempts.disturb()
        if busy:
            self._record["busy"] = why
        if busy and last and self._of_a_person:
            self._record["not_judged"] = list(map(str, against))
            self._close_record(Verdict.RECORDED, [])
            self._attempts.passed = self.measures_anew
            return ""
        said = files.clean("; ".join([f"{BUSY}: {why}" if busy else why, *against]))
        self._close_record(Verdict.INCONCLUSIVE, [said], against)
        if last:
            self._attempts.settle(PerformanceError(said))
        return said

    def _said_against(self) -> str:
        """Every metric that keeps this case from passing, with the reason; empty if none does."""
        if "busy" in self._record:
            return files.clean("; ".join(self._record["problems"]))
        metrics = self._record.get("metrics", {}).items()
        bad = [f"{n}: {m['verdict']}: {m['why']}" for n, m in metrics if m["verdict"] in RED]
        return files.clean("; ".join([*bad, *self._against_all]))

    def _judge_one(
        self, name: str, unit: str, values: list[float], peak: Peak | None
    ) -> dict[str, Any]:
        middle = statistics.median(values)  # the value that `judge` reports
        self.perf_variables[name] = sn.make_performance_function(sn.defer(middle), unit)
        entry: dict[str, Any] = {"value": middle, "unit": unit, "samples": [*values]}
        if peak:
            entry["percent_of"] = record.of_peak(peak.what, peak.value, middle, unit)
        if self.purpose == "calibration":
            return {**entry, "verdict": Verdict.RECORDED.value, "why": CALIBRATION}
        expected = site_references().find(self._keys(), name, unit, peak.value if peak else None)
        if not isinstance(expected, Reference):
            return {**entry, "verdict": Verdict.RECORDED.value, "why": expected.why}
        judgement = judge.judge(values, expected)
        # ReFrame shows and stores this reference. The reference has no bounds: ReFrame would judge
        # the median by them, and it has no third verdict.
        where = self.current_partition.fullname
        self.reference[f"{where}:{name}"] = (expected.value, None, None, unit)
        return {**entry, **record.of_judgement(expected, judgement)}

    @run_after("performance")
    def _no_pass_without_verdict(self) -> None:
        """Fails a case that has not passed, after ReFrame has stored its values."""
        if self.is_dry_run() or self._record.get(record.AGAIN):
            return
        if self._record.get("verdict") in RED:
            raise PerformanceError(self._said_against())

    def value(self, metric: str) -> float:
        """A metric of this case in its last launch, for a test that depends on this case.

        :raises KeyError: there is no such metric.
        """
        where = f"{self.current_partition.fullname}+{self.current_environ.name}"
        value = float(self._newest[metric])
        return formulas.Number(value, ["metric", self.unique_name, where, metric, value])

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of this case in its last launch, for a test that depends on this case."""
        return self._parsed.rows if self._parsed else ()
