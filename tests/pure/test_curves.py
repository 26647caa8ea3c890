"""Curves of real outputs, whole and bent: what the rules of plausibility say of each."""

import re
from pathlib import Path

import pytest

from assay.judge import LAUNCHES_FOR_95_PERCENT, Verdict, curves, judge_ratios
from assay.outputs import registry

DATA = Path(__file__).parents[1] / "data"

#: Recorded output -> pattern, and the largest size [B] of the run.
HEALTHY = {
    "osu/osu_latency.5.7.np2.txt": ("point-to-point", None),
    "osu/osu_bw.5.7.np2.txt": ("point-to-point", None),
    "osu/osu_bibw.7.4.np2.txt": ("point-to-point", None),
    "osu/osu_mbw_mr.7.2.np2.txt": ("point-to-point", None),
    "osu/osu_bw.7.2.ucx1.13.1-log.to1MiB.np2.txt": ("point-to-point", 1 << 20),
    "osu/osu_bcast.5.7.np2.txt": ("collective", None),
    "osu/osu_allreduce.7.2.np2.txt": ("collective", None),
    "osu-py/osu_latency.4.1.2.np2.txt": ("point-to-point", None),
    "netpipe/NPmpi.3.7.2.stderr.4MiB.txt": ("point-to-point", 4 << 20),
    **{
        str(path.relative_to(DATA)): (
            "collective" if "allreduce" in path.parent.name else "point-to-point",
            None,
        )
        for over in ("posix", "shm")
        for path in sorted(DATA.glob(f"replay/*-{over}/stdout"))
    },
}

BETTER = {"latency": 1, "bandwidth": -1, "messages_per_s": -1}


def rows_of(name):
    parsed = registry.parse((DATA / name).read_text(), last_size=HEALTHY[name][1])
    assert parsed.rows
    return parsed.rows


def slower(rows, factor, first, last):
    """The curve with `factor` times the time from `first` to `last` B."""
    return [
        {c: v * factor ** BETTER[c] if c in BETTER and first <= row["size"] <= last else v
         for c, v in row.items()}
        for row in rows
    ]  # fmt: skip


def judged(rows, pattern="point-to-point", launches=1, **more):
    return judge_ratios([curves.ratios(rows, pattern, **more)] * launches)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_recorded_curve_is_plausible(name):
    judgement = judged(rows_of(name), HEALTHY[name][0], LAUNCHES_FOR_95_PERCENT)
    assert judgement.verdict is Verdict.PASS, judgement.why


FAULTS = [
    ("osu/osu_latency.5.7.np2.txt", 5, 16384, 16384, "time of 16384 B / time by its neighbours"),
    ("osu/osu_bw.5.7.np2.txt", 5, 16384, 16384, "time of 16384 B / time by its neighbours"),
    ("osu/osu_bcast.5.7.np2.txt", 5, 16384, 16384, "time of 16384 B / time by its neighbours"),
    ("osu/osu_latency.5.7.np2.txt", 100, 1 << 17, 1 << 19, r"524288 B / (least )?time"),
    ("osu/osu_bw.5.7.np2.txt", 100, 1 << 17, 1 << 19, r"524288 B / (least )?time"),
    ("osu/osu_latency.5.7.np2.txt", 1000, 0, 4, "B / least time of a larger message"),
    ("osu/osu_bibw.7.4.np2.txt", 1000, 0, 4, "B / least time of a larger message"),
    ("osu/osu_mbw_mr.7.2.np2.txt", 1000, 0, 4, "B / least time of a larger message"),
    ("osu/osu_bw.5.7.np2.txt", 1e-8, 32768, 32768, "rate of 32768 B / fastest memory|larger"),
    ("osu/osu_bw.5.7.np2.txt", 1e-8, 1, 1 << 22, "rate of .* B / fastest memory"),
    ("osu/osu_latency.5.7.np2.txt", 1e-3, 1 << 22, 1 << 22, "B / least time of a larger"),
    ("osu/osu_latency.5.7.np2.txt", 200, 1 << 22, 1 << 22, "growth of the time from 2097152 to"),
    ("netpipe/NPmpi.3.7.2.stderr.4MiB.txt", 20, 16384, 16384, "time of 16384 B / time by its"),
    ("replay/osu-latency-posix/stdout", 5, 16384, 16384, "time of 16384 B / time by its"),
]


