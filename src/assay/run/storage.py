"""Tests of a file system: its state during the measurement, and the influence of caches.

The job inspects the directory under test on the node where it runs. It does not start the benchmark
if the directory has no room for the bytes of the benchmark.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import run_before

import assay.node
from assay.judge import Peak, curves
from assay.judge.peaks import MOST_OF_PEAK
from assay.parse import Parsed
from assay.prove.launch import REFUSED_FILE, SKIPPED_FILE
from assay.quantities import number
from assay.run.site import hardware_peaks

#: File with the findings of the job, next to the output of the benchmark.
FOUND = "storage.json"

#: File with the files that the benchmark held open, and the lines that end the watch over them.
WRITTEN = "storage.files.json"
END_OF_WATCH = f"""\
watch=$(cat "$assay_stage"/{WRITTEN}.pid)
kill "$watch" 2>/dev/null
for _ in $(seq 1000); do
  [ ! -e "$assay_stage"/{WRITTEN} ] && kill -0 "$watch" 2>/dev/null || break
  sleep 0.02
done""".splitlines()

#: File systems in memory. A site must name them if it means them.
MEMORY = ("tmpfs", "ramfs")

#: The rate of the fastest memory [KiB/s]; a cached file is not faster.
FASTEST = curves.limits()["gpu"]["fastest"] * 1e6 / 1024


def bytes_asked_for(said: str | int, memory: int) -> int:
    """Bytes of a size of the site (:data:`assay.run.options.SIZE`).

    :param memory: memory of one node [B].
    """
    return said if isinstance(said, int) else int(float(said.removesuffix("x-memory")) * memory)


def describe_file_system(found: Mapping[str, Any], largest: int) -> dict[str, Any]:
    """The description of a measured file system for the record.

    :param found: what ``node/storage.py`` found.
    :param largest: the largest file of the benchmark [B].
    """
    space, memory = found["file_system"], found["memory"]["limit"]
    names = ("type", "mount", "source", "options", "size_bytes", "free_bytes", "fill", "stripe")
    return {
        **{name: space[name] for name in names if space.get(name) is not None},
        "o_direct_possible": space["o_direct"],
        "memory_bytes": memory,
        "memory_copy_bytes_per_s": found.get("memory_copy"),
        "largest_file_bytes": largest,
        "largest_file_per_memory": largest / memory if memory else None,
        "caches_dropped": False,
    }


def not_written(files: Sequence[Mapping[str, Any]], directory: str, kind: str | None) -> list[str]:
    """Why the files that processes held open are not those under test, one line each.

    :param files: what ``node/storage.py --watch`` saw.
    :param kind: type of the file system of the directory, by statfs(2).
    """
    written = [file for file in files if file["written"]]
    inside = [file for file in written if file["inside"]]
    if written and not inside:
        other = max(written, key=lambda file: file["bytes"])
        elsewhere = f"{other['path']} ({other['type']}) was written"
        return [f"no process was seen to write a file in {directory}; {elsewhere}"]
    if wrong := ", ".join(sorted({str(file["type"]) for file in inside} - {str(kind)})):
        return [f"files of {directory} were on {wrong}, the directory is on {kind}"]
    return []


def unseen(files: Sequence[Mapping[str, Any]], directory: str) -> str:
    """Why it is not known where the benchmark wrote; empty if it was seen to write anywhere.

    The watch looks every few milliseconds. On a busy machine it may miss a short benchmark.
    """
    if any(file["written"] for file in files):
        return ""
    return f"the watch over open files saw nobody write a file, in {directory} or elsewhere"


def in_another_mode(
    files: Sequence[Mapping[str, Any]], o_direct: bool, o_sync: bool, written: bool = True
) -> list[str]:
    """Modes in which the files under test were not open, one line each.

    A program may create a file in one mode, and open it again in another one to write it. The mode
    in which it was seen in more than half of all looks counts.

    :param written: look at those that were open for writing; otherwise, at the other ones.
    """
    problems = []
    for flag, wanted in (("o_direct", o_direct), ("o_sync", o_sync)):
        looks = {True: 0, False: 0}
        for file in files:
            if file["written"] == written:
                looks[file[flag]] += file["looks"]
        if looks[not wanted] > looks[wanted]:
            how = f"for {'writing' if written else 'reading'} with{'out' * wanted} {flag.upper()}"
            share = f"{looks[not wanted]} of {sum(looks.values())} looks"
            problems.append(f"the files were open {how} in {share}")
    return problems


def too_fast(rows: Sequence[Mapping[str, Any]], operations: Sequence[str]) -> list[str]:
    """A problem if any cell of a table of rates [KiB/s] is faster than :data:`FASTEST`."""
    rate, name = max(((row[name], name) for row in rows for name in operations), default=(0, ""))
    if rate <= FASTEST:
        return []
    most = f"no memory carries more than {number(FASTEST, 3)}"
    return [f"{name}: {number(rate, 3)} KiB/s in one cell: {most}"]


def from_memory(rate: float, copy: float | None) -> str:
    """Why what a process read was in the page cache; empty if it need not have been.

    :param rate: of its reads [B/s]; `copy`: that of a copy by one core [B/s], None if not known.
    """
    if copy is None or rate <= copy / 2:
        return ""
    return (
        f"a process read at {number(rate / 1e6, 3)} MB/s, more than half of the rate of a copy in "
        f"memory ({number(copy / 1e6, 3)} MB/s): the page cache answered, and not the disk"
    )


def disk_peaks(
    test: Any, writes: Sequence[str], reads: Sequence[str], cached: bool
) -> dict[str, Peak]:
    """What the disk of a test's partition carries as the peak of these rates.

    :param cached: the page cache may answer a read. What is written reaches the disk all the same,
        since the programs count the flush.
    """
    most = None if cached else MOST_OF_PEAK
    written = hardware_peaks(test, writes, "disk.write")
    return written | hardware_peaks(test, reads, "disk.read", most=most)


class StorageMixin(rfm.RegressionTestPlugin):
    """A benchmark that writes in ``$work``, below the ``directory`` of a storage partition.

    This is a mixin. Name it before the class derived from
    :class:`assay.run.strict.StrictCheck`.
    """

    #: Whether the benchmark bypasses the page cache. It is skipped if it cannot bypass the cache.
    o_direct = False

    #: What the last launch did not show, see :meth:`assay.run.strict.StrictCheck.missed`.
    _unseen = ""

    #: Whether the size follows from the memory: nobody promised the room for that.
    _of_memory = False

    def room(self) -> int:
        """Space that the benchmark needs on the file system [B]."""
        raise NotImplementedError

    def largest_file(self) -> int:
        """Size of the largest file that the benchmark writes [B]."""
        return self.room()

    def size_of(self, said: str | int) -> int:
        """The bytes of an option that is a size; see :func:`bytes_asked_for`."""
        self._of_memory = isinstance(said, str)
        memory = self.partition_extra("memory_bytes") if self._of_memory else 0
        return bytes_asked_for(said, memory)

    def not_in_memory(self, seconds: int) -> None:
        """Skips the case on a file system in memory, which writing for `seconds` s would fill."""
        partition = self.current_partition
        why = f"{partition.fullname} is in memory, which {seconds} s of writing would fill"
        self.leave_out("not-here", partition.extras.get("file_system") in MEMORY, why)

    @run_before("run")
    def _look_at_the_file_system(self) -> None:
        directory = self.partition_extra("directory")
        script = Path(assay.node.__file__).with_name("storage.py")
        files = {"found": FOUND, "refused": REFUSED_FILE, "skipped": SKIPPED_FILE, "watch": WRITTEN}
        words = [
            *(sys.executable, str(script), directory, str(self.descr), str(self.room())),
            *(f"--{option}={name}" for option, name in files.items()),
            *(["--direct"] * self.o_direct + ["--of-memory"] * self._of_memory),
        ]
        self.prerun_cmds += [
            f"rm -f {' '.join(files.values())}",  # left by an earlier launch in this directory
            f"{shlex.join(words)} || exit 1",
            # The name is unique: nodes share the directory and may use the same process numbers.
            f"work=$(mktemp -d {shlex.quote(directory)}/assay.XXXXXX) || exit 1",
            "trap 'rm -rf \"$work\"' EXIT",  # also if the job is ended early
        ]
        self.postrun_cmds += END_OF_WATCH
        self.keep_files += [FOUND, WRITTEN]

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Records the findings of the job, and checks that it is the file system under test."""
        problems: list[str] = super().examine(parsed)
        try:
            found = json.loads(Path(FOUND).read_text(encoding="utf-8"))
            said = describe_file_system(found, self.largest_file())
        except (OSError, ValueError, KeyError, TypeError) as error:
            return [*problems, f"the file system is not known: {FOUND}: {error}"]
        self.record.proof["storage"] = said
        partition = self.current_partition
        stated = partition.extras.get("file_system")
        kind = said.get("type")
        directory = found["file_system"]["directory"]
        if kind != stated and (stated or kind in MEMORY):
            other = stated or "nothing of a file system in memory"
            there = f"{directory} is {kind} (mounted at {said.get('mount')})"
            problems.append(f"{there}; the site says {other}")
        try:
            files = json.loads(Path(WRITTEN).read_text(encoding="utf-8"))
            said["files"] = ours = [file for file in files if file["inside"]]
            # What the job has is judged there. A wrapper may set it for the program alone.
            of_job = self._node_after.job.variables if self._node_after else {}
            known = {"", *(v.get("LD_PRELOAD", "") for v in (of_job, self._requested_variables()))}
            problems += sorted(
                f"LD_PRELOAD={file['preloaded']} was set for the process that wrote"
                for file in ours
                if file["written"] and file["preloaded"] not in known
            )[:1]
            self._unseen = unseen(files, directory)
            return problems + not_written(files, directory, found["file_system"]["statfs"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            return [*problems, f"the files that were written are not known: {WRITTEN}: {error}"]

    def missed(self) -> str:
        return self._unseen
