"""What the first process of a virtual machine does before it is a node like others."""

from pathlib import Path

import agent
import vm
from commands import run

#: What a packet to a card of the other socket waits [ms], and the rate of such packets. Chosen so
#: that a node that is emulated by software shows the difference.
FAR_MS, FAR_RATE = 2, "20mbit"

#: Packets that may wait for that: a message of 1 MiB is a burst of a thousand.
WAITING = 20000


def share(cluster):
    """Mounts the folders whose files change while the cluster is up."""
    for number, folder in enumerate(vm.live(cluster)):
        options = f"trans=virtio,version=9p2000.L,msize={vm.MESSAGE},cache=mmap"
        run("mount", "-t", "9p", "-o", options, f"live{number}", folder)


def name_cards(number, rails):
    """Gives the network cards their names, eth0 and on: the kernel finds them in any order."""
    found = {
        (card / "address").read_text().strip(): card.name
        for card in Path("/sys/class/net").iterdir()
    }
    cards = [found[agent.mac_address(number, rail)] for rail in range(rails)]
    for prefix, names in (("card", cards), ("eth", [f"card{rail}" for rail in range(rails)])):
        for rail, name in enumerate(names):
            run("ip", "link", "set", name, "name", f"{prefix}{rail}")


def slow_far(rails, swapped=False):
    """Makes the queues slow that the processors of the other socket use.

    :param swapped: make those of the same socket slow instead.
    """
    for rail in range(rails):
        near = vm.socket_of(rail, rails)
        run("tc", "qdisc", "replace", "dev", f"eth{rail}", "root", "handle", "1:", "mq")
        for socket in range(vm.SOCKETS):
            # A second `replace` of mq keeps its queues, so the fast one is set as well.
            kind = ("pfifo", "limit", WAITING)
            if (socket == near) == swapped:
                kind = ("netem", "limit", WAITING, "delay", f"{FAR_MS}ms", "rate", FAR_RATE)
            queue = ("parent", f"1:{socket + 1}")
            run("tc", "qdisc", "replace", "dev", f"eth{rail}", *queue, *kind)