@pytest.mark.parametrize(("name", "factor", "first", "last", "said"), FAULTS)
def test_a_bent_curve_is_launched_again_and_then_fails(name, factor, first, last, said):
    rows = slower(rows_of(name), factor, first, last)
    for launches, verdict in (
        (1, Verdict.INCONCLUSIVE),
        (LAUNCHES_FOR_95_PERCENT - 1, Verdict.INCONCLUSIVE),
        (LAUNCHES_FOR_95_PERCENT, Verdict.FAIL),
    ):
        judgement = judged(rows, HEALTHY[name][0], launches)
        assert judgement.verdict is verdict
        assert re.search(said, judgement.why), judgement.why


def test_a_launch_that_no_other_can_follow_fails_for_gross_faults_only():
    rows = rows_of("osu/osu_latency.5.7.np2.txt")
    assert judged(slower(rows, 5, 16384, 16384), alone=True).verdict is Verdict.PASS
    for bent in (slower(rows, 100, 1 << 17, 1 << 19), slower(rows, 1000, 0, 4)):
        assert judged(bent, alone=True).verdict is Verdict.INCONCLUSIVE
    bandwidth = rows_of("osu/osu_bw.5.7.np2.txt")
    most = max(row["bandwidth"] for row in bandwidth)
    assert judged(bandwidth, peak=most / 1.1, alone=True).verdict is Verdict.INCONCLUSIVE


def test_the_first_size_may_take_the_time_to_open_connections():
    times = [0.65, 16.19, 3.45, 4.06, 3.62, 1.2, 3.45, 4.23, 3.53, 1.37, 3.73, 3.76]  # gather, tcp
    rows = [{"size": 1 << at >> 1, "latency": time} for at, time in enumerate(times)]
    assert judged(rows, "collective over a network", launches=9).verdict is Verdict.PASS
    judgement = judged(slower(rows, 5, 1, 1), "collective over a network", launches=9)
    assert judgement.verdict is Verdict.FAIL
    assert "time of 1 B / least time of a larger message is 23.5" in judgement.why
    assert judged(slower(rows, 5, 2, 2), "collective over a network", 9).verdict is Verdict.FAIL


def of_netpipe(repeats, factor=1.0):
    """NetPIPE over posix on a fast processor: 93 B take `factor` times as long as 96 B [us].

    An AMD EPYC took 0.17 us for 67 B, and for 93 B 1.8 to 3.1 us with 20 `repeats` and 0.26 us with
    200 (2026-11-24). The other times are made.
    """
    times = {2: 0.17, 8: 0.17, 32: 0.17, 67: 0.17, 93: 0.26 * factor, 96: 0.26, 99: 0.26}
    times.update({128: 0.27, 1024: 0.5, 8192: 2.0, 65536: 9.0, 1048576: 120.0})
    return [{"size": s, "latency": t, "repeats": repeats} for s, t in times.items()]


def test_the_first_use_of_receive_buffers_is_no_shape():
    assert judged(of_netpipe(20, 3.1 / 0.26), launches=9).verdict is Verdict.PASS
    for repeats, factor in ((100, 3.1 / 0.26), (20, 30)):
        judgement = judged(of_netpipe(repeats, factor), launches=9)
        assert judgement.verdict is Verdict.FAIL
        assert "implausible: time of 93 B / " in judgement.why


def test_noise_in_one_launch_of_three_passes():
    rows = rows_of("osu/osu_latency.5.7.np2.txt")
    noisy = [
        curves.ratios(slower(rows, 20, size, size), "point-to-point") for size in (64, 512, 8192)
    ]
    assert judge_ratios(noisy[:1]).verdict is Verdict.INCONCLUSIVE
    assert judge_ratios(noisy[:2]).verdict is Verdict.INCONCLUSIVE
    assert judge_ratios(noisy).verdict is Verdict.PASS
    assert judge_ratios([noisy[0], noisy[0], noisy[1]]).verdict is Verdict.INCONCLUSIVE


