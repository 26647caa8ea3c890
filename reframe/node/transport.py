"""The transports that a partition has and lacks: each missing transport is one skipped case here.

Tests:     TransportOpens
Cases:     transport posix, sysv, cma, tcp, rc_mlx5, rc_verbs, ud_verbs, dc_mlx5
Runs:      ucx_info -d
Where:     +intra-node, or +intra-node +<transport>, or +inter-node +<transport>
Stacks:    any
Proves:    exit code 0 and a complete output
Judged by: its evidence alone
Takes:     under 1 s a case (full, 2 cores); at most 1 min for a launch; in the smoke profile: 8
           of 8 cases

ReFrame does not select tests over a transport that a partition lacks. Without this check they
would vanish silently. UCX must be able to open each transport in the partition's features.
"""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from assay.parse import Parsed
from assay.prove import transports
from assay.prove.transports import DECLARED, TESTED
from assay.run import StrictCheck


@rfm.simple_test
class TransportOpens(StrictCheck):
    """UCX opens the transport on this partition."""

    transport = parameter(TESTED)
    kind = "node"
    time_limit = "1m"
    tags = {"smoke", "node"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["*"]
    executable = "ucx_info"
    executable_opts = ["-d"]

    @run_after("init")
    def where_it_is_asked_for(self):
        if self.transport in DECLARED:
            places = ("intra-node", "inter-node")
            self.valid_systems = [f"+{place} +{self.transport}" for place in places]

    @run_after("setup")
    def only_what_the_partition_has(self):
        self.descr = f"UCX opens {self.transport}"
        where = self.current_partition.fullname
        self.leave_out(
            "lacks",
            self.transport not in self.current_partition.features,
            f"{where} has no transport {self.transport}: nothing is run over it",
        )
        self.leave_out(
            "lacks",
            "ucx" not in self.current_environ.features,
            f"this stack has no ucx: nothing shows whether it opens {self.transport}",
        )

    def read(self):
        opened = transports.opened_transports(self.stdout_text())
        problems = (
            ()
            if self.transport in opened
            else (f"UCX cannot open {self.transport} here, which the partition says it has",)
        )
        rows = tuple({"transport": name} for name in opened)
        return Parsed("assay", "ucx_info -d", None, True, rows, {}, problems)
