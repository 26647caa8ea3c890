"""The notes of a job script about a launch, by the real shell, and the form of metrics."""

import math
import os
from datetime import datetime

import pytest
import shell
from reframe.core.exceptions import ReframeSyntaxError

from assay.parse import Quantity, formulas
from assay.prove import launch
from assay.run import outputs


def script(command):
    return "\n".join([launch.FIRST, launch.BEFORE, command, *launch.BEHIND, launch.LAST])


def launched(text):
    """A launch of 100 s in the summer time of Rome, with these words changed."""
    words = {"start": "1000000000.0", "begin": "1000000001.0", "end": "1000000100.0"}
    words |= {"up": "50.00..50.01", "down": "150.00..150.02", "zone": "+0200", "nonce": "abc"}
    words |= dict(word.split("=") for word in text.split())
    return launch.parse_launch(
        "rc=0 start={start} begin={begin} end={end} zone={zone} host=node1 "
        "up={up} down={down} nonce={nonce}\n".format(**words)
    )


@pytest.mark.parametrize(
    ("command", "rc", "signal"),
    [
        ("true", 0, None),
        ("(exit 3)", 3, None),
        ("(exit 255)", 255, None),
        ("sh -c 'kill -SEGV $$'", 139, 11),
    ],
)
def test_the_exit_code_of_the_benchmark_is_kept_and_is_that_of_the_job(
    tmp_path, command, rc, signal
):
    (tmp_path / launch.NONCE_FILE).write_text("0123\n")
    done = shell.run("bash", "-c", script(f"mkdir d; cd d; {command}"), cwd=tmp_path)
    ended = launch.parse_launch((tmp_path / launch.FILE).read_text())
    assert (done.returncode, ended.rc, ended.signal) == (rc, rc, signal)
    assert 0 <= ended.end - ended.begin < 60
    assert 0 <= ended.begin - ended.start < 60
    assert ended.down[0] - ended.up[1] - 0.02 <= ended.end - ended.start <= ended.longest + 0.02
    assert (ended.nonce, ended.host) == ("0123", os.uname().nodename)
    assert ended.zone == datetime.now().astimezone().utcoffset().total_seconds()


@pytest.mark.parametrize(
    "text", ["", "rc=0 start=1.0 begin=1.0 end=", "rc=0 begin=1 end=2 host=a\n"]
)
def test_a_torn_file_is_no_launch(text):
    with pytest.raises(ValueError, match=r"assay\.launch is torn"):
        launch.parse_launch(text)


DAY = 1000000000  # 2001-09-09 01:46:40 UTC


def test_a_launch_whose_clocks_agree_is_not_doubted():
    assert launch.wrong_clock(launched(""), DAY - 10, DAY + 110) == []
    # The script waited for a processor before it could read the second clock.
    assert launch.wrong_clock(launched("up=40.00..50.01"), DAY - 10, DAY + 110) == []
    assert launched("").zone == 7200


@pytest.mark.parametrize(
    ("changed", "submitted", "problem"),
    [
        ("end=1000000010.0", DAY, "took 10.0 s, by the time since the boot 100.0 s"),  # at 1/10
        ("begin=22000000.0 end=22000100.0", DAY, "the clock of node1 jumped"),  # 31 years back
        ("end=999999999.0", DAY, "jumped or runs wrong"),
        ("", DAY + 1000, "it was submitted at 2001-09-09 02:03:20 UTC"),  # before its submission
        ("", DAY - 26784000, ""),  # it waited for ten months
    ],
)
def test_a_clock_that_jumps_or_runs_at_another_speed(changed, submitted, problem):
    found = launch.wrong_clock(launched(changed), submitted, max(submitted, DAY) + 110)
    assert problem in "".join(found)
    assert len(found) == bool(problem)


def test_an_output_that_ended_in_the_future_of_reframe():
    assert "had ended at" in launch.wrong_clock(launched(""), DAY - 5000, DAY - 4000)[0]


