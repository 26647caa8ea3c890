"""ucx_perftest in a job: server and client are two processes, usually on one node.

A ucx_perftest that was built with MPI expects to be started by mpirun, unless it gets the option
-P 0, which other builds do not know. The query for it must leave no log of UCX.
"""

from __future__ import annotations

from assay.opinions import pair
from assay.parse import Parsed
from assay.parse.reading import MIB_PER_S

COMMAND = "ucx_perftest"


def server(choose: str = "", *first: str, wrapper: str = "") -> list[str]:
    """Shell lines that start the server, before the client.

    :param choose: a line that chooses other processors for ``$1`` and ``$2``.
    :param first: lines before it, which may change ``$port``.
    :param wrapper: words that start the command after them.
    """
    command = f"{wrapper} {COMMAND}".strip()
    return pair.server(
        f"{choose}\n{command} $plain -c $1 -p $port >{pair.SERVER_FILE} 2>&1".strip(),
        f"plain=$(UCX_LOG_LEVEL=fatal UCX_LOG_FILE= {COMMAND} -h 2>&1"
        " | grep -q -e '-P <0|1>' && echo '-P 0')",
        *first,
    )


def client(test: str, size: int, iterations: int, *more: str, host: str = pair.HERE) -> list[str]:
    """Options of the client, which selects the measurement.

    :param test: name of a test in ucx_perftest, such as ``tag_lat``.
    :param size: size of a message [B].
    :param host: of the server.
    """
    return [
        host, "$plain", "-c", "$2", "-p", "$port", "-t", test, "-s", str(size),
        "-n", str(iterations), "-w", "100", *more,
    ]  # fmt: skip


def not_requested(parsed: Parsed | None, size: int) -> list[str]:
    """A problem of a run with another message size than requested.

    The client does not print the size. It follows from bandwidth and message rate, which are
    printed with two and with no decimals.

    :param size: of the messages [B].
    """
    if parsed is None or not parsed.rows:
        return []
    row = parsed.rows[-1]
    bandwidth, rate = float(row["bandwidth"]), float(row["messages_per_s"])
    if abs(bandwidth * 1e6 - size * rate) > 0.0051e6 * MIB_PER_S + 0.51 * size + 1e-3 * size * rate:
        return [
            f"{bandwidth:g} MB/s at {rate:g} messages/s are not messages of {size} B, as asked for"
        ]
    return []
