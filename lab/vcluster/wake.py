#!/usr/bin/env python3
"""Lets the network driver of a node's kernel find packets that it missed.

``wake.py MAC TAP`` runs in the node's machine, beside the kernel (uml.py). Now and then the driver
(uml-vector of Linux 6.1) misses the signal for a packet, and finds it with the next one. A rank
that waits for this packet waits until a timer of soft-RoCE sends it again, and for ever if the
sender has ended meanwhile. So each node gets a small packet regularly: an answer of ARP for nobody,
which its kernel throws away without counting it as lost.
"""

import contextlib
import socket
import struct
import sys
import time

#: Time between two packets [s]: the longest time that a packet can lie there.
PAUSE_S = 0.005

ARP, ETHERNET, IPV4, ANSWER = 0x0806, 1, 0x0800, 2

#: Sender of the packets: an address of no machine.
NOBODY = bytes.fromhex("02a5ffffffff")


def packet(mac):
    """A frame for the network card with this address."""
    target = bytes.fromhex(mac.replace(":", ""))
    kind = struct.pack("!HHBBH", ETHERNET, IPV4, 6, 4, ANSWER)
    arp = kind + NOBODY + bytes(4) + target + bytes(4)
    return target + NOBODY + struct.pack("!H", ARP) + arp


def main(mac, tap):
    card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    card.bind((tap, ARP))
    frame = packet(mac)
    while True:
        with contextlib.suppress(OSError):  # a fault has taken the tap down
            card.send(frame)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