@pytest.mark.parametrize(
    ("claimed", "text", "problem"),
    [
        (99.0, "HPL_pdgesv() start time Sun Sep  9 03:46:45 2001", ""),
        (0.0, "Run began: Sun Sep  9 03:46:45 2001\nSun Sep  9 03:48:20 2001", ""),
        (0.0, "built on: Fri Apr  3 12:29:32 1998 UTC", ""),  # of the program, not of the launch
        (180.0, "", "the output accounts for 180.0 s, the launch took 100.0 s"),
        (
            0.0,
            "\tRun began: Sun Sep  9 01:46:45 2001",  # two hours before: UTC, or an older run
            "the output is dated 2001-09-08 23:46:45 UTC, the launch ran from 2001-09-09 01:46:40",
        ),
        (0.0, "# Date : Thu Nov  9 03:46:45 2000", "is it the output of another launch?"),
        (0.0, "Sun Sep 99 03:46:45 2001", ""),
    ],
)
def test_an_output_of_another_time(claimed, text, problem):
    found = launch.out_of_time(launched(""), claimed, text)
    assert problem in "".join(found)
    assert len(found) == bool(problem)


def test_the_time_zone_of_a_container_may_be_another():
    text = "Run began: Sun Sep  9 01:46:45 2001"
    assert launch.out_of_time(launched(""), 0, text, slack=15 * 3600) == []


def test_files_that_are_older_than_the_launch(tmp_path):
    for name in (launch.NONCE_FILE, "ucx.a.1.log", "ucx.a.2.log", "hpccoutf.txt", "empty"):
        (tmp_path / name).write_text("" if name == "empty" else "x")
    assert launch.stale(tmp_path, ["ucx.*.log", "hpccoutf.txt"]) == []
    for name in ("ucx.a.2.log", "empty"):
        os.utime(tmp_path / name, (DAY, DAY))
    assert launch.stale(tmp_path, ["ucx.*.log", "hpccoutf.txt", "empty"]) == [
        "ucx.a.2.log is older than the launch: it was written at 2001-09-09 01:46:40 UTC"
    ]
    (tmp_path / launch.NONCE_FILE).unlink()
    assert "assay.nonce is missing" in launch.stale(tmp_path, [])[0]


def test_hosts_are_compared_by_name():
    assert launch.elsewhere(["node1", "node2"], ["node1.cluster", "node2.cluster"], "node1") == []
    assert launch.elsewhere(["10.0.0.1"], ["10.0.0.1"], "10.0.0.1") == []
    assert launch.elsewhere(["node1", "node9"], ["node1", "node2"], "node1.cluster") == [
        "the program ran on node9; the job has node1, node2"
    ]
    # The scheduler named no host; it has other names for its nodes than they have themselves.
    assert launch.elsewhere(["node9"], [], "node1") == [
        "the program ran on node9; the job has node1"
    ]
    assert launch.elsewhere(["ip-9"], ["n1", "n2"], "ip-1") == []


def test_metrics_are_those_that_were_declared_in_their_units():
    measured = {"latency": Quantity(1.5, "us"), "ratio": (2.0, 3.0)}
    assert outputs.in_declared_units(measured, {"latency": "us", "ratio": "1"}) == (
        {"latency": [1.5], "ratio": [2.0, 3.0]},
        [],
    )


def test_the_values_of_metrics_are_plain_numbers():
    cell = formulas.Number(1.5, ["cell", 0, "latency"])
    values, _ = outputs.in_declared_units({"latency": Quantity(cell, "us")}, {"latency": "us"})
    assert type(values["latency"][0]) is float


@pytest.mark.parametrize(
    ("measured", "problem"),
    [
        ({}, "metric 'latency' was not extracted"),
        ({"latency": math.nan}, "metric 'latency' is not finite: nan"),
        ({"latency": []}, "metric 'latency' is not finite: []"),
        ({"latency": None}, "metric 'latency' is not finite: None"),
        ({"latency": [1.0, math.inf]}, "metric 'latency' is not finite: [1.0, inf]"),
    ],
)
def test_no_metric_goes_missing(measured, problem):
    assert outputs.in_declared_units(measured, {"latency": "us"})[1] == [problem]


@pytest.mark.parametrize(
    ("measured", "error"),
    [
        ({"latency": Quantity(1.0, "ms")}, "metric 'latency' is in 'ms', not in 'us'"),
        ({"latency": 1.0, "rate": 1.0}, "metric 'rate' is not declared"),
    ],
)
def test_a_metric_that_is_not_the_declared_one_is_an_error_of_the_test(measured, error):
    with pytest.raises(ReframeSyntaxError, match=error):
        outputs.in_declared_units(measured, {"latency": "us"})
