"""A server and a client without MPI, as two processes on one node.

Each process runs on a processor of its own, ``$1`` and ``$2`` in the lines of the job script. The
client waits until the server listens on ``$port``: it reads /proc, because a connection would
disturb the server. Nothing here counts seconds: the time limit of the job ends a dead server.
"""

from __future__ import annotations

from typing import Any

#: Where the server listens, for a client on the same node.
HERE = "127.0.0.1"

#: File with the output of the server.
SERVER_FILE = "server.out"


def too_small(partition: Any) -> str:
    """Why the processes cannot have a processor each on a node of the partition, or nothing."""
    few = partition.processor.num_cpus == 1
    return f"2 ranks are needed; {partition.fullname} has cores for 1" if few else ""


def server(command: str, *first: str) -> list[str]:
    """Shell lines that start the server, before the client.

    :param command: starts the server, with its redirections; may use ``$port``, ``$1``, ``$2``. Of
        several lines only the last one starts it.
    :param first: lines before it, which may set other variables.
    """
    return [
        "port=$((20000 + $$ % 20000))",
        *first,
        *f"""\
set -- $(awk '/^Cpus_allowed_list/ {{ n = split($2, range, ",")
  for (i = 1; i <= n; i++) {{ split(range[i] "-" range[i], edge, "-")
    for (cpu = edge[1]; cpu <= edge[2]; cpu++) print cpu }} }}' /proc/self/status)
{command} &
server=$!
until grep -q ":$(printf %04X $port) .* 0A " /proc/net/tcp; do
  kill -0 $server 2>/dev/null || break
  sleep 0.1
done""".splitlines(),
    ]


#: Shell lines after the client. The server ends by itself after one test, and only then is its log
#: complete.
END_OF_SERVER = """\
[ "$assay_rc" -eq 0 ] || kill $server 2>/dev/null
wait $server 2>/dev/null""".splitlines()
