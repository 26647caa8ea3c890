"""Writes what lscpu and dmidecode print of two nodes, and STREAM with any rate."""

import re

from real_outputs import DATA

#: As util-linux 2.39 prints it.
MILAN = """\
Architecture:            x86_64
  CPU op-mode(s):        32-bit, 64-bit
CPU(s):                  256
  On-line CPU(s) list:   0-255
Vendor ID:               AuthenticAMD
  Model name:            AMD EPYC 7763 64-Core Processor
    CPU family:          25
    Model:               1
    Thread(s) per core:  2
    Core(s) per socket:  64
    Socket(s):           2
    Stepping:            1
    Flags:               fpu vme avx avx2 sse
Caches (sum of all):
  L3:                    512 MiB (16 instances)
"""
#: As util-linux 2.32 prints it.
CASCADE = """\
Architecture:        x86_64
CPU(s):              80
Thread(s) per core:  2
Core(s) per socket:  20
Socket(s):           2
Vendor ID:           GenuineIntel
CPU family:          6
Model:               85
Model name:          Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz
Stepping:            7
L3 cache:            28160K
Flags:               fpu avx avx2 avx512f avx512_vnni
"""


def dimms(number, speed=3200):
    one = f"Memory Device\n\tSize: 32 GB\n\tType: DDR4\n\tConfigured Memory Speed: {speed} MT/s\n"
    return one * number


def stream(rate, threads=128, elements=400_000_000):
    """The recorded output with other numbers; all four functions move `rate` MB/s."""
    text = (DATA / "stream/healthy.txt").read_text()
    text = text.replace("20000000", str(elements)).replace("= 2\n", f"= {threads}\n")

    def row(found):
        took = (2 if found[1] in ("Copy", "Scale") else 3) * 8 * elements / rate / 1e6
        return f"{found[1]}:{rate:17.1f}{took * 1.01:13.6f}{took:13.6f}{took * 1.02:13.6f}"

    return re.sub(r"(?m)^(Copy|Scale|Add|Triad):.*$", row, text)


#: Two processors with all their modules.
AMD = MILAN + dimms(16)
