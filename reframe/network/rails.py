"""Several network devices of a node side by side.

Tests:     OsuRails
Cases:     transport tcp, rc_mlx5, rc_verbs, ud_verbs, dc_mlx5; rails 1, 2, 3, 4
Runs:      osu_bw ...
Where:     +inter-node +rails +<transport>
Stacks:    +osu
Proves:    exit code 0 and a complete output; the transport that carried the bytes, by the log of
           UCX; one world of the ranks asked for; a pass clears rate
Judged by: references of bandwidth_8B [MB/s], bandwidth_8KiB [MB/s], bandwidth_64KiB [MB/s],
           bandwidth_1MiB [MB/s]; the shape of the curve; the peak of each
Takes:     at most 10 min for a launch; in the smoke profile: 20 of 20 cases
"""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.declared import OF_NETWORK
from assay.prove import links, transports
from assay.run.osu import OsuBase
from assay.run.site import link_peaks
from assay.run.ucx import said
from assay.workloads.osu import osu_metrics

#: Numbers of network devices of a node that are used side by side.
RAILS = (1, 2, 3, 4)


@rfm.simple_test
class OsuRails(OsuBase):
    """Bandwidth over several network devices of a node that work side by side, as one to four.

    UCX splits long messages over the lanes that UCX_MAX_RNDV_RAILS allows. Each device that is
    asked for must carry its share on both nodes, and the other devices of the link must carry
    nothing.
    """

    benchmark = "bw"
    transport = parameter([n for n in transports.TESTED if transports.TRANSPORTS[n].network])
    rails = parameter(RAILS)
    partitions = ("+inter-node +rails",)
    valid_prog_environs = ["+osu"]
    executable = "osu_bw"
    declares = osu_metrics("bw")
    proves = {"rate": OF_NETWORK["rate"]}

    @run_after("init")
    def several(self):
        self.descr = f"OSU bw over {self.transport} on {self.rails} rails"

    @run_after("setup")
    def devices_of_the_link(self):
        devices = self.partition_extra("network_device").split(",")
        where = self.current_partition.fullname
        self.leave_out(
            "too-small",
            self.rails > len(devices),
            f"{self.rails} rails are needed, {where} has {len(devices)} (extra `network_device`)",
        )
        self.devices = devices[: self.rails]

    @run_before("run")
    def command(self):
        self.executable_opts = self.options()

    def path_variables(self):
        chosen = super().path_variables(",".join(self.devices))
        return {**chosen, "UCX_MAX_RNDV_RAILS": str(self.rails)}

    def examine(self, parsed):
        return [
            *super().examine(parsed),
            *(links.misrouted(self._crossing, self.devices) if self._crossing else ()),
            *transports.rails(said(Path()), self.devices),
        ]

    def peaks(self, parsed):
        return link_peaks(self, self.declares, self.rails)
