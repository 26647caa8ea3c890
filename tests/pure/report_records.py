"""Test cases with records like the real ones, for figures of which no real measurement exists here.

The numbers follow simple models of a cluster, so that the figures can be inspected. No test uses
them as measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assay.declared import as_json
from assay.judge import Verdict
from assay.store.cases import Case, with_record
from studies.validation import figures

OSU = {
    "latency": {"size": "B", "latency": "us"},
    "bandwidth": {"size": "B", "bandwidth": "MB/s"},
}
HPL = {"n": "1", "nb": "1", "p": "1", "q": "1", "time": "s", "performance": "GFLOP/s"}
NPB = {"processes": "1", "time": "s", "mops_total": "Mop/s", "io_time": "s", "io_rate": "MB/s"}
IOZONE = {"file_size": "KiB", "record_size": "KiB", "write": "KiB/s", "read": "KiB/s"}

INTRA = ("all", "no-gdrcopy", "no-ipc", "no-ipc-no-gdrcopy")
INTER = ("all", "no-gdrcopy", "no-rdma", "no-rdma-no-gdrcopy")


def case(
    test: str,
    rows: Iterable[Mapping[str, Any]] = (),
    units: Mapping[str, str] | None = None,
    **others: Any,
) -> Case:
    """A case as a session reads it: a case without data, joined to a record of schema 1.

    An entry of `others` with the name of a field of a case sets this field. Any other entry is a
    parameter.
    """
    place = {"partition": "gpu", "environ": "spack", "kind": "network", "family": "osu"}
    given = {name: others.pop(name, value) for name, value in place.items()}
    given |= {n: others.pop(n) for n in ("program", "transport") if n in others}
    skipped, problems = others.pop("skipped", ""), others.pop("problems", [])
    hosts, metrics = others.pop("hosts", 1), others.pop("metrics", {})
    parameters = {name: str(value) for name, value in others.items()}
    words = [test, *(f"%{name}={value}" for name, value in parameters.items())]
    bare = Case(
        test, " ".join(words), "_".join(words), "cluster", given["partition"], given["environ"],
        None, why=skipped, parameters=parameters, kind=given["kind"],
        transport=given.get("transport", ""), figures=tuple(figures(test, parameters)),
    )  # fmt: skip
    if skipped:
        return bare
    verdict = Verdict.FAIL if problems else Verdict.RECORDED
    record = {
        **given,
        "verdict": verdict.value,
        "problems": problems,
        "test": test,
        "parameters": parameters,
        "figures": as_json(figures(test, parameters)),
        "metrics": metrics,
        "nodes": [f"node{n}" for n in range(hosts)],
        "proof": {"hosts": {f"node{n}": 1 for n in range(hosts)}},
        "parsed": {"rows": list(rows), "units": dict(units or {})},
    }
    return with_record(bare, record)


def osu(test: str, benchmark: str, start: float, rate: float, **others: Any) -> Case:
    """A curve: latency `start` [us] of a small message, rate `rate` [MB/s] of a large one."""
    sizes = [1 << step for step in range(23)]
    ranks = int(others.get("gpus") or others.get("ranks") or 2)
    times = [(ranks - 1) * (start + size / rate) for size in sizes]
    column = "bandwidth" if benchmark == "bw" else "latency"
    rows = [
        {"size": size, column: size / time if benchmark == "bw" else time}
        for size, time in zip(sizes, times)
    ]
    program = f"osu_{benchmark}"
    return case(test, rows, OSU[column], program=program, benchmark=benchmark, **others)


def hpl(nodes: int, orders: Mapping[int, float], peak: float | None = None, **others: Any) -> Case:
    """One case of HplStudy.

    :param orders: N -> T(P, N) [s].
    :param peak: PP(P) [GFLOP/s].
    """
    rows = [
        {"variant": "WR11C2R4", "n": order, "nb": 192, "p": nodes, "q": 4, "time": time,
         "performance": 2 / 3 * order**3 / time / 1e9, "residual": 0.003, "passed": True}
        for order, time in orders.items()
    ]  # fmt: skip
    best = max((row["performance"] for row in rows), default=1.0)
    metric: dict[str, Any] = {"value": best, "unit": "GFLOP/s", "verdict": "RECORDED"}
    if peak is not None:
        percent = 100 * best / peak if peak else 0.0
        metric["percent_of"] = {
            "what": "nodes", "peak": peak, "unit": "GFLOP/s", "percent": percent,
        }  # fmt: skip
    given = {
        "test": "HplStudy", "program": "xhpl", "kind": "compute", "family": "hpl",
        "partition": "infiniband", "hosts": nodes, "metrics": {"performance": metric}, **others,
    }  # fmt: skip
    return case(given.pop("test"), rows, HPL, nodes=nodes, **given)


def btio(partition: str, ranks: int, time: float, io_time: float, **others: Any) -> Case:
    """One run of BT-IO, class E."""
    rows = [
        {"class": "E", "size": "1020x1020x1020", "iterations": 250, "processes": ranks,
         "time": time, "mops_total": 2.9e7 / time, "mops_per_process": 2.9e7 / time / ranks,
         "io_time": io_time, "io_share": 100 * io_time / time, "io_verify_time": 1.0,
         "io_written": 2122416.0, "io_rate": 2122416.0 / io_time if io_time else 1.0}
    ]  # fmt: skip
    given = {
        "program": "bt.E.x.mpi_io_simple", "kind": "storage", "family": "npb", "subtype": "simple",
        "mpi_io": "ompio", "npb_class": "E", "partition": partition, "hosts": ranks, **others,
    }  # fmt: skip
    return case("BtIo", rows, NPB, ranks=ranks, **given)


def iozone(partition: str, sync: str, fastest: float, **others: Any) -> Case:
    """A table of IOzone. The best cell of the reads has the rate `fastest` [KiB/s]."""
    slow = {"cached": 2, "o_sync": 40}.get(sync, 10)
    rows = [
        {"file_size": 1 << f, "record_size": 1 << r,
         "read": round(fastest / (1 + 64 / (1 << r)) / (1 + (1 << f) / (1 << 18))),
         "write": round(fastest / slow / (1 + 256 / (1 << r)) / (1 + (1 << f) / (1 << 17)))}
        for f in range(10, 20, 2) for r in range(4, 12, 2) if r <= f
    ]  # fmt: skip
    given = {"program": "iozone", "kind": "storage", "family": "iozone", **others}
    return case("Iozone", rows, IOZONE, partition=partition, sync=sync, **given)


def cluster() -> list[Case]:
    """A validation without P = 4 between nodes and without 16 nodes, and with some failed runs."""
    return [
        *gpus("gpu", INTRA, 1, 2.0, 45e3),
        *gpus("gpu-infiniband", INTER, 2, 3.0, 11e3),
        *hosts(),
        *hpl_study(),
        *storage(),
    ]


def gpus(
    partition: str, ways: Iterable[str], nodes: int, start: float, rate: float
) -> Iterator[Case]:
    """All configurations at one place. With `no-ipc`, point-to-point failed."""
    for number, way in enumerate(ways, 1):
        here = {"partition": partition, "configuration": way}
        slower = {"start": start * number, "rate": rate / (1 + number / 4)}
        problems = ["no lane of cuda_ipc between the processes"] if way == "no-ipc" else []
        for benchmark in ("latency", "bw"):
            yield osu(
                "OsuGpu", benchmark, **slower, buffers="DD", hosts=nodes, problems=problems, **here
            )
        for benchmark in ("bcast", "gather", "reduce", "allreduce", "alltoall"):
            for count in (2, 3, 4) if nodes == 1 else (2, 3):
                across = count if nodes > 1 else 1
                yield osu("OsuGpuCollective", benchmark, **slower, gpus=count, hosts=across, **here)


def hosts() -> Iterator[Case]:
    """Three transports within a node that were measured, and one that was not."""
    for number, transport in enumerate(("posix", "cma", "tcp"), 1):
        for benchmark in ("latency", "bw"):
            here = {"partition": "intra-node", "transport": transport}
            yield osu("Osu", benchmark, 0.3 * number**3, 9e3 / number, **here)
    yield case(
        "Osu", partition="intra-node", benchmark="latency", transport="sysv",
        skipped="UCX 1.20.0 cannot run sysv",
    )  # fmt: skip


def hpl_study() -> Iterator[Case]:
    """P from 1 to 8. The largest N does not fit on one node, and there are no 16 nodes."""
    for nodes in (1, 2, 4, 8):
        yield hpl(
            nodes,
            {
                order: 2 / 3 * order**3 / (9e12 * nodes ** (0.75 + order / 1.2e6)) + 3 * nodes**0.5
                for order in (40_000, 80_000, 120_000, 160_000)
                if order < 160_000 or nodes > 1
            },
            peak=31_000.0 * nodes,
        )
    yield hpl(16, {}, skipped="16 nodes are needed, infiniband has 8")


def storage() -> Iterator[Case]:
    """Four file systems, with BT-IO on two of them. One file system was full."""
    for partition, fast in (("lustre-hdd", 1.0), ("lustre-ssd", 1.6)):
        for ranks in (4, 9, 16, 25):
            writing = (900 + 60 * ranks) / fast
            full = (partition, ranks) == ("lustre-hdd", 25)
            yield btio(
                partition, ranks, 26_000 / ranks + writing, writing,
                problems=["the file system is full"] if full else [],
            )  # fmt: skip
    fastest = {"lustre-hdd": 5e6, "lustre-ssd": 6e6, "sata-ssd": 7e6, "nvme": 9e6}
    for partition, rate in fastest.items():
        for sync in ("cached", "o_sync"):
            yield iozone(partition, sync, rate)
