"""ib_write_bw or ib_send_lat without a device: a recorded output with what was asked put into it.

The client sends the bytes of the test over TCP, so that the counters of ``lo`` grow as those of a
port would. No side has a time limit of its own. A test starts the program hundreds of times, so it
imports little. The words are FAULT, PROGRAM, the host of a client, options; FAULT is ``none``, or:

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

# The import of pathlib takes half as long as all the rest.
# ruff: noqa: PTH110, PTH118, PTH120, PTH123
import os
import socket
import sys

DATA = os.path.join(os.path.dirname(__file__), "../data/ib-perftest")

fault, program, *words = sys.argv[1:]
host = "" if words[0].startswith("-") else words.pop(0)
#: Option -> its word; -F is the only one without a word.
words.remove("-F")
options = dict(zip(words[::2], words[1::2]))
size, asked = int(options["-s"]), int(options["-n"])
port = int(options["-p"])

if host:
    if fault == "dead":
        sys.exit(" Completion with error at client")
    with socket.create_connection((host, port)) as link:
        if fault != "elsewhere":
            link.sendall(bytes(size * asked))
        # Until the server has all of them, bytes may wait in this node and count nowhere.
        link.shutdown(socket.SHUT_WR)
        link.recv(1)
else:
    with socket.create_server(("", port)) as server, server.accept()[0] as link:
        while link.recv(1 << 20):
            pass

slow = {"slow-rail": ("node03", "node04"), "slow-way": ("node03",) if host else ()}
half = 2 if socket.gethostname() in slow.get(fault, ()) else 1
done = asked // 2 if fault == "fewer" else asked
if program == "ib_write_bw":
    # The recorded rate of messages, for messages of this size.
    row = f" {size} {done} 2.37 {28.2 / half * size / 2**20:.2f} {0.0000282 / half:.6f}"
    if size < 1 << 20:
        row = f" {size} {done} 2000.00 {2000 * size / 2**20:.2f} 0.002000"
else:
    row = f" {size} {done} 1822.13 57264.32 12765.77 14428.29 7855.85 51771.54 57264.32"
side = "client" if host else "server"
name = f"{program}.{side}"
if fault.startswith("no-clock") and host and not os.path.exists("no-clock.before"):
    if fault == "no-clock-once":
        open("no-clock.before", "w").close()
    name = f"no-clock.{program}.client"
    row = f" {size} {done} 0.00 0.00 0.000000"
with open(f"{DATA}/4.5.{name}.txt") as file:
    lines = file.read().split("\n")
#: Each row of numbers in the output becomes the row of this launch.
lines = [row if line.split()[1:2] and line.split()[0].isdigit() else line for line in lines]
text = "\n".join(lines)
text = text.replace(": rxe0", ": rxe9" if fault == "device" else f": {options['-d']}")
if fault == "torn" and host:
    text = text[: text.rindex("---") - 84]
sys.stdout.write(text)
