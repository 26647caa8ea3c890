"""Change points: what is found, what is not, and how it is judged."""

from __future__ import annotations

import datetime
import math
import random
from pathlib import Path

import histories
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.archive.history import changes
from assay.cli import main
from assay.metrics import Unit

NOISE = np.random.default_rng(5).normal(scale=0.01, size=200)
#: A made metric: noise of 1 % about 100.
CALM = 100 * (1 + NOISE)


def dropped(share: float, first: int, end: int | None = None) -> np.ndarray:
    values = CALM.copy()
    values[first:end] *= 1 - share
    return values


def test_a_drop_is_found_at_its_run_with_both_levels() -> None:
    (step,) = changes.find(dropped(0.05, 120), 0.05)
    assert step.at == 120
    assert step.before == pytest.approx(100, rel=0.005)
    assert step.after == pytest.approx(95, rel=0.005)
    assert step.relative == pytest.approx(-0.05, abs=0.005)


def test_values_at_the_end_of_the_range_of_numbers_end_nothing() -> None:
    values = [1e308] * 5 + [1.5e308, 1.2e308, 1.3e308, 1.1e308, 1.7e308] * 3
    with np.errstate(all="ignore"):
        assert changes.find(values, 0.05) == []


def test_noise_is_no_change() -> None:
    assert changes.find(CALM, 0.05) == []


@pytest.mark.parametrize(("runs", "found"), [(3, 0), (4, 0), (6, 1)])
def test_a_change_counts_once_it_has_lasted(runs: int, found: int) -> None:
    assert len(changes.find(dropped(0.05, 120)[: 120 + runs], 0.05)) == found


def test_four_disturbed_runs_that_end_are_no_change_and_six_are_two() -> None:
    assert changes.find(dropped(0.4, 120, 124), 0.05) == []
    assert [step.at for step in changes.find(dropped(0.4, 120, 126), 0.05)] == [120, 126]


@pytest.mark.parametrize(("tolerance", "found"), [(0.05, 1), (0.15, 0)])
def test_a_change_is_judged_by_the_tolerance(tolerance: float, found: int) -> None:
    assert len(changes.find(dropped(0.05, 120), tolerance)) == found


def test_many_small_changes_count_when_their_sum_is_large() -> None:
    values = 100 * (1 + NOISE / 10)
    for first in range(40, 200, 40):
        values[first:] *= 0.99
    (step,) = changes.find(values, 0.05)  # half of the tolerance is 2.5 %
    assert step.at == 120


def test_a_spike_neither_makes_nor_hides_a_change() -> None:
    values = dropped(0.05, 120)
    values[[30, 119, 150]] = 1.0
    assert [abs(step.at - 120) <= 1 for step in changes.find(values, 0.05)] == [True]


def test_a_planned_change_is_no_change_and_its_level_is_the_new_baseline() -> None:
    values = dropped(0.05, 120)
    assert changes.find(values, 0.05, cuts=[120]) == []
    values[160:] /= 0.95
    (step,) = changes.find(values, 0.05, cuts=[120])
    assert step.at == 160
    assert step.before == pytest.approx(95, rel=0.005)


@pytest.mark.parametrize("values", [[], [1.0], [5.0] * 50, [0.0] * 50, [1.0, 2.0] * 4])
def test_short_and_constant_series_have_no_change(values: list[float]) -> None:
    assert changes.find(values, 0.05) == []


def test_a_change_from_zero_is_infinite() -> None:
    (step,) = changes.find([0.0] * 20 + [3.0] * 20, 0.1)
    assert step.at == 20
    assert step.relative == math.inf


def best(values: list[float], penalty: float) -> float:
    """The least cost of all ways to cut a series into levels, by trying all of them."""
    costs = [-penalty, *[math.inf] * len(values)]
    for end in range(1, len(values) + 1):
        for at in range(end - changes.PERSIST + 1):
            costs[end] = min(costs[end], costs[at] + error(values[at:end]) + penalty)
    return costs[-1]


def error(level: list[float]) -> float:
    return sum((value - sum(level) / len(level)) ** 2 for value in level)


@example(levels=[(0.0, 1), (0.0, 8), (0.0, 15)], seed=8, penalty=1.0)
@given(
    levels=st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 3.0, 8.0]), st.integers(1, 15)), min_size=1, max_size=4
    ),
    seed=st.integers(0, 1000),
    penalty=st.floats(1.0, 30.0),
)
def test_the_search_finds_the_best_of_all_cuts(
    levels: list[tuple[float, int]], seed: int, penalty: float
) -> None:
    noise = random.Random(seed)
    values = [level + noise.gauss(0, 1) for level, count in levels for _ in range(count)]
    if len(values) < 2 * changes.PERSIST:
        return
    ends = changes._ends(np.array(values), penalty)
    edges = [0, *ends]
    assert all(end - at >= changes.PERSIST for at, end in zip(edges, ends))
    found = sum(error(values[at:end]) + penalty for at, end in zip(edges, ends)) - penalty
    assert found == pytest.approx(best(values, penalty))


