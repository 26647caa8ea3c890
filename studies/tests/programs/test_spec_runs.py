"""SpecMpi and SpecHpc with a made runspec that leaves a made report: nobody here has a licence.

What is tested is ours: the command line, how the report is found, and which reports are refused.
"""

from __future__ import annotations

import pytest
from bench import ROOT, processor

pytestmark = pytest.mark.slow

PATH = "studies/doc002/spec.py"

MADE = {
    name: (ROOT / f"studies/tests/data/spec/made.{name}.txt").read_text()
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


def stack(node, name, **variables):
    node.stack(name, [])
    node.environments[-1]["env_vars"] = [[*item] for item in variables.items()]


def test_a_report_is_believed_only_if_it_is_of_this_run(node):
    for name, (reports, _) in RUNS.items():
        copy = licensed(node, name, reports)
        stack(node, name, SPEC_MPI_COPY=str(copy), SPEC_MPI_CONFIG="site.cfg")
    run = node.run("-n", "SpecMpi", path=PATH)
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
    stack(node, "licensed", SPEC_HPC_COPY=str(copy), SPEC_HPC_CONFIG="site.cfg")
    node.run("-n", "SpecHpc", path=PATH).says("SpecHpc", "")
    assert (copy / "arguments").read_text().endswith("/spec --size=ref tiny\n")


def test_a_stack_without_a_copy_says_why_it_is_skipped(node):
    stack(node, "bare")
    run = node.run("-n", "SpecMpi", path=PATH)
    assert run.case("SpecMpi").result == "skip"
    assert "the stack bare names no copy of SPEC MPI2007 (env_vars: SPEC_MPI_COPY)" in run.output


def test_a_copy_that_is_described_wrongly_is_one_line(node):
    stack(node, "licensed", SPEC_MPI_COPY="/opt/mpi2007")
    stack(node, "relative", SPEC_MPI_COPY="mpi2007", SPEC_MPI_CONFIG="site.cfg")
    run = node.run("-n", "SpecMpi", path=PATH)
    said = "env_vars: SpecMpi needs the whole path of the copy in SPEC_MPI_COPY, and its config"
    for name in ("licensed", "relative"):
        assert f"stack {name!r}: {said}" in run.output
