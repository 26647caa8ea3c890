#!/usr/bin/env python3
"""Runs commands on a node that has a kernel of its own, as `nsenter` does on the other machines.

The host cannot enter the namespaces of another kernel. The first process of the node therefore
serves commands (`serve`). This file, started by `vcluster run`, is the client. Both talk over the
bridge between the node and its switch, so faults of the link do not disturb them. The node answers
no other address. A command reads and writes three sockets, and ends if its client ends.

    agent.py HOST NODE UID GID WORD...     HOST, NODE: IPv6 addresses
"""

import contextlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import termios
import threading
import tty
from pathlib import Path

PORT = 7
STREAMS = 3  # standard input, output and error

#: How long the client waits for the rest of the output of a command that has ended [s]. Background
#: processes of the command may keep the streams open for longer.
REST_S = 0.5


def host_address(number):
    """Link-local address of the bridge beside node `number`."""
    return f"fe80::a5:{number:x}"


def mac_address(number, rail=0):
    return f"02:a5:00:{rail:02x}:{number >> 8:02x}:{number & 255:02x}"


def node_address(number):
    """Link-local address that Linux derives from the MAC address; also the node's first GID."""
    return f"fe80::a5:ff:fe00:{number:x}"


def command(pid, number, ids, words):
    """The command line that runs `words` in a node as the user and group `ids`.

    :param pid: the first process of the node's machine. The client ends with it.
    """
    return [
        # nsenter has a child, which must end with it.
        *("nsenter", "-t", str(pid), "-n", "-p", "setpriv", "--pdeathsig", "KILL"),
        *client(number, ids, words),
    ]


def client(number, ids, words):
    """As `command`, for a caller in the node's machine."""
    ends = (f"{host_address(number)}%br0", f"{node_address(number)}%br0")
    return [sys.executable, __file__, *ends, *map(str, ids), *words]


def serve(number, started):
    """Runs commands for ever, on node `number`.

    :param started: called as soon as the agent answers.
    """
    allowed = socket.inet_pton(socket.AF_INET6, host_address(number))
    server = _listen(number, PORT)
    started()
    while True:
        control, peer = server.accept()
        if _packed(peer) == allowed and os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with contextlib.suppress(OSError):  # the client ended
                _handle(control, number, allowed)
            os._exit(0)
        control.close()


def _listen(number, port):
    index = socket.if_nametoindex("eth0")
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((node_address(number), port, 0, index))
    server.listen()
    return server


def _packed(peer):
    return socket.inet_pton(socket.AF_INET6, peer[0].partition("%")[0])


def _handle(control, number, allowed):
    """One command: its request, its three streams, and its exit code."""
    request = json.loads(control.makefile().readline())
    streams = []
    with _listen(number, 0) as door:
        control.sendall(b"%d\n" % door.getsockname()[1])
        while len(streams) < STREAMS:
            stream, peer = door.accept()
            if _packed(peer) == allowed:
                streams.append(stream)
    try:
        process = subprocess.Popen(
            request["words"],
            cwd=request["directory"],
            env=request["environment"],
            user=request["uid"],
            group=request["gid"],
            extra_groups=[],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
        )
    except OSError as error:
        streams[2].sendall(f"{request['words'][0]}: {error.strerror}\n".encode())
        control.sendall(b"127\n")
        return
    for stream in streams:
        stream.close()
    ended = os.pidfd_open(process.pid)
    ready, _, _ = select.select([control, ended], [], [])
    if ended not in ready:  # the client has ended
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    control.sendall(b"%d\n" % (code if code >= 0 else 128 - code))


def ask(host, node, uid, gid, words):
    """Runs a command through the agent of a node. Returns its exit code.

    :raises OSError: the node does not answer.
    """
    terminal = sys.stdin.isatty()
    request = {
        "words": ["script", "-qec", shlex.join(words), "/dev/null"] if terminal else words,
        "uid": int(uid),
        "gid": int(gid),
        "directory": str(Path.cwd()),
        "environment": dict(os.environ),
    }
    control = _connect(host, node, PORT)
    control.sendall(json.dumps(request).encode() + b"\n")
    replies = control.makefile()
    port = int(replies.readline())
    streams = [_connect(host, node, port) for _ in range(STREAMS)]
    threading.Thread(target=_send, args=(streams[0],), daemon=True).start()
    readers = [
        threading.Thread(target=_receive, args=(stream, number), daemon=True)
        for number, stream in enumerate(streams[1:], 1)
    ]
    for reader in readers:
        reader.start()
    with _raw() if terminal else contextlib.nullcontext():
        code = int(replies.readline() or 255)
        for reader in readers:
            reader.join(REST_S)
    return code


def _connect(host, node, port):
    interface = socket.if_nametoindex(node.partition("%")[2])
    ends = [(address.partition("%")[0], interface) for address in (host, node)]
    connection = socket.socket(socket.AF_INET6)
    connection.bind((ends[0][0], 0, 0, interface))
    connection.settimeout(10)
    connection.connect((ends[1][0], port, 0, interface))
    connection.settimeout(None)
    return connection


def _send(stream):
    with contextlib.suppress(OSError):  # the command has ended, or does not read
        while some := os.read(0, 1 << 16):
            stream.sendall(some)
        stream.shutdown(socket.SHUT_WR)


def _receive(stream, number):
    with contextlib.suppress(OSError):  # the reader of our output has gone
        while some := stream.recv(1 << 16):
            while some:
                some = some[os.write(number, some) :]


@contextlib.contextmanager
def _raw():
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def main(host, node, uid, gid, *words):
    try:
        code = ask(host, node, uid, gid, list(words))
    except (OSError, ValueError) as error:
        sys.exit(f"vcluster: the node does not answer: {error}; see the log boot.NODE")
    sys.stdout.flush()
    os._exit(code)  # a reader may still wait for a background process


if __name__ == "__main__":
    main(*sys.argv[1:])
