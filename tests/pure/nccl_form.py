"""Writes outputs in the form of nccl-tests and rccl-tests, with made-up numbers.

The form follows the calls of printf in src/common.cu and src/util.cu, and in debug.cc, p2p.cc,
shm.cc and net.cc of NCCL. `python tests/pure/nccl_form.py` writes tests/data/nccl-tests.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    **dict.fromkeys(("broadcast", "reduce", "sendrecv"), lambda _: 1),
    **dict.fromkeys(("all_gather", "reduce_scatter", "alltoall"), lambda n: (n - 1) / n),
}
SPREAD = ("all_gather", "reduce_scatter", "alltoall")
#: What each program prints as operation and root, and which of them had a column until 2.12.
WORDS = {
    "all_reduce": ("sum", -1), "reduce_scatter": ("sum", -1), "sendrecv": ("sum", -1),
    "all_gather": ("none", -1), "alltoall": ("none", -1), "broadcast": ("none", 0),
    "reduce": ("sum", 0),
}  # fmt: skip
OLD = {
    **dict.fromkeys(("all_reduce", "reduce_scatter", "alltoall"), ("redop",)),
    **{"reduce": ("redop", "root"), "broadcast": ("root",)},
}


def log(node: str, gpu: int, said: str) -> str:
    return f"{node}:{4000 + gpu}:{4100 + gpu} [{gpu}] NCCL INFO {said}"


def path(nodes: int, gpus: int, near: str, far: str) -> list[str]:
    """The log of a ring: `near` in a node, `far` between nodes."""
    ranks = [*product(range(1, nodes + 1), range(gpus))]
    lines = ["NCCL version 2.21.5+cuda12.4"]
    lines += [log(f"n{n}", g, "Using network " + far.split("/")[1]) for n, g in ranks]
    for rank, (n, g) in enumerate(ranks):
        other = (rank + 1) % len(ranks)
        to, of = f"n{ranks[other][0]}", ranks[other][1]
        pair = f"Channel 00/0 : {rank}[{g}] -> {other}[{of}]"
        if to == f"n{n}":
            lines.append(log(f"n{n}", g, f"{pair} via {near}"))
        else:
            lines.append(log(f"n{n}", g, f"{pair} [send] via {far}"))
            lines.append(log(to, of, f"{pair} [receive] via {far}"))
    lines += [log(f"n{n}", g, "Connected all rings") for n, g in ranks]
    words = "2 coll channels, 2 collnet channels, 0 nvls channels, 4 p2p channels"
    return [*lines, *(log(f"n{n}", g, f"{words}, 2 p2p channels per peer") for n, g in ranks)]


def output(  # noqa: PLR0913
    program: str = "all_reduce",
    version: tuple[int, int] = (2, 17),
    *,
    nodes: int = 1,
    gpus: int = 4,
    sizes: int = 6,
    logged: tuple[str, ...] | None = None,
    rccl: bool = False,
    timed: bool = False,
    places: int = 2,
    first: int = 1024,
    step: int = 4,
) -> str:
    """The output of one test from `first` bytes on, each size `step` times the one before."""
    n, named = nodes * gpus, version >= (2, 17) and not rccl
    old = version < (2, 13)
    last = first * step ** (sizes - 1)
    lines = []
    if named:
        lines += [
            f"# nccl-tests version {version[0]}.{version[1]}.3 nccl-headers=22105 "
            "nccl-library=22105",
            f"# Collective test starting: {program}_perf",
        ]
    more = ("", "") if old else (" agg iters: 1", " graph: 0")
    lines += [
        f"# nThread 1 nGpus 1 minBytes {first} maxBytes {last} step: {step}(factor) "
        f"warmup iters: 5 iters: 20{more[0]} validation: 1{more[1]}" + " " * old,
        "#",
        *(["rccl-tests: Version 3a1f9c2"] if rccl else []),
        "# Using devices",
    ]
    for rank, (node, gpu) in enumerate(product(range(1, nodes + 1), range(gpus))):
        group = "" if old or rccl else " Group  0"
        lines.append(
            f"#  Rank {rank:2}{group} Pid {4000 + gpu:6} on {f'n{node}':>10} device {gpu:2} "
            f"[{'0x' + format(16 + gpu, '02x') if old else f'0000:{16 + gpu:02x}:00'}] Model G8"
        )
    lines += path(nodes, gpus, *logged) if logged else []
    columns = ["size", "count", "type", *(OLD.get(program, ()) if old else ("redop", "root"))]
    wrong = "error" if old else "#wrong"
    stamp = ["timestamp"] if timed else []
    each = ["time", "algbw", "busbw", wrong, *(["i_min", "i_max", "i_p99", "i_cv%"] * timed)]
    lines += [
        "#",
        "#" + " " * 60 + ("out-of-place            " if places == 2 else "") + "in-place          ",
        "#" + "".join(f"  {name:>10}" for name in [*columns, *each * places, *stamp]),
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
    ]
    rates, operation, root = [], *WORDS[program]
    for k in range(sizes):
        size = first * step**k
        count = size // 4 // (n if program in SPREAD else 1)
        words = {"redop": "" if old and operation == "none" else operation, "root": f"{root}"}
        row = [f"{size:12}", f"{count:12}", f"{'float':>8}"]
        row += [f"{words[name]:>6}" for name in columns[3:]]
        for place in range(2 - places, 2):
            time = 20 + 0.7 * place + size / 90e3
            rate = size / time / 1e3
            rates.append(rate * FACTORS[program](n))
            unchecked = place and program in ("alltoall", "sendrecv")
            none = "0e+00" if old else "0"
            row += [f"{time:7.2f}", f"{rate:6.2f}", f"{rates[-1]:6.2f}"]
            row += [f"{'N/A' if unchecked else none:>6}"]
            row += [f"{time - 1:7.2f}", f"{time + 2:7.2f}", f"{time + 1:7.2f}", "   3.10"] * timed
        lines.append("  ".join(row) + "  2026-03-04 05:06:07" * timed)
    lines += [
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {sum(rates) / len(rates):g} ",
    ]
    lines += ["#", *([f"# Collective test concluded: {program}_perf", ""] if named else [""])]
    return "\n".join([*lines, ""])


FILES = {
    "all_reduce.2.8.g4": output(version=(2, 8)),
    "alltoall.2.10.g4": output("alltoall", (2, 10)),
    "all_reduce.2.14.n2g2.log": output(
        version=(2, 14), nodes=2, gpus=2, logged=("P2P/CUMEM/read", "NET/IB/0/GDRDMA")
    ),
    "sendrecv.2.17.n2g1": output("sendrecv", nodes=2, gpus=1),
    "reduce_scatter.2.19.g4.timed": output("reduce_scatter", (2, 19), timed=True),
    "all_gather.rccl.g4": output("all_gather", (2, 13), rccl=True),
}

if __name__ == "__main__":
    for name, text in FILES.items():
        (Path(__file__).parents[1] / "data/nccl-tests" / f"{name}.txt").write_text(text)
