"""The notes of a job script about a launch, by the real shell, and the form of metrics."""

import math

import pytest
import shell

from assay.evidence import launch, samples
from assay.outputs import Quantity


def script(command):
    return "\n".join([launch.FIRST, launch.BEFORE, command, *launch.BEHIND, launch.LAST])


@pytest.mark.parametrize(
    ("command", "rc", "signal"),
    [("true", 0, None), ("(exit 3)", 3, None), ("sh -c 'kill -SEGV $$'", 139, 11)],
)
def test_the_exit_code_of_the_benchmark_is_kept_and_is_that_of_the_job(
    tmp_path, command, rc, signal
):
    done = shell.run("bash", "-c", script(f"mkdir d; cd d; {command}"), cwd=tmp_path)
    ended = launch.parse((tmp_path / launch.FILE).read_text())
    assert (done.returncode, ended.rc, ended.signal) == (rc, rc, signal)
    assert 0 <= ended.end - ended.begin < 60
    assert 0 <= ended.begin - ended.start < 60


@pytest.mark.parametrize(
    "text", ["", "rc=0 start=1.0 begin=1.0 end=", "rc=0 begin=1 end=2 host=a\n"]
)
def test_a_torn_file_is_no_launch(text):
    with pytest.raises(ValueError, match=r"assay\.launch is torn"):
        launch.parse(text)


def test_metrics_are_those_that_were_declared_in_their_units():
    measured = {"latency": Quantity(1.5, "us"), "ratio": (2.0, 3.0)}
    assert samples.of(measured, {"latency": "us", "ratio": "1"}) == (
        {"latency": [1.5], "ratio": [2.0, 3.0]},
        [],
    )


@pytest.mark.parametrize(
    ("measured", "problem"),
    [
        ({}, "metric 'latency' was not extracted"),
        ({"latency": Quantity(1.0, "ms")}, "metric 'latency' is in 'ms', not in 'us'"),
        ({"latency": math.nan}, "metric 'latency' is not finite: nan"),
        ({"latency": []}, "metric 'latency' is not finite: []"),
        ({"latency": None}, "metric 'latency' is not finite: None"),
        ({"latency": [1.0, math.inf]}, "metric 'latency' is not finite: [1.0, inf]"),
        ({"latency": 1.0, "rate": 1.0}, "metric 'rate' is not declared"),
    ],
)
def test_no_metric_goes_missing_or_by_another_unit(measured, problem):
    assert samples.of(measured, {"latency": "us"})[1] == [problem]
