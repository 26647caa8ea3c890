"""The counters of an InfiniBand or RoCE port: where the kernel keeps them, and what they mean.

The folder ``counters`` is that of InfiniBand; its data are in words of 4 B
(Documentation/ABI/stable/sysfs-class-infiniband of Linux; not yet run on hardware). The folder
``hw_counters`` is the driver's own. Soft-RoCE has only the latter, and counts packets instead of
bytes (drivers/infiniband/sw/rxe/rxe_hw_counters.c of Linux 6.1).
"""

import contextlib
import os
from collections.abc import Mapping

PORTS = "/sys/class/infiniband"
FOLDERS = ("counters", "hw_counters")

#: Names of what an interface or a port received and sent, with the bytes of one count. A packet has
#: at most 4096 B (the largest MTU of the InfiniBand specification), so packets are an upper bound.
INTERFACE = ("rx_bytes", "tx_bytes", 1)
BYTES = ("port_rcv_data", "port_xmit_data", 4)
PACKETS = ("rcvd_pkts", "sent_pkts", 4096)

#: Names of the packets that a port received and sent; the first pair that is there counts.
IN_PACKETS = (("port_rcv_packets", "port_xmit_packets"), PACKETS[:2])


def of_port(device: str, root: str = PORTS) -> "dict | None":
    """All counters of a port such as ``mlx5_0:1``: name -> count; None if there is no such port."""
    name, _, port = device.partition(":")
    at = os.path.join(root, name, "ports", port or "1")
    if not os.path.isdir(at):
        return None
    found = {}
    for folder in reversed(FOLDERS):  # the names of InfiniBand win
        with contextlib.suppress(OSError):
            for counter in sorted(os.listdir(os.path.join(at, folder))):
                path = os.path.join(at, folder, counter)
                with contextlib.suppress(OSError, ValueError), open(path) as file:
                    found[counter] = int(file.read())
    return found


def traffic(counters: Mapping) -> "tuple | None":
    """Bytes received and sent, and whether they follow from packets; None if neither is counted."""
    for received, sent, unit in (INTERFACE, BYTES, PACKETS):
        if received in counters and sent in counters:
            return counters[received] * unit, counters[sent] * unit, unit == PACKETS[2]
    return None


def packets(counters: Mapping) -> "tuple | None":
    """Packets that the port has received and sent; None if it does not count them."""
    for received, sent in IN_PACKETS:
        if received in counters and sent in counters:
            return counters[received], counters[sent]
    return None