def test_one_clean_launch_of_nine_does_not_excuse_a_fault():
    rows = rows_of("osu/osu_latency.5.7.np2.txt")
    clean, bad = (
        curves.ratios(slower(rows, factor, 16384, 16384), "point-to-point") for factor in (1, 9)
    )
    assert judge_ratios([clean, *[bad] * 8]).verdict is Verdict.FAIL
    assert judge_ratios([clean, *[bad] * 5]).verdict is Verdict.INCONCLUSIVE


def test_no_size_may_exceed_the_peak_of_the_path():
    rows = rows_of("osu/osu_bw.5.7.np2.txt")
    most = max(row["bandwidth"] for row in rows)
    assert judged(rows, peak=most).verdict is Verdict.PASS
    judgement = judged(rows, launches=LAUNCHES_FOR_95_PERCENT, peak=most / 1.1)
    assert judgement.verdict is Verdict.FAIL
    assert "B / peak is 1.1 (1.1 to 1.1, n=6), at most 1.05" in judgement.why


def test_a_message_takes_longer_than_a_core_needs_to_copy_it():
    rows = rows_of("osu/osu_latency.5.7.np2.txt")
    for time in (1.0, 5.0, 400.0):
        flat = [{**row, "latency": time} for row in rows]
        judgement = judged(flat, launches=LAUNCHES_FOR_95_PERCENT)
        assert judgement.verdict is Verdict.FAIL
        assert "4194304 B / what 1e+06 MB/s carry in the time that they take" in judgement.why
        assert judged(flat, alone=True).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("last", [1 << 20, 1 << 22])
def test_one_long_message_goes_at_most_at_twice_the_rate_of_its_link(last):
    """A healthy message may have the bytes of an emulated link's bucket, 256 KiB, at once."""
    sizes = [1 << at for at in range(last.bit_length())]
    healthy = [{"size": s, "latency": 135 + max(s - (256 << 10), 0) / 125} for s in sizes]
    assert judged(healthy, peak=125.0).verdict is Verdict.PASS
    fast = [{"size": s, "latency": 135 + s / 500} for s in sizes]
    judgement = judged(fast, launches=LAUNCHES_FOR_95_PERCENT, peak=125.0)
    assert judgement.verdict is Verdict.FAIL
    assert f"rate of one message of {last} B / peak" in judgement.why


#: Recorded table of IOzone -> whether its cells have neighbours.
TABLES = {
    **dict.fromkeys(
        ["auto.txt", "3.414.auto.txt", "3.508.auto.txt", "osync.txt", "full.txt"], True
    ),
    **dict.fromkeys(["3.508.some_tests.txt", "fsync_close.txt", "direct_no_retest.txt"], False),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_cell_of_iozone_that_is_far_slower_than_its_neighbours(name):
    parsed = registry.parse((DATA / "iozone" / name).read_text())
    operations = [column for column in parsed.units if not column.endswith("_size")]
    judgement = judge_ratios([curves.cells(parsed.rows, operations)])
    assert judgement.verdict is Verdict.PASS, judgement.why
    rows = [dict(row) for row in parsed.rows]
    slow = rows[len(rows) // 2]
    slow[operations[0]] = 100
    judgement = judge_ratios([curves.cells(rows, operations)] * LAUNCHES_FOR_95_PERCENT)
    assert (judgement.verdict is Verdict.FAIL) == TABLES[name]
    said = f"{operations[0]} beside {slow['file_size']} KiB by {slow['record_size']} KiB / "
    assert (said in judgement.why) == TABLES[name]


def test_rows_without_sizes_are_no_curve():
    for rows in ((), [{"latency": 1.0}], [{"size": 1, "other": 2.0}]):
        assert curves.ratios(rows, "point-to-point") == {}
    assert judge_ratios([{}]).verdict is Verdict.PASS


def test_every_pattern_has_all_limits_and_a_source():
    names = {"larger", "first", "neighbours", "neighbours_below_256B", "growth", "fastest"}
    for limit in curves.limits().values():
        assert set(limit) == names
        assert all(value > 1 for value in limit.values())
