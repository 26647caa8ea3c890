"""SpecMpi and SpecHpc with a made runspec that leaves a made report: nobody here has a licence.

What is tested is ours: the command line, how the report is found, and which reports are refused.
"""

from __future__ import annotations

import pytest
from bench import DATA, processor

pytestmark = pytest.mark.slow

MADE = {
    name: (DATA / f"spec/made.{name}.txt").read_text()
    for name in ("mpi2007.medium", "mpi2007.invalid", "hpc2021.tiny")
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

#: Stack -> reports, the cause.
RUNS = {
    "healthy": ([HEALTHY], ""),
    "invalid": ([shorter(MADE["mpi2007.invalid"])], "Run not reportable"),
    "fewer-ranks": ([HEALTHY.replace(",64,", ",32,")], "32 ranks were run, 64 were asked for"),
    "another-suite": ([shorter(MADE["hpc2021.tiny"])], "the program was SPEChpc2021, MPI2007 was"),
    "two-reports": ([HEALTHY, HEALTHY], "2 reports in spec/result, one was expected"),
    "no-report": ([], "ended with exit code 5"),
    "cut": ([HEALTHY[: HEALTHY.index("Tested with")]], "'Tested with SPEC ...', is not there"),
}


@pytest.fixture
def node(bench):
    bench.partition(processor=processor(64), features=["intra-node"])
    return bench


def test_a_report_is_believed_only_if_it_is_of_this_run(node):
    for name, (reports, _) in RUNS.items():
        copy = licensed(node, name, reports)
        extras = {"spec_mpi_command": str(copy / "bin/runspec"), "spec_mpi_config": "site.cfg"}
        node.stack(name, ["spec-mpi"], **extras)
    run = node.run("-n", "SpecMpi", path="reframe/compute/spec.py")
    for name, (_, cause) in RUNS.items():
        run.says("SpecMpi", cause, environ=name)
    record = run.case("SpecMpi", environ="healthy").record
    assert record["parameters"]["suite"] == "medium"
    assert record["metrics"]["base"]["value"] == 12.0
    said = (node.folder / "copies/healthy/arguments").read_text()
    assert said.startswith("--config=site.cfg --ranks=64 --iterations=3 --reportable --tune=base ")
    assert said.endswith("/spec --size=mref medium\n")


def test_the_suite_of_2021(node):
    copy = licensed(node, "hpc", [shorter(MADE["hpc2021.tiny"])], "runhpc")
    extras = {"spec_hpc_command": str(copy / "bin/runhpc"), "spec_hpc_config": "site.cfg"}
    node.stack("licensed", ["spec-hpc"], **extras)
    node.run("-n", "SpecHpc", path="reframe/compute/spec.py").says("SpecHpc", "")
    assert (copy / "arguments").read_text().endswith("/spec --size=ref tiny\n")


def test_a_stack_without_a_copy_has_no_case_and_says_why(node):
    node.stack("bare", ["mpi"])
    run = node.run("-n", "StackHas%program=spec-mpi$", path="reframe/node/stack.py")
    assert run.case("StackHas").result == "skip"
    assert "this stack has no spec-mpi (stack 'bare': SPEC MPI2007, the site's" in run.output
    assert not node.run("-n", "SpecMpi", path="reframe/compute/spec.py").cases


def test_a_copy_that_is_described_wrongly_is_one_line(node):
    node.stack("licensed", ["spec-mpi"], spec_mpi_command="/opt/mpi2007/bin/runspec")
    node.stack("relative", ["spec-mpi"], spec_mpi_command="runspec", spec_mpi_config="site.cfg")
    run = node.run("-n", "SpecMpi", path="reframe/compute/spec.py")
    assert "stack 'licensed': extras: SpecMpi needs 'spec_mpi_config'" in run.output
    assert "stack 'relative': extras: spec_mpi_command is 'runspec': give the whole" in run.output
