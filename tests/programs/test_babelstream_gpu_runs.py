"""BabelStream on GPUs under ReFrame, without a GPU: made outputs, and the faults that are red."""

import pytest
import shell
from bench import Bench

pytestmark = pytest.mark.slow

GPUS = 2
SIZE = 1 << 30  # of an array [B]
ARRAYS = {"Copy": 2, "Mul": 2, "Add": 3, "Triad": 3, "Dot": 2}


def output(rate=1300e3, implementation="CUDA", size=SIZE):
    """An output in the form of BabelStream 5.0, all kernels at `rate` [MB/s]."""
    lines = [
        "BabelStream", "Version: 5.0", f"Implementation: {implementation}",
        "Running  Classic kernels 20 times in  Classic order ",
        "Precision: double",
        f"Array size: {size / 1e6:.1f} MB", f"Total size: {3 * size / 1e6:.1f} MB",
        "Function    MB/s        Min (sec)   Max         Average     ",
    ]  # fmt: skip
    for kernel, arrays in ARRAYS.items():
        time = round(arrays * size / rate / 1e6, 7)
        printed = arrays * size / time / 1e6
        lines.append(f"{kernel:<12}{printed:<12.3f}{time:<12.7f}{time:<12.7f}{time:<12.7f}")
    return "\n".join([*lines, ""])


#: Stack -> the outputs of both GPUs, and why the run must not pass; empty: it passes.
RUNS = {
    "healthy": ([output(), output(1200e3)], ""),
    "cut": ([output(), output()[:-60]], "GPU 1: the table was cut after"),
    "nothing": ([output(), ""], "GPU 1: no table of BabelStream"),
    "wrong-data": (
        [output(), output() + "Validation failed on sum. Error 0.5\n"],
        "GPU 1: line 14: Validation failed on sum. Error 0.5",
    ),
    "on-the-cpu": (
        [output(), output(implementation="OpenMP")],
        "GPU 1: implementation is OpenMP, CUDA was asked for",
    ),
    "small-arrays": (
        [output(size=SIZE // 64), output()],
        "GPU 0: the size of an array is 1.68e+07 B, 1073741824 B were asked for",
    ),
    "not-stated": (
        [output().replace("Precision: double\n", ""), output()],
        "GPU 0: precision is not stated, double was asked for",
    ),
    "no-size": (
        [output().replace("Array size: 1073.7 MB\n", ""), output()],
        "GPU 0: the size of an array is not stated, 1073741824 B were asked for",
    ),
    # The site names a GPU whose memory has 1555 GB/s.
    "another-gpu": ([output(2e6), output(2e6)], "the peak (gpu, hardware.yaml) is 1555000 MB/s"),
}


def test_each_fault_is_named(bench: Bench):
    bench.partition(
        features=["intra-node", "gpu"],
        devices=[{"type": "gpu", "num_devices": GPUS}],
        extras={"hardware": {"gpu": "a100-sxm4-40gb"}},
    )
    bench.record_all()
    for name, (texts, _) in RUNS.items():
        for gpu, text in enumerate(texts):
            shell.program(bench.folder / "outputs", f"{name}.{gpu}", "").write_text(text)
        body = f'#!/bin/sh\n[ "$1" = --device ] && cat {bench.folder}/outputs/{name}.$2\n'
        bench.stack(name, ["babelstream"], bench.program(name, "cuda-stream", body))
    words = ("-n", "BabelStreamGpu", "--mode", "smoke")
    done = bench.run(*words, path="reframe/compute/babelstream_gpu.py")
    for name, (_, cause) in RUNS.items():
        done.says("BabelStreamGpu", cause, environ=name)
    metrics = done.case("BabelStreamGpu", "healthy").record["metrics"]
    assert metrics["triad_worst"]["value"] == pytest.approx(1200e3, rel=1e-3)
    assert metrics["triad_median"]["percent_of"]["peak"] == 1555e3
