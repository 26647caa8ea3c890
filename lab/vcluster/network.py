"""The switch, the machines' links, and the faults of a link.

Each machine has a network namespace. Its ``eth0`` is one end of a veth pair to a bridge, which has
a namespace of its own: the host's network is not touched. tbf limits the rate in both directions.
Two groups of nodes have a bridge each, and one veth pair between them, whose rate all traffic
between the groups shares. Two switches of one group are the same; the rate of the trunk between
them is not limited, unless a fault limits it.
The helper ``nfdelay`` on the receiving side adds the delay. It works on every kernel with NFQUEUE;
many kernels lack netem.
"""

import dataclasses
import json
import os
import signal
import time
from pathlib import Path

import agent
import cgroups
import kinds
from commands import daemon, run
from layout import HERE, STATE, SWITCH, Link, Refusal, megabytes, namespace, port

#: tbf's bucket. With a larger one a ping-pong would exceed the rate, with a smaller one a stream
#: would not reach it (1 Gbit/s: 957 Mbit/s of TCP payload with 256 KiB, 101 to 104 MB/s of MPI with
#: 16 KiB).
BURST = "256k"
#: The same in bytes, and the smallest bucket of the link between two groups.
FULL_BURST, LEAST_BURST = 256 << 10, 4 << 10

#: The shortest queue of that link [B], beyond 20 ms of its rate. A shorter one would lose the
#: packets of 64 KiB that TCP gives to it at once.
LEAST_QUEUE = 512 << 10

#: The bridge of each group; with one group there is only the first. And the ends of the link
#: between them.
BRIDGES, TRUNK = ("br0", "br1"), ("trunk0", "trunk1")

#: The bridge of the second rail: a network of its own.
RAIL = "rail1"

MTU = 1500

#: The packets of verbs over Ethernet (RoCE, version 2), in the words of iptables.
ROCE = "udp --dport 4791"

#: Where the kernel lists the queues that have a reader, one a line.
QUEUES = "/proc/net/netfilter/nfnetlink_queue"

#: Where nfdelay is built.
NFDELAY = STATE / "nfdelay"


def build_nfdelay():
    """Compiles the helper that delays packets."""
    run("gcc", "-O2", "-Wall", "-o", NFDELAY, HERE / "nfdelay.c", "-lnetfilter_queue")


