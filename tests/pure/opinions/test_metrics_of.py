"""An output as a case of the suite: its test, and its values by the names of the metrics."""

from assay.opinions.metrics_of import case_of, metrics_of, size_of
from assay.parse import Parsed, hpl


def hpl_of(program, *rows):
    units = {"performance": "GFLOP/s"}
    return Parsed("hpl", program, "2.3", True, rows, units, (), {})


def test_of_a_sweep_the_best_rate_of_the_largest_matrix_counts():
    rows = [{"n": n, "p": 1, "q": 2, "performance": rate}
            for n, rate in ((1000, 90.0), (2000, 50.0), (2000, 60.0))]  # fmt: skip
    assert [each[1:] for each in metrics_of(hpl_of(hpl.HOST, *rows))] == [
        ("performance", 60.0, "GFLOP/s")
    ]
    assert [*metrics_of(hpl_of(hpl.HOST))] == []


def test_hpl_on_gpus_is_compared_by_the_gpu():
    row = {"n": 1000, "p": 2, "q": 4, "performance": 80.0}
    ((case, *said),) = [
        its for its in metrics_of(hpl_of(hpl.NVIDIA, row)) if its[0]["test"] == "GpuHplStudy"
    ]
    assert (case, said) == ({"test": "GpuHplStudy"}, ["performance", 10.0, "GFLOP/s"])


def test_nccl_counts_by_the_worst_of_its_long_messages():
    rows = [{"size": size, "bus_bandwidth": rate}
            for size, rate in ((1 << 29, 1.0), (1 << 30, 9.0), (1 << 31, 8.0))]  # fmt: skip
    parsed = Parsed("nccl-tests", "all_reduce_perf", "2.17", True, rows, {}, (), {"nodes": 2})
    ((case, *said),) = metrics_of(parsed)
    assert case["test"] == "NcclBetween"
    assert said == ["bus_bandwidth_1024MiB", 8.0, "GB/s"]


def test_a_collective_of_osu_is_of_no_case():
    parsed = Parsed("osu", "osu_bcast", "7.4", True, (), {}, (), {})
    assert case_of(parsed)["test"] == ""


def test_the_size_of_a_grid_is_no_message_size():
    assert (size_of({"size": "128x128x32"}), size_of({"size": 8}), size_of({})) == (0, 8, 0)
