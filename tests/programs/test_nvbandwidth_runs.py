"""nvbandwidth under ReFrame, without a GPU: made outputs, and the faults that turn them red."""

import pytest
import shell
from bench import Bench

pytestmark = pytest.mark.slow

GPUS = 4
TESTS = {
    "host_to_device_memcpy_ce": ("memcpy CE CPU(row) -> GPU(column)", 50.0),
    "device_to_host_memcpy_ce": ("memcpy CE CPU(row) <- GPU(column)", 48.0),
    "device_to_device_memcpy_read_ce": ("memcpy CE GPU(row) -> GPU(column)", 90.0),
}


BETWEEN = "device_to_device_memcpy_read_ce"


def output(gpus=GPUS, tests=TESTS):
    """An output in the form of nvbandwidth 0.8."""
    lines = ["nvbandwidth Version: v0.8", ""]
    for name, (what, rate) in tests.items():
        lines += [f"Running {name}.", f"{what} bandwidth (GB/s)"]
        lines.append(" ".join(map(str, range(gpus))))
        total = 0.0
        for row in range(gpus if "GPU(row)" in what else 1):
            cells = []
            for column in range(gpus):
                own = "GPU(row)" in what and row == column
                total += 0 if own else rate
                cells.append("N/A" if own else f"{rate:.2f}")
            lines.append(f"{row} {' '.join(cells)}")
        lines += ["", f"SUM {name} {total:.2f}", ""]
    lines += [
        "NOTE: The reported results may not reflect the full capabilities of the platform.",
        "Performance can vary with software drivers, hardware clocks, and system topology.",
    ]
    return "\n".join([*lines, ""])


HEALTHY = output()

#: Stack -> its output, and why the run must not pass; an empty reason: it passes.
RUNS = {
    "healthy": (HEALTHY, ""),
    "one-gpu-missing": (
        output(gpus=3),
        "host_to_device_memcpy_ce: 3 copies were measured, 4 GPUs have 4",
    ),
    "no-access": (
        output(tests=dict([*TESTS.items()][:2])),
        "device_to_device_memcpy_read_ce: 0 copies were measured, 4 GPUs have 12",
    ),
    "cut": (HEALTHY[: HEALTHY.index("NOTE")], "the note at the end is missing"),
    "wrong-data": (
        HEALTHY.replace(
            "SUM device_to_host", "ERROR: Invalid value when checking\nSUM device_to_ho"
        ),
        "Invalid value",
    ),
    # 1.5 times the peak of the link that the site names.
    "another-link": (
        output(tests={**TESTS, BETWEEN: (TESTS[BETWEEN][0], 150.0)}),
        "the peak (link, hardware.yaml) is 100 GB/s",
    ),
}


def run(bench: Bench, *features: str):
    bench.partition(
        features=["intra-node", "gpu", *features],
        devices=[{"type": "gpu", "num_devices": GPUS}],
        extras={"hardware": {"link": "nvlink3-4-links"}},
    )
    bench.record_all()
    for name, (text, _) in RUNS.items():
        file = shell.program(bench.folder / "outputs", name, "")
        file.write_text(text)
        path = bench.program(name, "nvbandwidth", f"#!/bin/sh\ncat {file}\n")
        bench.stack(name, ["nvbandwidth"], path)
    return bench.run("-n", "Nvbandwidth", "--mode", "smoke", path="reframe/network/nvbandwidth.py")


def test_each_fault_is_named(bench):
    done = run(bench, "nvlink")
    for name, (_, cause) in RUNS.items():
        done.says("Nvbandwidth", cause, environ=name)
    metrics = done.case("Nvbandwidth", "healthy").record["metrics"]
    assert metrics["between_gpus_worst"]["value"] == 90
    assert metrics["between_gpus_worst"]["percent_of"]["peak"] == 100  # GB/s
    assert metrics["host_to_device_median"]["value"] == 50


def test_without_nvlink_pairs_of_gpus_are_not_asked_for(bench):
    done = run(bench)
    done.says("Nvbandwidth", "", environ="no-access")
    assert "between_gpus_worst" not in done.case("Nvbandwidth", "no-access").record["metrics"]
