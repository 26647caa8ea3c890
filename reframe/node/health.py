"""The pre-check of a node, and the provenance of everything measured on it.

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
from reframe.core.builtins import run_after, run_before

import assay.node.provenance
from assay.accused import Against, How
from assay.parse import Parsed, ParseError
from assay.prove import gpu_health, node_limits
from assay.run import StrictCheck

SUITE = Path(__file__).resolve().parents[2]


def described():
    """The commit of a checkout, marked if it has changes; None if git is missing."""
    git = ["git", "-C", str(SUITE), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(
            git, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def suite():
    """The state of the suite that measures: its commit, its lock, and the version of ReFrame."""
    # In an archive, such as the suite in an image, git has written the commit into this file.
    archived = re.fullmatch(r"node: ([0-9a-f]{40})\s*", (SUITE / ".git_archival.txt").read_text())
    commit = archived[1] if archived else described()
    lock = SUITE / "requirements.lock"
    return {
        "commit": commit,
        "requirements_sha256": hashlib.sha256(lock.read_bytes()).hexdigest(),
        "reframe": reframe.VERSION,
    }


@rfm.simple_test
class NodeHealth(StrictCheck):
    """Checks memory, load, governor, mounts, space, ports and GPUs before a measurement."""

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
    def see_the_gpus(self):
        self.take_gpus_to_read()

    @run_before("run")
    def command(self):
        directory = self.current_partition.extras.get("directory")
        state = ["--gpus", gpu_health.command(gpu)] if (gpu := self.vendor_of_gpus()) else []
        provenance = assay.node.provenance.__file__
        arguments = [provenance, *state, *([directory] if directory else [])]
        self.executable = shlex.quote(sys.executable)
        self.executable_opts = [shlex.quote(argument) for argument in arguments]

    def read(self):
        text = self.stdout_text()
        try:
            self.found = json.loads(text)
            row = node_limits.figures(self.found)
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
        self._record["provenance"] = provenance
        return Parsed("assay", "provenance", None, True, (row,), dict.fromkeys(row, "1"))

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        extras = self.current_partition.extras
        limits = extras.get("health", {})
        link = extras.get("network_device"), extras.get("gid_index")
        unfit = [*node_limits.problems(self.found, limits, *link), *self.unfit_gpus(self.found)]
        unfit = [Against(problem, self.hosts, How.DIFFERS) for problem in unfit]
        return [*problems, *unfit]

    def measure(self, parsed):
        return parsed.rows[0]
