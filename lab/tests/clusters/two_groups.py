"""Makes the network of two groups of emulated nodes, measures it, and prints what it found (JSON).

It runs in namespaces of its own (network, mounts, processes), which end with it: see
test_two_groups.py. Only the network is made: no machine, no Slurm.
"""

import ctypes
import dataclasses
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import checkout

sys.path.insert(0, str(checkout.ROOT / "lab/vcluster"))

import commands
import layout
import network

PORT, NEW_NET, PINGS = 5000, 0x40000000, 40

_libc = ctypes.CDLL(None, use_errno=True)


def made_in(name):
    """A TCP socket in the network namespace of a machine."""
    there = Path("/run/netns", layout.namespace(name))
    with Path("/proc/self/ns/net").open() as own, there.open() as its:
        _enter(its)
        try:
            made = socket.socket()
        finally:
            _enter(own)
    return made


def _enter(space):
    if _libc.setns(space.fileno(), NEW_NET):
        raise OSError(ctypes.get_errno(), "setns")


def connected(cluster, a, b, port):
    """The ends of a connection from machine `a` to machine `b`."""
    listening = made_in(b)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((cluster.address(b), port))
    listening.listen()
    one = made_in(a)
    one.connect((cluster.address(b), port))
    other, _ = listening.accept()
    listening.close()
    for end in (one, other):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


def latency(cluster, a, b):
    """Half of the shortest round trip of one byte [us]."""
    one, other = connected(cluster, a, b, PORT)
    times = []
    for _ in range(PINGS):
        begin = time.monotonic()
        one.send(b"x")
        other.recv(1)
        other.send(b"x")
        one.recv(1)
        times.append(time.monotonic() - begin)
    one.close()
    other.close()
    return min(times) / 2 * 1e6


def together(cluster, pairs, size):
    """The sum of the rates of these pairs, which send at the same time [MB/s]."""
    ends = [connected(cluster, a, b, PORT + n) for n, (a, b) in enumerate(pairs, 1)]

    def read(end):
        left = size
        while left and (piece := end.recv(1 << 16)):
            left -= len(piece)

    threads = [threading.Thread(target=one.sendall, args=(bytes(size),)) for one, _ in ends]
    threads += [threading.Thread(target=read, args=(other,)) for _, other in ends]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begin
    for end in (end for both in ends for end in both):
        end.close()
    return len(pairs) * size / took / 1e6


def main(between, size):
    for folder in ("etc", "run", "log"):
        (layout.STATE / folder).mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    Path("/run/netns").mkdir()
    # The control group of a test may refuse real-time processes.
    ordinary = layout.STATE / "chrt"
    ordinary.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    ordinary.chmod(0o755)
    os.environ["PATH"] = f"{layout.STATE}:{os.environ['PATH']}"
    network.build_nfdelay()
    # First without relays: the rates are then those of the shapers alone.
    quick = made(0, dataclasses.replace(between, delay=0))
    network.create(quick)
    shaped(quick)
    across = [("node01", "node03"), ("node02", "node04")]
    found = {"crossed": {}}
    sending = {"within": [("node01", "node02")], "one_across": across[:1], "two_across": across}
    for name, pairs in sending.items():
        before = crossed()
        found[name] = together(quick, pairs, size)
        found["crossed"][name] = crossed() - before
    found["shaped"] = on_the_link("tc", "qdisc", "show")
    slow = made(100, between)
    shaped(slow)
    found["held"] = held("node03")
    found["latency_within"] = latency(slow, "node01", "node02")
    found["latency_across"] = latency(slow, "node01", "node03")
    json.dump(found, sys.stdout)


def on_the_link(program, *words):
    """What a program says of the first end of the link between the groups."""
    return commands.run(program, "-n", layout.SWITCH, *words, "dev", network.TRUNK[0])


def crossed():
    """Bytes that the first group has sent to the second so far."""
    (said,) = json.loads(on_the_link("ip", "-j", "-s", "link", "show"))
    return said["stats64"]["tx"]["bytes"]


def held(name):
    """For how long the relays of a node hold packets [us]."""
    found = []
    for pid in network.processes(layout.namespace(name)):
        program, *words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        found += [int(words[1])] if program == str(network.NFDELAY) else []
    return sorted(found)


def made(delay, between):
    """A description of the cluster, with links of this delay [us]."""
    link = layout.Link(rate="100mbit", delay=delay)
    return layout.Cluster(4, "nobody", 65534, 65534, False, link, [], between=between)


def shaped(cluster):
    """Gives the links of all nodes their rates and delays."""
    for name in cluster.node_names:
        network.shape(cluster, name, cluster.healthy(name))
    network.await_relays(cluster)


if __name__ == "__main__":
    main(layout.Between.parse(sys.argv[1]), int(sys.argv[2]))
