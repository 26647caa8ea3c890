"""SPEC MPI2007 and SPEChpc 2021, if the site has a licensed copy. Never run: nobody here has one.

SPEC's own tool builds the programs, starts their ranks by the `submit` of the site's config file,
checks their results, and writes a report. The test starts the tool with one number of ranks, and
reads the report. What the ranks did is not proven beyond it.
"""

import shlex
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ConfigError

from assay.parse import ParseError
from assay.run import StrictCheck

from . import spec_report
from .counts import place_of, places

#: Iterations of each benchmark. Of three, the median counts.
ITERATIONS = 3

#: The folder of all that a run writes, in the stage directory.
OUTPUT = "spec"


class SpecBase(StrictCheck):
    """One suite on all nodes that a partition offers, with a rank on each core, base only."""

    #: Folder of the licensed copy, without which there is no case; config file for its tool.
    copy = variable(str, value="")
    config = variable(str, value="")

    #: The tool of the copy.
    tool = ""
    #: What the report calls the suite.
    program = ""
    #: Options of the tool besides those of every run.
    more = ()

    #: The benchmarks to run, in the words of the tool.
    suite = variable(str, value="")

    kind = "compute"
    time_limit = "12h"
    tags = {"compute"}
    valid_systems = ["+intra-node", "+inter-node -across"]
    valid_prog_environs = ["*"]
    declares = {"base": "1"}

    @run_after("init")
    def describe(self):
        self.descr = f"SPEC {self.program}, {self.suite}"
        if not self.copy:
            self.valid_systems = []

    def identity(self):
        return {**super().identity(), "suite": self.suite}

    @run_after("setup")
    def all_cores(self):
        cores, features, extras = place_of(self.current_partition)
        nodes = extras.get("nodes", 2) if "inter-node" in features else 1
        self.num_tasks_per_node = places(cores, features, extras)
        self.num_tasks = nodes * self.num_tasks_per_node
        self.leave_out(
            "not-here", not cores, "the site does not state the number of cores (processor)"
        )

    @run_before("run")
    def command(self):
        folder, name = Path(self.copy), type(self).__name__
        if not (folder.is_absolute() and self.config):
            raise ConfigError(
                f"-S {name}.copy={folder}: give the whole path of the copy, and the config file "
                f"for its tool (-S {name}.config=site.cfg)"
            )
        copy = shlex.quote(str(folder))
        # shrc sets SPEC and PATH, and must be read in the directory of the copy.
        self.prerun_cmds += [
            'spec_output="$PWD/' + OUTPUT + '"',
            'rm -rf "$spec_output"',
            f"cd {copy} && . ./shrc && cd - >/dev/null || exit 1",
        ]
        self.executable = shlex.quote(str(folder / "bin" / self.tool))
        self.executable_opts = [
            f"--config={shlex.quote(self.config)}",
            f"--ranks={self.num_tasks}", f"--iterations={ITERATIONS}", "--reportable",
            "--tune=base", "--output_format=csv", '--output_root="$spec_output"', *self.more,
            self.suite,
        ]  # fmt: skip

    def read(self):
        reports = sorted(Path(OUTPUT, "result").glob("*.csv"))
        if len(reports) != 1:
            raise ParseError(f"{len(reports)} reports in {OUTPUT}/result, one was expected")
        return spec_report.parse(reports[0].read_text(encoding="utf-8", errors="replace"))

    def requested(self):
        return {"program": self.program, "ranks": self.num_tasks, "iterations": ITERATIONS}

    def measure(self, parsed):
        return {"base": float(parsed.facts["base"])}


@rfm.simple_test
class SpecMpi(SpecBase):
    """SPEC MPI2007: `medium`, or `large` by `-S SpecMpi.suite=large`."""

    tool = "runspec"
    program = "MPI2007"
    suite = "medium"
    tags = {"compute"}

    @run_after("init")
    def data(self):
        self.more = ("--size=lref" if self.suite == "large" else "--size=mref",)


@rfm.simple_test
class SpecHpc(SpecBase):
    """SPEChpc 2021: `tiny`, or a larger suite by `-S SpecHpc.suite=small`."""

    tool = "runhpc"
    program = "SPEChpc2021"
    suite = "tiny"
    more = ("--size=ref",)
    tags = {"compute"}
