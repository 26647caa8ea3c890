"""mdtest by the rules of IO500: all ranks create files for a time, then stat, read, remove them.

Tests:     MdtestEasy, MdtestHard
Runs:      mdtest ...
Where:     +storage
Stacks:    +ior
Proves:    exit code 0 and a complete output; the file system, and how the file was open; one
           world of the ranks asked for
Judged by: references of create [op/s], stat [op/s], remove [op/s], read [op/s]
Takes:     at most 120 min for a launch; in the smoke profile: 2 of 2 cases

`easy` has a directory for each rank and empty files, `hard` one directory for all and files of
3901 bytes. A rank works on files that other ranks created: those of the next node where it asks for
their status, of the second next where it reads, of the third next where it removes.
"""

import reframe as rfm
from reframe.core.builtins import run_before, variable

from assay.opinions import io500
from assay.opinions.io500_check import Io500Check
from assay.opinions.parse import mdtest
from assay.run.options import COUNT

#: A file that is smaller than a block of a file system still takes one [B].
BLOCK = 4096

#: What an empty file takes, at most [B].
INODE = 1024


class MdtestBase(Io500Check):
    """Operations on files of all nodes that share a directory."""

    executable = "mdtest"
    pattern = ""

    #: Number of files that each rank creates in the full profile, if the time suffices.
    files = variable(COUNT, value=io500.FILES["full"])

    @property
    def number(self):
        """Number of files that each rank creates, if the time suffices."""
        return self.files if self.profile == "full" else io500.FILES[self.profile]

    def room(self):
        # An empty file takes an inode and an entry of its directory.
        each = BLOCK if io500.FILE_BYTES[self.pattern] else INODE
        return self._layout.ranks * self.number * each

    def largest_file(self):
        return io500.FILE_BYTES[self.pattern]

    @run_before("run")
    def command(self):
        self.executable_opts = io500.options_of_mdtest(self.pattern, self._seconds, self.number)

    def read(self):
        return mdtest.parse_mdtest(self.stdout_text())

    def requested(self):
        return {"program": "mdtest", "nodes": self._layout.nodes}

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        # mdtest prints its command line with each option in quotation marks.
        said = (parsed.facts["command_line"] or "").split()[1:]
        asked = [f"'{option}'" for option in self.executable_opts]
        if said != asked:
            problems.append(f"mdtest ran with {' '.join(said)}, not {' '.join(asked)}")
        wanted = io500.mdtest_operations(self.pattern)
        done = [row["operation"] for row in parsed.rows]
        if parsed.complete and done != wanted:
            problems.append(f"mdtest did {', '.join(done)}, not {', '.join(wanted)}")
        self.record.proof["rule"] = {
            "seconds": self._seconds, "limited": parsed.facts["limited"],
            "files": parsed.facts["files"],
        }  # fmt: skip
        return problems

    def unjudged(self, parsed):
        # A fast file system is no fault of it; IO500 would not count the run.
        if self.profile == "smoke" or parsed.facts["limited"]:
            return {}
        why = (
            f"the ranks created all {parsed.facts['files']} files before {self._seconds} s, the "
            "rule of IO500, had passed: set the option MdtestBase.files to more"
        )
        return dict.fromkeys(self.declares, why)

    def measure(self, parsed):
        return {name: parsed.quantity("rate", operation=name) for name in self.declares}


@rfm.simple_test
class MdtestEasy(MdtestBase):
    """Empty files, with a directory for each rank."""

    pattern = io500.EASY
    declares = dict.fromkeys(io500.mdtest_operations(io500.EASY), "op/s")


@rfm.simple_test
class MdtestHard(MdtestBase):
    """Files with data in one directory of all ranks; the data are compared."""

    pattern = io500.HARD
    declares = dict.fromkeys(io500.mdtest_operations(io500.HARD), "op/s")
