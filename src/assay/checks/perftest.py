"""ucx_perftest in a job: server and client are two processes of one node.

Each is on a processor of its own: on one and the same they would measure the scheduler. The server
is told the port, and the client waits until it listens: reading /proc does not disturb it,
connecting would. A ucx_perftest that was built with MPI wants to be started by mpirun, unless it is
told not to (-P 0, which others do not know); asking it must not leave a log that passes for one of
the two.
"""

from __future__ import annotations

COMMAND = "ucx_perftest"

#: What the server says.
SERVER_FILE = "server.out"

#: Starts the server, before the client.
SERVER = f"""\
port=$((20000 + $$ % 20000))
plain=$(UCX_LOG_LEVEL=fatal UCX_LOG_FILE= {COMMAND} -h 2>&1 | grep -q -e '-P <0|1>' && echo '-P 0')
set -- $(awk '/^Cpus_allowed_list/ {{ n = split($2, range, ",")
  for (i = 1; i <= n; i++) {{ split(range[i] "-" range[i], edge, "-")
    for (cpu = edge[1]; cpu <= edge[2]; cpu++) print cpu }} }}' /proc/self/status)
{COMMAND} $plain -c $1 -p $port >{SERVER_FILE} 2>&1 &
server=$!
for _ in $(seq 100); do
  grep -q ":$(printf %04X $port) .* 0A " /proc/net/tcp && break
  kill -0 $server 2>/dev/null || break
  sleep 0.1
done""".splitlines()

#: After one test the server ends by itself, and only then is all of its log written.
END_OF_SERVER = """\
[ "$assay_rc" -eq 0 ] || kill $server 2>/dev/null
for _ in $(seq 100); do
  kill -0 $server 2>/dev/null || break
  sleep 0.1
done
kill $server 2>/dev/null
wait $server 2>/dev/null""".splitlines()


def client(test: str, size: int, iterations: int, *more: str) -> list[str]:
    """Options of the client, which says what is measured.

    :param test: a name that ucx_perftest has, ``tag_lat``.
    :param size: of a message [B].
    """
    return [
        "127.0.0.1", "$plain", "-c", "$2", "-p", "$port", "-t", test, "-s", str(size),
        "-n", str(iterations), "-w", "100", *more,
    ]  # fmt: skip
