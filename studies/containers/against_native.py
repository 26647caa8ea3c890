"""Native against container: the same program from two stacks in turn, over the same transport.

Both stacks must be on the partition. The native stack is the first one that is not a container and
has the program.
"""

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before
from reframe.core.runtime import emit_loadenv_commands

from assay.node import IN_IMAGE

from ..paired import MIB, of_netpipe, of_osu, settings
from ..paired_check import PairedCheck

NATIVE, CONTAINER = "native", "container"

#: Takes the wrappers of the container off PATH.
WITHOUT_WRAPPERS = [
    f"wrappers=$(dirname $(command -v {IN_IMAGE}))",
    'PATH=${PATH//"$wrappers:"/}',
]

#: Name -> program, column and message size [B] of what is compared.
PROBES = {
    "osu-latency": (of_osu("latency", 8, 8, 10000), "latency", 8),
    "osu-bandwidth": (of_osu("bw", MIB, MIB, 100), "bandwidth", MIB),
    # NetPIPE needs at least two sizes. The first one is its warm-up.
    "netpipe-latency": (of_netpipe(4, 8, 5000), "latency", 8),
    "netpipe-bandwidth": (of_netpipe(MIB // 2, MIB, 100), "bandwidth", MIB),
}


@rfm.simple_test
class NativeAgainstContainer(PairedCheck):
    """The ratio container / native, and whether it is 1 within the margin."""

    probe = parameter(list(PROBES))

    tags = {"network", "equivalence"}
    declares = {"ratio": "1"}
    ways = proven = (NATIVE, CONTAINER)

    @run_after("init")
    def select(self):
        self.program, *place = PROBES[self.probe]
        self.compared = {"ratio": place}
        self.valid_prog_environs = [f"+container +{self.program.feature}"]
        self.descr = f"native against container: {self.probe} over {self.transport}"

    @run_after("setup")
    def only_what_it_carries(self):
        self.leave_out(
            "no-case",
            self.transport == "cma" and self.compared["ratio"][1] < MIB,
            "UCX sends small messages over posix even if cma is requested: cma cannot be compared",
        )

    def stack_of(self, way):
        return self._stacks[way]

    @run_before("run")
    def command(self):
        container, partition = self.current_environ, self.current_partition
        native = [
            environ
            for environ in partition.environs
            if "image" not in environ.extras and self.program.feature in environ.features
        ]
        self.leave_out(
            "not-here",
            not native,
            f"{partition.fullname} has no stack with {self.program.feature} beside the container",
        )
        self._stacks = {NATIVE: native[0], CONTAINER: container}
        ours, theirs = self.path_variables(), self.path_variables(stack=native[0])
        launch = self.launch_command()
        bodies = {
            w: [f"{launch} {self.program.command(s.extras)}"] for w, s in self._stacks.items()
        }
        # The native stack must not see the variables that the container's stack sets either.
        unset = {*ours, *container.env_vars} - {"PATH", *native[0].env_vars}
        bodies[NATIVE][:0] = [
            *WITHOUT_WRAPPERS,
            *emit_loadenv_commands(native[0]),
            *settings({**dict.fromkeys(sorted(unset), ""), **theirs}),
        ]
        self.take_turns(bodies)
