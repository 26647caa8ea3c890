"""What a stack has and has not, said aloud: a program that is missing is one skipped case here.

The tests of a missing program are not selected, and would vanish without a word.
"""

import shlex

import reframe as rfm
from reframe.core.builtins import parameter, run_before

from assay import detect, sites
from assay.checks.strict import StrictCheck
from assay.outputs import Parsed, ParseError

WORDS = sites.vocabulary(sites.repository(__file__) / "site-config" / "vocabulary.yaml")


@rfm.simple_test
class StackHas(StrictCheck):
    """The program is there, with every library that it is linked to."""

    program = parameter(list(WORDS["environment"]["features"]))
    kind = "node"
    time_limit = "1m"
    tags = {"smoke", "node"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["*"]

    @run_before("run")
    def command(self):
        stack = self.current_environ
        self.descr = WORDS["environment"]["features"][self.program]
        self.skip_if(
            self.program not in stack.features,
            f"this stack has no {self.program} (stack {stack.name!r}: {self.descr})",
        )
        if self.program == "osu-py":
            words = shlex.split(stack.extras["osu_py_command"])
            name = words[words[0] == detect.IN_IMAGE]
        elif self.program == "container":
            name = "sh"  # what starts it starts anything
        elif self.program == "btio":
            subtype = detect.BTIO_SUBTYPES[stack.extras["btio_subtypes"][0]]
            name = f"bt.{stack.extras['btio_classes'][0]}.x.{subtype}"
        elif self.program == "netpipe":
            name = stack.extras.get("netpipe_command", "NPmpi")
        elif self.program in detect.BUILDS:
            name = detect.BUILDS[self.program]
        else:
            name = detect.PROGRAMS[self.program][0]
        self.name_of_program = name
        # Of an image that is asked inside of it: what is on PATH there is a wrapper.
        sh = f"{detect.IN_IMAGE} sh" if "image" in stack.extras else "sh"
        find = shlex.quote(f"command -v {shlex.quote(name)}")
        self.prerun_cmds += [f"program=$({sh} -c {find})", 'echo "$program"']
        # A script or a static program has no libraries, and ldd says so with exit code 1.
        look = shlex.quote('ldd "$(readlink -f "$0")" || test -x "$0"')
        self.executable = f'{sh} -c {look} "$program"'

    def read(self):
        path, *libraries = self.stdout_text().splitlines() or [""]
        if not path:
            raise ParseError(f"{self.name_of_program} is not on PATH, though the stack names it")
        lost = [line.split("=>")[0].strip() for line in libraries if "not found" in line]
        rows = tuple({"library": line.split()[0]} for line in libraries if line.split())
        return Parsed(
            "assay", self.name_of_program, None, True, rows, {},
            tuple(f"linked to {name}, which is not found" for name in lost),
            {"path": path},
        )  # fmt: skip
