"""The programs that a stack has and lacks: each missing program is one skipped case here.

Tests:     StackHas
Cases:     program mpi, mpicc, ucx, osu, osu-cuda, osu-rocm, osu-py, netpipe, ucx-perftest,
           ucx-stats, and 20 more
Runs:      a shell
Where:     +intra-node
Stacks:    any
Proves:    exit code 0 and a complete output
Judged by: its evidence alone
Takes:     under 1 s a case (smoke, 2 cores); under 1 s a case (full, 2 cores); at most 1 min for
           a launch; in the smoke profile: 30 of 30 cases

ReFrame does not select the tests of a missing program. Without this check they would vanish
silently.
"""

import shlex

import reframe as rfm
from reframe.core.builtins import parameter, run_before
from reframe.core.exceptions import ConfigError

from assay import catalogue
from assay.node import IN_IMAGE
from assay.parse import Parsed, ParseError
from assay.run import StrictCheck


@rfm.simple_test
class StackHas(StrictCheck):
    """The program is there, and so is every library that it is linked to."""

    program = parameter(list(catalogue.WORDS))
    kind = "node"
    time_limit = "1m"
    tags = {"smoke", "node"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["*"]

    @run_before("run")
    def command(self):
        stack = self.current_environ
        self.descr = catalogue.WORDS[self.program]
        older = stack.extras.get("too_old", {}).get(self.program)
        why = older or f"stack {stack.name!r}: {self.descr}"
        self.leave_out(
            "lacks",
            self.program not in stack.features,
            f"this stack has no {self.program} ({why})",
        )
        try:
            name = catalogue.executable(self.program, stack.extras)
        except ConfigError as error:
            self.leave_out("undescribed", True, str(error))
        # For an image, look inside of it: the programs on PATH outside are wrappers, if there are
        # any. The command of NVIDIA's HPL starts the container itself.
        sh = f"{IN_IMAGE} sh" if "image" in stack.extras else "sh"
        *start, last = shlex.split(stack.extras.get("hpl_gpu_command", name))
        if start and "image" in stack.extras:
            name = last if self.program == "hpl-gpu" else name
            sh = shlex.join([*start, "sh"])
        self.name_of_program = name
        find = shlex.quote(f"command -v {shlex.quote(name)}")
        self.prerun_cmds += [f"program=$({sh} -c {find})", 'echo "$program"']
        # A script or a static program has no libraries, and ldd says so with exit code 1.
        look = shlex.quote('test -z "$0" || ldd "$(readlink -f "$0")" || test -x "$0"')
        self.executable = f'{sh} -c {look} "$program"'

    def read(self):
        path, *libraries = self.stdout_text().splitlines() or [""]
        if not path:
            extra = catalogue.PROGRAMS[self.program].command_extra
            mend = f"; the extra {extra} may name another" if extra else ""
            name = self.name_of_program
            raise ParseError(f"{name} is not on PATH, though the stack names it{mend}")
        lost = [line.split("=>")[0].strip() for line in libraries if "not found" in line]
        rows = tuple({"library": line.split()[0]} for line in libraries if line.split())
        return Parsed(
            "assay", self.name_of_program, None, True, rows, {},
            tuple(f"linked to {name}, which is not found" for name in lost),
            {"path": path},
        )  # fmt: skip
