"""IOR and mdtest as IO500 runs them: what the ranks do, and for how long.

Source: the rules and the default configuration of IO500 (io500.org, github.com/IO500/io500,
src/phase_*.c). A phase that writes or creates goes on for 300 s. Then all ranks stop, and those
that did less make up for it (`stonewalling`). The next phases work on these files, from another
node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assay import files
from assay.workloads.sizing import Layout, SizingError

EASY, HARD = "easy", "hard"
PATTERNS = (EASY, HARD)

#: Profile -> how long the ranks write or create [s].
SECONDS = {"smoke": 2, "full": 300}

#: Size of a transfer [B]: what suits a file system, and what suits none of them.
TRANSFER = {EASY: 2 * 2**20, HARD: 47008}

#: Most bytes of all ranks of a node in the smoke profile [B].
SMOKE_BYTES = 2**28

#: Profile -> files that each rank creates, if the time suffices.
FILES = {"smoke": 20_000, "full": 1_000_000}

#: Bytes of each file of mdtest [B].
FILE_BYTES = {EASY: 0, HARD: 3901}

#: Seed of the data.
SEED = 27

#: Phases of mdtest -> option of the phase.
PHASES = {"create": "-C", "stat": "-T", "read": "-E", "remove": "-r"}


def layout(features: Iterable[str], extras: Mapping[str, Any], cores: int) -> Layout:
    """All nodes that share the directory, with a rank on each core that a site gives to ranks."""
    nodes = int(extras.get("nodes", 1)) if "shared" in set(features) else 1
    return Layout(nodes, int(extras.get("cores_per_node", cores)) if nodes > 1 else cores)


def block(pattern: str, node_bytes: int, per_node: int) -> tuple[int, int]:
    """Bytes of a block [B], and number of blocks (`segments`) of each rank.

    :param node_bytes: the most bytes that the ranks of a node write.
    :raises SizingError: they are fewer than one transfer of each rank.
    """
    transfer = TRANSFER[pattern]
    transfers = node_bytes // per_node // transfer
    if not transfers:
        raise SizingError(
            f"{per_node} ranks of a node cannot write {transfer} bytes each; they may write "
            f"{node_bytes} together"
        )
    return (transfers * transfer, 1) if pattern == EASY else (transfer, transfers)


def phases_of_ior(pattern: str, seconds: int, block_bytes: int, segments: int) -> list[str]:
    """The lines of IOR's own script: a phase that writes, and one that reads and compares.

    Each rank reads what a rank of the next node wrote. IOR reads as many blocks as it wrote: the
    first phase leaves their number in a file.
    """
    template = files.templates(Path(__file__).parent).get_template("ior.jinja")
    return template.render(
        file_per_rank=int(pattern == EASY),
        transfer=TRANSFER[pattern],
        block=block_bytes,
        segments=segments,
        seed=SEED,
        seconds=seconds,
    ).splitlines()


def mdtest_operations(pattern: str) -> list[str]:
    """The operations of mdtest; files without data are not read."""
    return [name for name in PHASES if pattern == HARD or name != "read"]


def options_of_mdtest(pattern: str, seconds: int, files: int) -> list[str]:
    """Options of mdtest. Easy: a directory for each rank. Hard: one for all, and files with data.

    A rank works on files of other nodes (-N 1): those of the next node where it asks for their
    status, of the second next where it reads, of the third next where it removes.
    """
    where = {
        EASY: ["-u", "-L"],
        HARD: ["-t", "-w", f"{FILE_BYTES[HARD]}", "-e", f"{FILE_BYTES[HARD]}", "-X"],
    }
    return [
        *("-a", "POSIX", "-d", "mdtest.files", "-n", f"{files}", "-F", "-P", "-N", "1", "-Y"),
        *("-G", f"{SEED}", "-W", f"{seconds}"),
        *where[pattern],
        *(PHASES[name] for name in mdtest_operations(pattern)),
    ]
