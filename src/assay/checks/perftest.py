"""ucx_perftest in a job: server and client are two processes on one node.

Each process runs on a processor of its own. On a shared processor they would measure the scheduler.
The server gets its port as an option. The client waits until the server listens: it reads /proc,
because a connection would disturb the server. A ucx_perftest that was built with MPI expects to be
started by mpirun, unless it gets the option -P 0. Other builds do not know this option. The query
for the option must not leave a log that looks like a log of the server or the client.
"""

from __future__ import annotations

COMMAND = "ucx_perftest"

#: File with the output of the server.
SERVER_FILE = "server.out"

#: Shell lines that start the server, before the client.
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

#: Shell lines after the client. The server ends by itself after one test, and only then is its log
#: complete.
END_OF_SERVER = """\
[ "$assay_rc" -eq 0 ] || kill $server 2>/dev/null
for _ in $(seq 100); do
  kill -0 $server 2>/dev/null || break
  sleep 0.1
done
kill $server 2>/dev/null
wait $server 2>/dev/null""".splitlines()


def client(test: str, size: int, iterations: int, *more: str) -> list[str]:
    """Options of the client, which selects the measurement.

    :param test: name of a test in ucx_perftest, such as ``tag_lat``.
    :param size: size of a message [B].
    """
    return [
        "127.0.0.1", "$plain", "-c", "$2", "-p", "$port", "-t", test, "-s", str(size),
        "-n", str(iterations), "-w", "100", *more,
    ]  # fmt: skip
