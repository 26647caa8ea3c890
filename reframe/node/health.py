"""The pre-check of a node, and the provenance of everything measured on it.

A benchmark on a node that is busy, swaps, is clocked down or has a full disk is no measurement.
The limits are the site's (`health` in the partition's extras); what was found is kept whole.
"""

import hashlib
import json
import shlex
import subprocess
import sys
from pathlib import Path

import reframe
import reframe as rfm
from reframe.core.builtins import run_before

import assay.provenance
from assay.checks.strict import StrictCheck
from assay.outputs import Parsed, ParseError

#: Limit in the extras -> what it says of a node; the values are the site's.
LIMITS = {
    "load_per_cpu_max": "1-minute load divided by the processors",
    "memory_available_min": "share of the memory that is free",
    "free_bytes_min": "free bytes on the file system under test",
    "governors": "clock governors that are allowed",
    "mount_options": "options that the mount under test must have",
}


SUITE = Path(__file__).resolve().parents[2]


def suite():
    """Which state of the suite measures: its commit, its lock, ReFrame."""
    git = ["git", "-C", str(SUITE), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        described = subprocess.run(git, capture_output=True, text=True, timeout=10, check=True)
        commit = described.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        commit = None  # not a checkout: an image, or an archive
    lock = SUITE / "requirements.lock"
    return {
        "commit": commit,
        "requirements_sha256": hashlib.sha256(lock.read_bytes()).hexdigest(),
        "reframe": reframe.VERSION,
    }


@rfm.simple_test
class NodeHealth(StrictCheck):
    """Memory, load, governor, mounts and space, before anything is measured."""

    kind = "node"
    descr = "node pre-check and provenance"
    time_limit = "2m"
    tags = {"smoke", "node"}
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = sys.executable
    declares = {"load_per_cpu": "1", "memory_available": "1"}
    keep_files = ["provenance.json"]

    @run_before("run")
    def command(self):
        directory = self.current_partition.extras.get("directory")
        arguments = [assay.provenance.__file__, *([directory] if directory else [])]
        self.executable = shlex.quote(sys.executable)
        self.executable_opts = [shlex.quote(argument) for argument in arguments]

    def read(self):
        text = self.stdout_text()
        try:
            self.found = json.loads(text)
            cpu, memory = self.found["cpu"], self.found["memory"]
            row = {
                "load_per_cpu": cpu["load_1min"] / cpu["usable"],
                "memory_available": memory["MemAvailable"] / memory["MemTotal"],
            }
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
        limits = self.current_partition.extras.get("health", {})
        problems += [
            f"health limit {name!r} is unknown; known are {', '.join(LIMITS)}"
            for name in limits
            if name not in LIMITS
        ]
        row = parsed.rows[0]
        limit = limits.get("load_per_cpu_max")
        if limit is not None and row["load_per_cpu"] > limit:
            problems.append(f"load per processor is {row['load_per_cpu']:.2f}, at most {limit}")
        limit = limits.get("memory_available_min")
        if limit is not None and row["memory_available"] < limit:
            problems.append(f"{row['memory_available']:.0%} of the memory is free, not {limit:.0%}")
        allowed = limits.get("governors")
        running = self.found["cpu"]["governors"]
        if allowed and not (running and set(running) <= set(allowed)):
            found = ", ".join(running) or "cannot be read"
            problems.append(f"clock governor {found}; allowed: {', '.join(allowed)}")
        return problems + self._file_system(limits)

    def _file_system(self, limits):
        problems = []
        for fs in self.found["file_systems"]:
            where = f"{fs['directory']} ({fs['type']})"
            if "error" in fs:
                problems.append(f"{where}: {fs['error']}")
                continue
            if not fs["writable"]:
                problems.append(f"{where} is not writable")
            if fs["free_bytes"] < limits.get("free_bytes_min", 0):
                problems.append(
                    f"{where} has {fs['free_bytes']:.3g} B free, "
                    f"at least {limits['free_bytes_min']:.3g} are needed"
                )
            missing = set(limits.get("mount_options", ())) - set((fs["options"] or "").split(","))
            if missing:
                problems.append(f"{where} is mounted without {', '.join(sorted(missing))}")
        return problems

    def measure(self, parsed):
        return parsed.rows[0]
