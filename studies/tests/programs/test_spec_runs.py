"""SpecMpi and SpecHpc with a made runspec that leaves a made report: nobody here has a licence.

What is tested is ours: the command line, how the report is found, and which reports are refused.
"""

from __future__ import annotations

import pytest
from bench import ROOT, processor

pytestmark = pytest.mark.slow

MADE = {
    name: (ROOT / f"studies/tests/data/spec/made.{name}.txt").read_text()
    for name in ("mpi2007.medium", "hpc2021.tiny")
}

#: A made tool: it writes its report where the real one would, and its arguments beside it.
TOOL = """#!/bin/sh
[ "$SPEC" = "{copy}" ] || exit 3
for word; do case $word in --output_root=*) to=${{word#*=}}/result ;; esac; done
mkdir -p "$to" && echo "$@" >{copy}/arguments || exit 4
for report in {copy}/reports/*.csv; do cp "$report" "$to" || exit 5; done
"""


def licensed(bench, name, reports, command="runspec"):
    """A made copy of the suite in a folder of its own; returns the path of its tool."""
    copy = bench.folder / "copies" / name
    for folder in ("bin", "reports"):
        (copy / folder).mkdir(parents=True)
    (copy / "shrc").write_text("SPEC=$PWD; export SPEC\n")
    for number, text in enumerate(reports, 1):
        # A replay is over before a program could have run for so long.
        (copy / f"reports/MPIM2007.{number:03}.csv").write_text(text)
    (copy / "bin" / command).write_text(TOOL.format(copy=copy))
    (copy / "bin" / command).chmod(0o755)
    return copy


def shorter(text):
    """A report whose times are a thousandth (made): the made tool does not run for an hour."""
    lines = []
    for line in text.split("\n"):
        cells = line.split(",")
        if cells[0][:3].isdigit():
            cells[2] = f"{float(cells[2]) / 1e6:.10f}"
        lines.append(",".join(cells))
    return "\n".join(lines)


HEALTHY = shorter(MADE["mpi2007.medium"])

#: Reports, the cause. test_spec_report.py has reports that are wrong in themselves.
RUNS = [
    ([HEALTHY], ""),
    ([HEALTHY.replace(",64,", ",32,")], "32 ranks were run, 64 were asked for"),
    ([HEALTHY, HEALTHY], "2 reports in spec/result, one was expected"),
    ([], "ended with exit code 5"),
]


@pytest.fixture
def node(bench):
    bench.partition(processor=processor(64), features=["intra-node"])
    bench.stack("any", [])
    return bench


def run(node, test, copy, config="site.cfg"):
    words = ("-n", test, "-S", f"{test}.copy={copy}", "-S", f"{test}.config={config}")
    return node.run(*words, path="studies/doc002/spec.py")


@pytest.mark.parametrize(("reports", "cause"), RUNS, ids=["healthy", "ranks", "two", "none"])
def test_a_report_is_believed_only_if_it_is_of_this_run(node, reports, cause):
    copy = licensed(node, "copy", reports)
    record = run(node, "SpecMpi", copy).says("SpecMpi", cause).record
    if not cause:
        assert record["parameters"]["suite"] == "medium"
        assert record["metrics"]["base"]["value"] == 12.0
    if reports:
        said = (copy / "arguments").read_text()
        assert said.startswith("--config=site.cfg --ranks=64 --iterations=3 --reportable --tune=ba")
        assert said.endswith("/spec --size=mref medium\n")


def test_the_suite_of_2021(node):
    copy = licensed(node, "hpc", [shorter(MADE["hpc2021.tiny"])], "runhpc")
    run(node, "SpecHpc", copy).says("SpecHpc", "")
    assert (copy / "arguments").read_text().endswith("/spec --size=ref tiny\n")


def test_without_a_copy_there_is_no_case_and_half_of_a_path_is_none(node):
    assert not node.run("-n", "SpecMpi", path="studies/doc002/spec.py").cases
    said = "-S SpecMpi.copy=mpi2007: give the whole path of the copy, and the config file"
    assert said in run(node, "SpecMpi", "mpi2007").output
