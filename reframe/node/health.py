"""The pre-check of a node, and the provenance of everything measured on it.

Tests:     NodeHealth
Runs:      provenance.py of src/assay/fleet/node
Where:     +intra-node, or +inter-node, or +storage
Stacks:    any
Proves:    exit code 0 and a complete output
Judged by: references of load_per_cpu [1], memory_available [1]
Takes:     under 1 s a case (smoke, 2 cores); under 1 s a case (full, 2 cores); at most 2 min for
           a launch; in the smoke profile: 1 of 1 cases

A benchmark on a node that is busy, swaps, is clocked down or has a full disk is not a measurement.
The site sets the limits (`health` in the partition's extras). The record keeps all findings.
"""

import hashlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import reframe
import reframe as rfm
from reframe.core import runtime
from reframe.core.builtins import run_after, run_before

import assay.fleet.node.provenance
from assay.accused import Against, How
from assay.fleet import node_limits
from assay.gpu import accelerator, gpu_health
from assay.gpu.bases import GpusOfNode
from assay.parse import Parsed, ParseError
from assay.run import StrictCheck

SUITE = Path(__file__).resolve().parents[2]


def described():
    """The commit of a checkout, marked if it has changes; None without git or a checkout."""
    if not (SUITE / ".git").exists():
        return None  # the commit of a repository around this folder would not be ours
    git = ["git", "-C", str(SUITE), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(
            git, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def suite():
    """The state of the suite that measures: its commit, its lock, and the version of ReFrame."""
    # In an archive, such as the suite in an image, git has written the commit into this file; in a
    # wheel, setup.py has.
    archived = re.fullmatch(
        r"node: ([0-9a-f]{40}\S*)\s*", (SUITE / ".git_archival.txt").read_text()
    )
    commit = archived[1] if archived else described()
    lock = SUITE / "requirements/run.lock"
    return {
        "commit": commit,
        "requirements_sha256": hashlib.sha256(lock.read_bytes()).hexdigest(),
        "reframe": reframe.VERSION,
    }


#: Words of a partition whose GPUs are looked at.
GPUS = {"gpu", "nvlink", *accelerator.ACCELERATORS}


def nodes(partition):
    """What decides which nodes the jobs of a partition get."""
    asked = str([*partition.resources.values()])
    filled = {name: said for name, said in partition.extras.items() if f"{{{name}}}" in asked}
    return partition.scheduler.registered_name, partition.access, filled


@rfm.simple_test
class NodeHealth(GpusOfNode, StrictCheck):
    """Checks memory, load, governor, mounts, space, ports and GPUs before a measurement.

    Of the partitions with the same nodes, one runs it for all: that with the most words of GPUs,
    else the first.
    """

    kind = "node"
    descr = "node pre-check and provenance"
    time_limit = "2m"
    tags = {"smoke", "node"}
    valid_systems = ["+intra-node", "+inter-node", "+storage"]
    valid_prog_environs = ["*"]
    executable = sys.executable
    declares = {"load_per_cpu": "1", "memory_available": "1"}
    keep_files = ["provenance.json"]

    @run_after("setup")
    def once_on_each_kind_of_node(self):
        here, stack = self.current_partition, self.current_environ.name
        valid = runtime.valid_sysenv_comb(self.valid_systems, self.valid_prog_environs)
        self.alike = [
            other
            for other, environs in valid.items()
            if nodes(other) == nodes(here) and stack in [e.name for e in environs]
        ]
        # A partition may leave this test out of its smoke profile.
        able = [other for other in self.alike if self.has_asked(other)]
        first = max(able, key=lambda other: len(GPUS & {*other.features}), default=here)
        why = f"{first.name} has the same nodes, and its case has the limits of {here.name}, too"
        self.leave_out("no-case", first.name != here.name, why)

    def has_asked(self, partition):
        said = partition.extras.get("options", {})
        words = [said.get(f"{name}.smoke") for name in ("StrictCheck", "NodeHealth")]
        return self.profile != "smoke" or all("NodeHealth" in each for each in words if each)

    @run_after("setup")
    def see_the_gpus(self):
        self.take_gpus_to_read()

    @run_before("run")
    def command(self):
        named = [other.extras.get("directory") for other in self.alike]
        state = (
            ["--gpus", gpu_health.gpu_state_command(gpu)] if (gpu := self.vendor_of_gpus()) else []
        )
        arguments = [
            assay.fleet.node.provenance.__file__,
            *state,
            *dict.fromkeys(filter(None, named)),
        ]
        self.executable = shlex.quote(sys.executable)
        self.executable_opts = [shlex.quote(argument) for argument in arguments]

    def read(self):
        text = self.stdout_text()
        try:
            self.found = json.loads(text)
            row = node_limits.load_and_memory(self.found)
        except (ValueError, KeyError, TypeError) as error:
            raise ParseError(f"provenance is unreadable: {error}") from None
        provenance = {
            **self.found,
            "stack": {
                "name": self.current_environ.name,
                "features": sorted(self.current_environ.features),
                **self.current_environ.extras,
            },
            "suite": suite(),
        }
        Path("provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")
        self.record.provenance = provenance
        return Parsed("assay", "provenance", None, True, (row,), dict.fromkeys(row, "1"))

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        unfit = [line for other in self.alike for line in self.beyond_the_limits(other)]
        unfit = dict.fromkeys([*unfit, *self.unfit_gpus(self.found)])
        hosts = self.job.nodelist or []
        return [*problems, *(Against(problem, hosts, How.DIFFERS) for problem in unfit)]

    def beyond_the_limits(self, partition):
        """What is wrong with the node by the limits of a partition, one line each."""
        extras = partition.extras
        directory = extras.get("directory")
        mounted = [each for each in self.found["file_systems"] if each["directory"] == directory]
        found = {**self.found, "file_systems": mounted}
        link = extras.get("network_device"), extras.get("gid_index")
        return node_limits.limit_problems(found, extras.get("health", {}), *link)

    def measure(self, parsed):
        return {name: parsed.quantity(name) for name in parsed.rows[0]}
