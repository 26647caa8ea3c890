"""A run of ReFrame that hangs until it is ended."""

import contextlib
import os
import signal
import subprocess
import time

from bench import OWN, REFRAME, ROOT

#: Case 1 fails, case 2 is skipped, and case 4 hangs. The cases run one after the other.
STEPS = """\
@rfm.simple_test
class Step(Own):
    number = parameter(range(8))
    executable = "step"

    @run_after("setup")
    def say_which(self):
        self.skip_if(self.number == 2, "this machine has no second step")
        self.executable_opts = [str(self.number)]
"""


class Hanging:
    """A run of ReFrame in which case 4 hangs until it is ended."""

    #: What case 4 does after it has written its process id into the file `pids`.
    hang = "exec sleep infinity"
    name = "Step"

    def __init__(self, bench, *more, **partition):
        self.bench = bench
        self.more = more
        self.pids = bench.folder / "pids"
        script = (
            "#!/bin/sh\n"
            '[ "$1" != 1 ] || exit 3\n'
            f'[ "$1" != 4 ] || {{ echo $$ > {self.pids}.new; mv {self.pids}.new {self.pids};'
            f" {self.hang}; }}\n"
        )
        bench.partition(launcher="replay", **partition)
        bench.stack("steps", ["mpi"], bench.program("steps", "step", script))
        self.checks = bench.check("steps", OWN + STEPS.replace("Step", self.name))
        self.config = bench.write()
        self.arguments = ("-C", str(self.config), "-c", str(self.checks))
        self.environment = {
            **os.environ,
            "HOME": str(bench.folder),
            "ASSAY_RESULTS": str(bench.results),
            "RFM_COLORIZE": "no",
        }
        self.log = (bench.folder / "said").open("w+")

    def words(self):
        """The command."""
        return [str(REFRAME), *self.arguments, *self.more, "-r", "-v"]

    def __enter__(self):
        # A background job of a shell ignores SIGINT. The child would inherit this from the tests.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            self.words(),
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        signal.signal(signal.SIGINT, before)
        while not self.hangs():
            assert self.process.poll() is None, self.said()
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(self.pids.read_text()), signal.SIGKILL)
        self.log.close()

    def hangs(self):
        """Whether the moment has come that a test waits for."""
        return self.pids.exists() and self.kept() == 2

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def kept(self):
        """Number of cases that ReFrame has finished. It has moved the files of these cases."""
        moved = self.bench.results.glob("output/*/bench/*/*/*/assay.json")
        stages = {path.name for path in self.bench.results.glob("stage/*/bench/*/*/*")}
        return sum(path.parent.name not in stages for path in moved)

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait()
