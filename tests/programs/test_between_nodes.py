"""Runs between nodes: the ranks use the requested nodes, and the link counts their bytes."""

import os
import sys

import pytest
from bench import PORTS, REPLAY, Recorded, live_ucx, run_reframe

pytestmark = pytest.mark.slow

#: Two names, but one node: the job has no other.
HERE = os.uname().nodename
ELSEWHERE = f"{HERE}.elsewhere"
RUNS = {name: Recorded.load(f"osu-{name}-tcp") for name in ("latency", "allreduce")}
LATENCY = RUNS["latency"]

#: Sends over lo at least the bytes that `osu_latency` needs: each size 20 times in both directions.
#: The counters of lo count every byte twice, like the links of two nodes together.
SEND = """
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
sender = socket.create_connection(listener.getsockname())
receiver, _ = listener.accept()
piece = bytes(1 << 20)
def send():
    for _ in range(170):
        sender.sendall(piece)
    sender.close()
threading.Thread(target=send).start()
while receiver.recv(1 << 20):
    pass
"""


def between_nodes(bench, **more):
    extras = {"network_device": "lo", **more.pop("extras", {})}
    features = ["inter-node", "tcp", *more.pop("features", [])]
    bench.partition(features=features, extras=extras, **more)


def replays(bench, recorded):
    stated = {"osu_version": "5.7", "ucx_version": "1.13.1"}
    bench.replays("osu_latency", ["osu"], {"recorded": recorded}, **stated)


def two_hosts(recorded):
    """The recorded run, changed as if its second rank had been on another host."""
    ranks = [name.split(".")[2] for name in recorded.files if name.startswith("ucx.")]
    for rank, host in zip(ranks, (HERE, ELSEWHERE)):
        recorded = recorded.but(
            stderr=recorded.stderr.replace(f"[vm:{rank}]", f"[{host}:{rank}]"),
            files={
                name: text.replace(f"[vm:{rank} ", f"[{host}:{rank} ")
                for name, text in recorded.files.items()
            },
        )
    return recorded


def replayed(bench, program, before="true", of="latency", first=""):
    """Runs a test of OSU on a recorded run, while the witness of the link watches `program`.

    The launcher of a replay takes no options, so this function puts the rank under its
    witness. `before` is a shell command before it, and `first` one before all.
    """
    readings = "".join(
        f"{when} {ELSEWHERE} lo counters rx_bytes={value} tx_bytes={value}\n"
        for when, value in (("before", 0), ("after", 10**9))
    )
    recorded = two_hosts(RUNS[of])
    bench.replay(
        "recorded",
        f"osu_{of}",
        recorded.but(files={**recorded.files, f"link.{ELSEWHERE}.7": readings}),
    )
    (bench.folder / "program.py").write_text(program)
    script = REPLAY.replace("HERE", str(bench.folder / f"recorded/recorded/osu_{of}")).replace(
        "exit RC", f"{before}; exec ./link-witness.sh lo {sys.executable} {bench.folder}/program.py"
    )
    script = script.replace('of_now "$here/stderr"', f'{first}\nof_now "$here/stderr"')
    between_nodes(bench, launcher="replay", extras={"cores_per_node": 1})
    path = bench.program("replayed", f"osu_{of}", script)
    bench.stack("replayed", ["osu"], path, osu_version="5.7", ucx_version="1.13.1")
    return latency(bench, of=of)


def latency(bench, transport="tcp", of="latency"):
    return bench.run("-n", f"Osu%.*{transport}.*={of}$", path="reframe/network/osu.py")


def test_bytes_that_crossed_the_link_are_on_its_record(bench):
    outcome = replayed(bench, SEND).says("Osu ")
    link = outcome.record["proof"]["link"]
    assert link["device"] == "lo"
    assert sum(link["moved"][HERE].values()) >= link["needed"] > 0
    assert outcome.record["proof"]["hosts"] == {HERE: 1, ELSEWHERE: 1}


def test_bytes_that_took_another_way(bench):
    """The witness reads made counters: other programs may send anything over lo at any time."""
    made = bench.folder / "made"
    counters = made / "net" / "lo" / "statistics"
    counters.mkdir(parents=True)
    for name in ("rx_bytes", "tx_bytes"):
        (counters / name).write_text("1000\n")
    few = (
        "from pathlib import Path\n"
        f"for counter in Path({str(counters)!r}).iterdir():\n"
        "    counter.write_text('5500\\n')\n"
    )
    outcome = replayed(bench, few, f"sed -i 's|/sys/class|{made}|' link-witness.sh")
    said = f"{HERE} moved 9 kB over lo, the benchmark moves at least 335.5 MB: the bytes took"
    outcome.says("Osu ", f"{said} another way")


