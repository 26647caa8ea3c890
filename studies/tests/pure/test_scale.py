"""The generators of the page of scale and its tables: plausible, reproducible, and in agreement."""

import sys
from dataclasses import replace

import pytest
import yaml
from shell import ROOT

sys.path.insert(0, str(ROOT / "studies" / "scale"))

import cost
import gpu_sweep
import page
import power
import switches

MACHINE = cost.values(cost.load()["production"])


def test_the_page_has_the_costs_that_the_model_computes():
    assert page.written("summary") == page.part_summary()
    assert page.written("cost") == page.part_cost()
    assert page.written("check") == page.part_check()


def test_the_page_has_the_power_that_the_simulation_computes():
    """Only a part of the table is computed again, because each cell has its own seed."""
    tournament, noise = power.TOURNAMENTS[0], 0.02
    outcomes = {
        cell: power.simulate(cell) for cell in power.cells(tournament) if cell.noise == noise
    }
    head, _, *rows = (
        [entry.strip() for entry in line.strip("|").split("|")]
        for line in page.written("power").splitlines()
    )
    (row,) = (row for row in rows if row[0] == str(tournament))
    said = row[head.index("noise 2 %")]
    assert said == page.power_entry(outcomes, tournament, noise)


def test_a_cell_gives_the_same_alone():
    cell = power.Cell(replace(power.TOURNAMENTS[1], trials=20), "pair", 0.1, 0.03)
    once = power.simulate(cell)
    power.simulate(replace(cell, noise=0.05))
    assert power.simulate(cell) == once


@pytest.mark.parametrize("tournament", power.TOURNAMENTS[:5], ids=str)
def test_little_noise_names_what_is_above_the_tolerance_and_nothing_below(tournament):
    few = replace(tournament, trials=10)
    for fault in ("node", "pair"):
        assert power.simulate(power.Cell(few, fault, 0.1, 0.005)) == power.Outcome(1.0, 0.0)
        assert power.simulate(power.Cell(few, fault, 0.02, 0.005)) == power.Outcome(0.0, 0.0)
    assert power.simulate(power.Cell(few, "", 0.0, 0.02)) == power.Outcome(1.0, 0.0)


def test_the_page_has_a_row_for_each_sparse_tournament_by_switches():
    rows = page.written("switches").splitlines()[2:]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == list(map(str, switches.TOURNAMENTS))


def test_parts_of_a_network_above_the_tolerance_are_named_and_none_below_and_none_healthy():
    few = switches.Sparse(320, 4)
    for fault in switches.FAULTS:
        found = switches.simulate(switches.Cell(few, fault, 0.15, 0.01))
        assert found == power.Outcome(1.0, 0.0), fault
        assert switches.simulate(switches.Cell(few, fault, 0.02, 0.01)).wrong == 0.0
        assert switches.simulate(switches.Cell(few, fault, 0.02, 0.01)).right == 0.0
    assert switches.simulate(switches.Cell(few, "", 0.0, 0.02)) == power.Outcome(1.0, 0.0)


def test_an_entry_has_the_smallest_faults_and_both_kinds_of_alarms():
    few = switches.Sparse(64, 1, (0.1, 0.3), (0.01,))
    outcomes = {
        cell: power.Outcome(float(cell.severity != 0.1 or cell.fault != "pair"), 0.0)
        for cell in switches.cells(few)
    }
    outcomes[switches.Cell(few, "trunk", 0.1, 0.01)] = power.Outcome(0.9, 0.1)
    said = page.entry(outcomes, few, switches.FAULTS, 0.01)
    assert said == "10 % / 30 % / 10 % / 30 % / 0.0 % / 10.0 %"
    assert page.entry(outcomes, few, switches.FAULTS, 0.02) == ""


@pytest.mark.parametrize("fault", ["", *gpu_sweep.FAULTS])
def test_the_real_diagnosis_names_the_simulated_gpu(fault):
    few = gpu_sweep.Sweep(8, 2, (0.4,), (0.01,))
    severity = 0.4 if fault else 0.0
    assert gpu_sweep.simulate(gpu_sweep.Cell(few, fault, severity, 0.01)) == power.Outcome(1.0, 0.0)


def test_every_number_of_the_model_has_a_source():
    def entries(block):
        if isinstance(block, dict) and "value" in block:
            assert set(block) == {"value", "unit", "source"}
            yield block
        elif isinstance(block, dict):
            for inner in block.values():
                yield from entries(inner)

    parameters = yaml.safe_load(cost.PARAMETERS.read_text())
    assert len(list(entries(parameters))) > 10
    for test in parameters["tests"]:
        assert test["source"]
        assert ("seconds" in test) != ("memory" in test)


def test_costs_of_a_tournament():
    full = cost.tournament(MACHINE, 64, 63)
    half = cost.tournament(MACHINE, 64, 31)
    assert full.bytes == 63 * 32 * MACHINE["bytes"]
    assert full.node_seconds == 64 * full.wall
    assert full.wall - half.wall == pytest.approx(32 * (MACHINE["begin"] + MACHINE["busy"]))
    # With one pair at a time, a round has one batch for each pair.
    alone = cost.by_steps(MACHINE, 16, 15, at_once=1)
    assert alone.wall == pytest.approx(15 * 8 * (MACHINE["start"] + MACHINE["busy"]))
    # An srun for each of 5000 pairs costs far more than the tournament.
    assert cost.by_steps(MACHINE, 10_000, 14).wall > 5 * cost.tournament(MACHINE, 10_000, 14).wall


def test_hpl_takes_longer_with_the_root_of_the_nodes():
    node = cost.values(cost.load()["node"])
    one = cost.hpl_seconds(node, 1, 0.3)
    assert cost.hpl_seconds(node, 100, 0.3) == pytest.approx(10 * one)
    assert cost.hpl_seconds(node, 1, 0.3 / 4) == pytest.approx(one / 8)


@pytest.mark.parametrize(("n", "rounds"), [(4, 3), (5, 5), (16, 6), (1024, 10), (10_000, 14)])
def test_rounds_of_the_sparse_tournament(n, rounds):
    assert cost.schedule.sparse(n) == rounds


def test_an_acceptance_run_is_its_tests_and_the_tournament():
    parameters = cost.load()
    parts = [one for _, one in cost.tests(parameters, 64)]
    tournament = cost.tournament(MACHINE, 64, cost.schedule.sparse(64))
    whole = cost.acceptance(parameters, 64)
    assert whole.wall == pytest.approx(sum(part.wall for part in [*parts, tournament]))
    assert whole.node_seconds < 64 * whole.wall  # nodes are given back between cases


def test_durations_and_amounts_are_said_in_their_units():
    words = {9.9: "9.9 s", 119: "119 s", 120: "2 min", 7200: "2 h", 172800: "2 d"}
    assert {seconds: page.duration(seconds) for seconds in words} == words
    assert page.amount(2.5e13) == "25 TB"