# --- the command ----------------------------------------------------------------------------------


def sites(tmp_path: Path, text: str = "") -> list[str]:
    """A folder of sites with the site `made`, as an option of the command."""
    folder = tmp_path / "sites"
    (folder / "made").mkdir(parents=True)
    common = Path(__file__).parents[4] / "site-config/tolerances.yaml"
    (folder / "tolerances.yaml").write_text(common.read_text())
    (folder / "made/tolerances.yaml").write_text(f"planned: [{text}]")
    return ["--folder", str(folder)]


def history(tmp_path: Path, *nodes: np.ndarray, unit: str = "GB/s") -> str:
    """A history with one case on each node, a session a day."""
    days = zip(*nodes)
    return str(
        histories.write(
            tmp_path / "history",
            [
                histories.session(
                    day,
                    *(
                        histories.case(float(value), f"node{number:02}", unit=unit)
                        for number, value in enumerate(values, 1)
                    ),
                )
                for day, values in enumerate(days, 1)
            ],
        )
    )


def printed(capsys: pytest.CaptureFixture[str], *command: str) -> list[str]:
    assert main(["history", *command]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == f"assay history: {len(lines)} changes"
    return lines


def test_a_slow_node_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calm = np.roll(CALM, 50)
    at = history(tmp_path, calm, dropped(0.06, 120), np.roll(CALM, 20), np.roll(CALM, 90))
    (line,) = printed(capsys, "changes", at, *sites(tmp_path))
    assert "| Made @made:net+mpi | bandwidth | node02 |" in line
    assert line.endswith("| for the worse")
    assert "| -5.7%, 1.1 x tolerance |" in line


def test_what_all_nodes_show_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = history(tmp_path, dropped(0.06, 120), dropped(0.06, 120))
    (line,) = printed(capsys, "changes", at, *sites(tmp_path))
    assert "| all nodes |" in line


def test_of_two_nodes_the_slow_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = history(tmp_path, np.roll(CALM, 50), dropped(0.2, 120))
    assert any("| node02 |" in line for line in printed(capsys, "changes", at, *sites(tmp_path)))


def test_the_newest_change_is_first_and_better_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = history(tmp_path, dropped(0.06, 80, 140))
    newest, oldest = printed(capsys, "changes", at, *sites(tmp_path))
    assert newest.endswith("for the better")
    assert oldest.endswith("for the worse")


DATE = f"{datetime.date.fromtimestamp(121 * histories.DAY)}"


def test_a_unit_that_a_test_brought_keeps_its_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = history(tmp_path, dropped(0.06, 120), unit=Unit("MIPS", "rate"))
    (line,) = printed(capsys, "changes", at, *sites(tmp_path))
    assert line.endswith("for the worse")


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("", 0),
        (", partitions: [net]", 0),
        (", metrics: [bandwidth]", 0),
        (", partitions: [memory]", 1),
        (", metrics: [latency]", 1),
    ],
)
def test_a_planned_change_of_the_site_concerns_what_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: str, found: int
) -> None:
    at = history(tmp_path, dropped(0.06, 120))
    options = sites(tmp_path, f"{{date: {DATE}, what: new firmware{entry}}}")
    assert len(printed(capsys, "changes", at, *options)) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-03-01", "0: datetime.date(2026, 3, 1): expected a mapping"),
        ("{date: 2026-03-01}", "0: `what` is missing (A change has date"),
        ("{what: firmware}", "0: `date` is missing"),
        ("{date: 2026-03-01, what: 7}", "0/what: 7: expected a text"),
        ("{date: '2026-03-01', what: firmware}", "0: date: '2026-03-01' is no date"),
        (
            "{date: 2026-03-01, what: firmware, metric: [a]}",
            "0/metric: unknown key; did you mean 'metrics'?",
        ),
        ("{date: 2026-03-01, what: firmware, metrics: a}", "0/metrics: 'a': expected a list"),
    ],
)
def test_a_wrong_planned_change_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    at = history(tmp_path, CALM)
    assert main(["history", "changes", at, *sites(tmp_path, text)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "made/tolerances.yaml: planned" in line
    assert said in line


def test_tolerances_that_are_not_there_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = history(tmp_path, CALM)
    assert main(["history", "changes", at, "--folder", str(tmp_path / "nowhere")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "tolerances.yaml" in line
    assert "--folder" in line