def test_a_world_on_one_node_where_two_were_asked_for(bench):
    version = live_ucx()
    if not (PORTS / "osu_latency.py").exists():
        pytest.skip("needs the Python ports of the OSU tests: make setup")
    between_nodes(bench)
    command = f"{sys.executable} {PORTS}/osu_{{benchmark}}.py"
    bench.stack("live", ["osu-py"], ucx_version=version, osu_py_command=command)
    run = bench.run("-n", "OsuPy.*tcp.*=latency$", "--mode", "smoke", path="reframe/network/osu.py")
    outcome = run.says("OsuPy", f"2 on {HERE}; 1 on each of 2 nodes were asked for")
    # The arguments of its function make the output short, but it is complete.
    assert not [problem for problem in outcome.record["problems"] if "incomplete" in problem]


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ("intra-node and inter-node exclude each other", {"features": ["intra-node"]}),
        ("nodes is 1; between nodes takes at least 2", {"extras": {"nodes": 1}}),
    ],
)
def test_a_partition_that_contradicts_itself(bench, said, more):
    between_nodes(bench, **more)
    replays(bench, LATENCY)
    latency(bench).says("Osu ", "reframe.py: partition 'here': ", said)


def test_shared_memory_is_not_measured_between_nodes(bench):
    between_nodes(bench, features=["posix"])
    replays(bench, LATENCY)
    assert latency(bench, "posix").cases == {}


@pytest.mark.parametrize(
    ("link", "mode", "repeats"),
    [
        ({"link": "infiniband-fdr"}, "full", 300),
        ({"link": "slow"}, "full", 21),
        ({"link": "slow"}, "smoke", 5),
        ({}, "smoke", 5),
    ],
)
def test_netpipe_repeats_less_on_a_slow_link(bench, link, mode, repeats):
    extras = {"network_device": "lo", "nodes": 2, "hardware": link}
    slow = "link: {slow: {bandwidth: 125, source: 1 Gbit/s}}\n"
    (bench.site / "hardware.yaml").write_text(slow)
    bench.partition(features=["inter-node", "tcp"], extras=extras)
    bench.stack("any", ["netpipe", "mpi", "ucx"], ucx_version="1.18.1")
    arguments = ("-c", "reframe/network/netpipe.py", "--dry-run", "--mode", mode)
    run = run_reframe(bench.write(), bench.results, *arguments)
    (script,) = bench.results.glob("stage/**/rfm_job.sh")
    assert f" -n {repeats}\n" in script.read_text(), run.output


@pytest.mark.parametrize(
    ("features", "stated", "asked"),
    [
        (["osu"], {"osu_version": "7.4"}, "osu_bw -c -m 8:1048576 -i 30 -x 2 -W 4\n"),
        (
            ["osu-py"],
            {"osu_py_command": "python3 osu_{benchmark}.py"},
            "osu_port.py osu_bw.py loop=30 skip=2 loop_large=3 skip_large=2 MAX_MSG_SIZE=1048576 "
            "window_size=4 window_size_large=4\n",
        ),
    ],
)
def test_the_two_numbers_of_a_site_are_those_of_the_smoke_profile(bench, features, stated, asked):
    options = {"OsuBase.smoke_iterations": 30, "OsuBase.smoke_window": 4}
    between_nodes(bench, extras={"nodes": 2, "options": options})
    bench.stack("any", features, ucx_version="1.18.1", **stated)
    arguments = ("-c", "reframe/network/osu.py", "--dry-run", "-n", "^Osu(Py)?%.*=bw$")
    for mode, there in (("smoke", True), ("full", False)):
        run = run_reframe(bench.write(), bench.results / mode, *arguments, "--mode", mode)
        (script,) = (bench.results / mode).glob("stage/**/rfm_job.sh")
        assert (asked in script.read_text()) is there, run.output


#: What the program does in the first sweep of its job: a healthy cloud, and two that are not.
FIRST = {
    "spiked": "of_now \"$here/stdout\" | sed 's/ 30.45/ 304.5/'; exit",
    "crashed": "exit 139",
    "torn": 'of_now "$here/stdout" | head -n 9; exit',
}


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("spiked", None),
        ("crashed", "first-sweep.out, before the sweep that is judged: exit code 139"),
        ("torn", "first-sweep.out, before the sweep that is judged: the output is incomplete"),
    ],
)
def test_of_two_sweeps_of_a_collective_the_second_is_judged_and_both_are_recorded(
    bench, first, said
):
    once = f"[ -e first ] || {{ touch first; {FIRST[first]}; }}"
    outcome = replayed(bench, SEND, of="allreduce", first=once)
    outcome = outcome.says("Osu ", *([said] if said else []))
    latency = {row["size"]: row["latency"] for row in outcome.record["parsed"]["rows"]}
    assert latency[8] == 30.45
    if said is None:
        assert outcome.record["metrics"]["latency_8B"]["samples"][0] == 30.45
        assert outcome.record["first_sweep"][1] == {"size": 8, "latency": 304.5}