def create(cluster):
    """Switch and links, without any shaping."""
    run("ip", "netns", "add", SWITCH)
    apart = cluster.between or cluster.switches == 2
    rail = [RAIL] if cluster.networks > 1 else []
    for bridge in [*(BRIDGES if apart else BRIDGES[:1]), *rail]:
        run("ip", "-n", SWITCH, "link", "add", bridge, "type", "bridge")
        run("ip", "-n", SWITCH, "link", "set", bridge, "up")
    if apart:
        _join()
    if cluster.between:
        limit_trunk(cluster.between.rate)
    for name in cluster.names:
        space = namespace(name)
        run("ip", "netns", "add", space)
        run("ip", "-n", space, "link", "set", "lo", "up")
        run(
            *("ip", "-n", SWITCH, "link", "add", port(name), "type", "veth"),
            *("peer", "name", "eth0", "netns", space),
        )
        bridge = BRIDGES[cluster.side(name)]
        run("ip", "-n", SWITCH, "link", "set", port(name), "master", bridge, "up")
        if cluster.has_kernel(name):
            if cluster.networks > 1:
                _join_rail(name)
            kinds.KINDS[cluster.machines].connect(cluster, name)
        else:
            run("ip", "-n", space, "addr", "add", f"{cluster.address(name)}/16", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")


def _join_rail(name):
    """The second link of a node, to the bridge of the second rail."""
    end = port(name, 1)
    run(
        *("ip", "-n", SWITCH, "link", "add", end, "type", "veth"),
        *("peer", "name", "eth1", "netns", namespace(name)),
    )
    run("ip", "-n", SWITCH, "link", "set", end, "master", RAIL, "up")


def _join():
    """The link between the two bridges."""
    run(
        *("ip", "-n", SWITCH, "link", "add", TRUNK[0], "type", "veth", "peer", "name", TRUNK[1]),
    )
    for end, bridge in zip(TRUNK, BRIDGES):
        run("ip", "-n", SWITCH, "link", "set", end, "master", bridge, "up")


def limit_trunk(rate):
    """Limits the link between the two bridges at both ends; None: no limit any more."""
    if rate is None:
        for end in TRUNK:
            run("tc", "-n", SWITCH, "qdisc", "del", "dev", end, "root", check=False)
        return
    # At a lower rate, the same bucket would let longer messages through at once.
    bandwidth = megabytes(rate)
    burst = max(int(FULL_BURST * bandwidth / megabytes(Link.rate)), LEAST_BURST)
    queue = max(int(0.02e6 * bandwidth), LEAST_QUEUE)
    for end in TRUNK:
        run(
            *("tc", "-n", SWITCH, "qdisc", "replace", "dev", end, "root"),
            *("tbf", "rate", rate, "burst", burst, "limit", queue),
        )


def namespaces():
    """The cluster's network namespaces that exist."""
    folder = Path("/run/netns")
    return sorted(path.name for path in folder.glob(namespace("*")))


def processes(space):
    """Process ids in a network namespace."""
    return [int(word) for word in run("ip", "netns", "pids", space, check=False).split()]


def shape(cluster, name, link):
    """Gives a node's link the rate, the delays and the loss of `link`, whatever it had before."""
    space = namespace(name)
    ends = [(space, "eth0", link.rate), (SWITCH, port(name), link.rate)]
    if cluster.networks > 1 and cluster.has_kernel(name):
        rate = link.rail_rate or cluster.link.rate
        ends += [(space, "eth1", rate), (SWITCH, port(name, 1), rate)]
    for where, device, rate in ends:
        run(
            *("tc", "-n", where, "qdisc", "replace", "dev", device, "root"),
            *("tbf", "rate", rate, "burst", BURST, "latency", "20ms"),
        )
    rules, delays = _rules(cluster, name, link)
    restores = ["iptables-restore"]
    if cluster.has_kernel(name):
        restores.append("ip6tables-restore")  # verbs address each other by IPv6
    for restore in restores:
        run("ip", "netns", "exec", space, restore, given="\n".join([*rules, "COMMIT", ""]))
    _relay(name, delays)
    _record(name).write_text(json.dumps(dataclasses.asdict(link)))


def _rules(cluster, name, link):
    """Rules of iptables that lose and delay arriving packets, and the delay of each queue.

    A node with a kernel of its own is behind a bridge. Its packets pass through, of both versions
    of IP, and their sender is known by its MAC address.
    """
    chain, arriving, lossy = "INPUT", "-i eth0", ["tcp"]
    if cluster.has_kernel(name):
        chain, arriving, lossy = "FORWARD", "-m physdev --physdev-in eth0", ["tcp", ROCE]
    rules = ["*filter", f":{chain} ACCEPT [0:0]"]
    if link.loss:
        chance = f"-m statistic --mode random --probability {link.loss}"
        rules += [f"-A {chain} {arriving} -p {what} {chance} -j DROP" for what in lossy]
    delays = []
    for peer, delay in sorted(link.peers.items()):
        if not delay:
            continue
        if delay not in delays:
            delays.append(delay)
        senders = [f"-s {cluster.address(peer)}"]
        if cluster.has_kernel(name):
            rails = cluster.rails if cluster.networks == 1 else 1  # all rails, or the first
            macs = [agent.mac_address(cluster.number(peer), rail) for rail in range(rails)]
            senders = [f"{arriving} -m mac --mac-source {mac}" for mac in macs]
        queue = _queue(delays.index(delay) + 1)
        rules += [f"-A {chain} {sender} {queue}" for sender in senders]
    if link.delay:
        delays.append(link.delay)
        rules.append(f"-A {chain} {arriving} {_queue(len(delays))}")
    return rules, delays


def link_of(cluster, name):
    """The current state of a node's link."""
    try:
        return Link(**json.loads(_record(name).read_text()))
    except FileNotFoundError:
        return cluster.healthy(name)


def _record(name):
    return STATE / "run" / f"link.{name}"


def _queue(number):
    # Without a relay the packets pass. An interrupted change therefore leaves a fast link, not a
    # dead one.
    return f"-j NFQUEUE --queue-num {number} --queue-bypass"


def _relay(name, delays):
    """Starts one process for each queue, after ending the earlier ones."""
    record = STATE / "run" / f"relays.{name}"
    if record.exists():
        for pid in map(int, record.read_text().split()):
            # Process ids are reused: only a process that still is in that namespace is ours.
            if pid in processes(namespace(name)):
                os.kill(pid, signal.SIGTERM)
    # A relay that moves between cores changes the latency of the link by a fifth.
    core = _core(name)
    started = []
    for number, delay in enumerate(delays, 1):
        # A relay that has to wait for the processor adds this time to every packet.
        relay = daemon(
            [
                *("ip", "netns", "exec", namespace(name), "taskset", "-c", core),
                *("chrt", "-f", "10", NFDELAY, number, delay),
            ],
            log=f"nfdelay.{name}.{number}",
            before=cgroups.count,
        )
        started.append(relay.pid)
    record.write_text(" ".join(map(str, started)))


def _core(name):
    cores = sorted(os.sched_getaffinity(0))
    return cores[int(name.removeprefix("node")) % len(cores)]


def await_relays(cluster):
    """Waits until the relays of all nodes hold their queues.

    :raises Refusal: one does not come up.
    """
    end = time.monotonic() + 5
    for name in cluster.node_names:
        wanted = len((STATE / "run" / f"relays.{name}").read_text().split())
        enter = ("ip", "netns", "exec", namespace(name))
        while len(run(*enter, "cat", QUEUES, check=False).splitlines()) < wanted:
            if time.monotonic() > end:
                log = STATE / "log" / f"nfdelay.{name}.1"
                raise Refusal(f"{name}: no packet relay came up: {log.read_text().strip()}")
            time.sleep(0.02)


def unplug(name):
    """Takes a machine's cable out."""
    run("ip", "-n", SWITCH, "link", "set", port(name), "down")


def plug_in(name):
    """Plugs it in again, and gives both ends the MTU of all others."""
    run("ip", "-n", SWITCH, "link", "set", port(name), "up", "mtu", MTU)
    run("ip", "-n", namespace(name), "link", "set", "eth0", "mtu", MTU)


def faulty(link: Link, **change):
    """A copy of a link with something changed. A peer's delay is added to those of other peers."""
    peers = {**link.peers, **change.pop("peers", {})}
    return dataclasses.replace(link, peers=peers, **change)


def destroy():
    """Deletes all namespaces, and with them links, rules and queues."""
    for space in namespaces():
        run("ip", "netns", "del", space, check=False)
