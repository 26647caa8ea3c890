"""ib_write_bw or ib_send_lat without a device: a recorded output with what was asked put into it.

The client sends the bytes of the test over TCP, so that the counters of ``lo`` grow as those of a
port would. The words are FAULT, PROGRAM, the host of a client, options; FAULT is ``none``, or:

=============  =============================================
``elsewhere``  the bytes do not cross the link
``device``     the programs take another device
``fewer``      half of the iterations are done
``torn``       the client's output ends before its last line
``dead``       the client fails
``slow-rail``  node03 and node04 have half of the rate; ``slow-way``: node03 has it as the client
``no-clock``   the client cannot tell the clock; ``no-clock-once``: its first launch cannot
=============  =============================================
"""

import argparse
import re
import socket
import sys
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "ib-perftest"

parser = argparse.ArgumentParser()
for name in ("fault", "program"):
    parser.add_argument(name)
parser.add_argument("host", nargs="?")
for letter in "pnsixu":
    parser.add_argument(f"-{letter}", type=int)
parser.add_argument("-d")
parser.add_argument("-F", action="store_true")
asked = parser.parse_args()

if asked.host:
    if asked.fault == "dead":
        sys.exit(" Completion with error at client")
    with socket.create_connection((asked.host, asked.p), timeout=20) as link:
        if asked.fault != "elsewhere":
            link.sendall(bytes(asked.s * asked.n))
else:
    with socket.create_server(("", asked.p)) as server, server.accept()[0] as link:
        while link.recv(1 << 20):
            pass

slow = {"slow-rail": ("node03", "node04"), "slow-way": ("node03",) if asked.host else ()}
half = 2 if socket.gethostname() in slow.get(asked.fault, ()) else 1
done = asked.n // 2 if asked.fault == "fewer" else asked.n
if asked.program == "ib_write_bw":
    # The recorded rate of messages, for messages of this size.
    row = f" {asked.s} {done} 2.37 {28.2 / half * asked.s / 2**20:.2f} {0.0000282 / half:.6f}"
    if asked.s < 1 << 20:
        row = f" {asked.s} {done} 2000.00 {2000 * asked.s / 2**20:.2f} 0.002000"
else:
    row = f" {asked.s} {done} 1822.13 57264.32 12765.77 14428.29 7855.85 51771.54 57264.32"
side = "client" if asked.host else "server"
before = Path("no-clock.before")
if asked.fault.startswith("no-clock") and asked.host and not before.exists():
    if asked.fault == "no-clock-once":
        before.touch()
    side = "no-clock"
    row = f" {asked.s} {done} 0.00 0.00 0.000000"
name = f"no-clock.{asked.program}.client" if side == "no-clock" else f"{asked.program}.{side}"
text = (DATA / f"4.5.{name}.txt").read_text()
text = re.sub(r"(?m)^ \d+ +\d+ .*$", row, text)
text = text.replace(": rxe0", ": rxe9" if asked.fault == "device" else f": {asked.d}")
if asked.fault == "torn" and asked.host:
    text = text[: text.rindex("---") - 84]
sys.stdout.write(text)
