"""Counters of the link: their values, what they prove, and the witness of each rank."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from bench import DATA

from assay.node import port_counters
from assay.prove import links
from assay.prove.links import (
    Reading,
    message_bytes,
    misrouted,
    parse_link_counters,
    prove_crossing,
)
from assay.workloads.hpl_input import linpack_bytes
from assay.workloads.sizing import Grid, Layout, SizingError, even_ranks, spread, usable_ranks

PAIR = Layout(2, 1)


def readings(host, before, after, device="eth0"):
    return "".join(
        f"{when} {host} {device} counters rx_bytes={value} tx_bytes={value}\n"
        for when, value in (("before", before), ("after", after))
    )


def launch(**hosts):
    """One rank on each host: name -> (before, after), the same for both directions."""
    return {f"link.{host}.7": readings(host, *ends) for host, ends in hosts.items()}


# --- readings -----------------------------------------------------------------------------------


def test_bytes_of_a_port_come_before_its_packets():
    words = "port_rcv_data=3 port_xmit_data=5 rcvd_pkts=9 sent_pkts=9"
    assert port_counters.traffic(counted(words)) == (12, 20, False)
    text = f"before n1 mlx5_0:1 counters {words}\nafter n1 mlx5_0:1 counters {words}\n"
    assert parse_link_counters(text)[0] == Reading("before", "n1", "mlx5_0:1", counted(words))


def counted(words):
    return {name: int(value) for name, value in (word.split("=") for word in words.split())}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "ends before the program did"),
        (readings("n1", 1, 2).splitlines()[0] + "\n", "ends before the program did"),
        (readings("n1", 1, 2)[:-30], "line 2 is not a reading"),
        (readings("n1", 1, 2)[:-1], "line 2 is not a reading"),
        ("before n1 eth0 counters rx_bytes=-1 tx_bytes=2\n", "line 1 is not a reading"),
        (readings("n1", 1, 2).replace("after n1 eth0", "after n1 eth1"), "ends before"),
    ],
)
def test_a_torn_file_is_named(text, said):
    with pytest.raises(ValueError, match=said):
        parse_link_counters(text)
    assert prove_crossing({"link.n1.7": text}, PAIR, 0).problems[0].startswith("link.n1.7: ")


# --- proof --------------------------------------------------------------------------------------


def test_bytes_that_crossed_are_counted_on_each_node():
    crossing = prove_crossing(launch(n1=(100, 600), n2=(0, 500)), PAIR, 1000)
    assert crossing.problems == ()
    assert crossing.moved["n1"] == {"received": 500, "sent": 500}


def test_ranks_of_a_node_read_the_same_counter():
    files = {"link.n1.7": readings("n1", 100, 600), "link.n1.8": readings("n1", 110, 620)}
    crossing = prove_crossing(files, Layout(1, 2), 0)
    assert crossing.problems == ()
    assert crossing.moved["n1"] == {"received": 520, "sent": 520}


def test_several_devices_of_a_node_are_added():
    text = (
        "before n1 a counters rx_bytes=0 tx_bytes=0\nbefore n1 b counters rx_bytes=0 tx_bytes=0\n"
        "after n1 a counters rx_bytes=5 tx_bytes=1\nafter n1 b counters rx_bytes=7 tx_bytes=2\n"
    )
    assert prove_crossing({"link.n1.7": text}, Layout(1, 1), 15).problems == ()
    assert prove_crossing({"link.n1.7": text}, Layout(1, 1), 16).problems


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (launch(n1=(0, 500), n2=(0, 499)), "n2 moved 998 B over eth0, the benchmark moves at"),
        (launch(n1=(0, 500)), "1 ranks left readings of their link, 2 were started"),
        ({}, "0 ranks left readings"),
        (launch(n1=(0, 500), n2=(900, 3)), "eth0 on n2: it had received 900 B before and 3 B"),
        (
            {
                **launch(n1=(0, 500)),
                "link.n2.7": "before n2 eth0 missing\nafter n2 eth0 missing\n",
            },
            "eth0 on n2: there is no such device",
        ),
    ],
)
def test_what_is_not_proven_is_a_problem(files, said):
    problems = prove_crossing(files, PAIR, 1000).problems
    assert len(problems) == 1
    assert said in problems[0]


# --- ports ---------------------------------------------------------------------------------------

#: Counters of rxe0 after a run over soft-RoCE of 2026-11-21.
HEALTHY = "rcvd_pkts=2387 sent_pkts=15927"


def ports(**hosts):
    """One rank on each host: name -> its counters after the program; they began at 0."""
    files = {}
    for host, after in hosts.items():
        ends = {"before": re.sub("=[0-9]+", "=0", after), "after": after}
        lines = [f"{when} {host} rxe0:1 counters {said}".rstrip() for when, said in ends.items()]
        files[f"link.{host}.7"] = "".join(f"{line}\n" for line in lines)
    return files


def test_a_port_that_counts_packets_has_moved_at_most_what_fits_into_them():
    crossing = prove_crossing(ports(n1=HEALTHY, n2=HEALTHY), PAIR, 200 * 64 * 1024)
    assert (crossing.problems, crossing.unavailable) == ((), ())
    assert crossing.moved["n1"] == {"received": 2387 * 4096, "sent": 15927 * 4096}

    (problem,) = prove_crossing(ports(n1=HEALTHY, n2="rcvd_pkts=9 sent_pkts=7"), PAIR, 1e6).problems
    assert problem == (
        "n2 moved at most 65.54 kB over rxe0:1, the benchmark moves at least 1 MB: the bytes "
        "took another way"
    )


def test_a_port_that_counts_nothing_is_neither_a_fault_nor_a_proof():
    crossing = prove_crossing(ports(n1=HEALTHY, n2=""), PAIR, 1000)
    assert crossing.problems == ()
    assert crossing.unavailable == (
        "rxe0:1 on n2 counts neither bytes nor packets: nothing shows whether the bytes crossed it",
    )


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        (("counters", "hw_counters"), "counters duplicate_request=7 port_rcv_data=9"),
        (("hw_counters",), "counters duplicate_request=7"),
        ((), "counters"),
        (None, "missing"),
    ],
)
def test_the_witness_and_the_pairs_read_what_a_port_has(tmp_path, folders, said):
    found = {"counters": {"port_rcv_data": "9"}, "hw_counters": {"duplicate_request": "7"}}
    port = tmp_path / "rxe0" / "ports" / "1"
    for folder in folders or ():
        (port / folder).mkdir(parents=True)
        for name, value in found[folder].items():
            (port / folder / name).write_text(f"{value}\n")
    if folders == ():
        port.mkdir(parents=True)
    script = tmp_path / "witness.sh"
    script.write_text(links.WITNESS.read_text().replace("/sys/class/infiniband", str(tmp_path)))
    subprocess.run(["sh", script, "rxe0:1", "true"], cwd=tmp_path, check=True)

    (left,) = tmp_path.glob("link.*")
    host = os.uname().nodename
    assert left.read_text() == f"before {host} rxe0:1 {said}\nafter {host} rxe0:1 {said}\n"
    counters = port_counters.of_port("rxe0:1", str(tmp_path))
    assert said == (
        "missing"
        if counters is None
        else " ".join(["counters", *(f"{name}={value}" for name, value in counters.items())])
    )


# --- rails ---------------------------------------------------------------------------------------

#: Packets of the sender in the recorded run over two rails (osu_bw, UCX 1.13.1, 2026-11-21).
TWO_RAILS = {"rxe0:1": (740, 3389), "rxe1:1": (36, 2688)}


def side_by_side(**changes):
    """The readings of a rank of that run, with other packets (received, sent) of some devices."""
    packets = {**TWO_RAILS, **{f"{name}:1": moved for name, moved in changes.items()}}
    lines = [
        f"{when} n1 {device} counters rcvd_pkts={got} sent_pkts={sent}\n"
        for when in ("before", "after")
        for device, (got, sent) in packets.items()
    ]
    half = len(packets)
    zero = [re.sub("=[0-9]+", "=0", line) for line in lines[:half]]
    return prove_crossing({"link.n1.7": "".join([*zero, *lines[half:]])}, Layout(1, 1), 1e6)


def test_two_rails_that_share_the_bytes_are_as_asked_for():
    crossing = side_by_side()
    assert crossing.problems == ()
    assert misrouted(crossing, list(TWO_RAILS)) == []


@pytest.mark.parametrize(
    ("changes", "asked", "said"),
    [
        (
            {"rxe1": (0, 0)},
            ["rxe0:1", "rxe1:1"],
            "rxe1:1 on n1 carried 0.0% of the bytes: each of 2 rails must carry at least 25.0%",
        ),
        (
            {"rxe1": (36, 688)},
            ["rxe0:1", "rxe1:1"],
            "rxe1:1 on n1 carried 14.9% of the bytes: each of 2 rails must carry at least 25.0%",
        ),
        ({}, ["rxe0:1"], "rxe1:1 on n1 carried 39.7% of the bytes, and was not asked for"),
    ],
    ids=["carries nothing", "carries little", "was not asked for"],
)
def test_a_rail_that_is_not_used_as_asked_is_named(changes, asked, said):
    assert misrouted(side_by_side(**changes), asked) == [said]


def recorded(run):
    """The files that the witnesses left in a real run over soft-RoCE."""
    paths = sorted((DATA / "links").glob(f"{run}.*.txt"))
    return {f"link.{path.name.split('.')[1]}.7": path.read_text() for path in paths}


def test_recorded_rails():
    """Two rails that were asked for; and one, of which a second carried nothing."""
    two, one = (prove_crossing(recorded(run), PAIR, 1) for run in ("two-rails", "one-of-two-rails"))
    both = ["rxe0:1", "rxe1:1"]
    assert misrouted(two, both) == misrouted(one, ["rxe0:1"]) == []
    assert misrouted(one, both) == [
        f"rxe1:1 on {node} carried 0.0% of the bytes: each of 2 rails must carry at least 25.0%"
        for node in ("vnode1", "vnode2")
    ]
    assert misrouted(two, ["rxe0:1"]) == [
        f"rxe1:1 on {node} carried 49.8% of the bytes, and was not asked for"
        for node in ("vnode1", "vnode2")
    ]


def test_a_device_that_is_idle_is_not_a_rail():
    assert misrouted(side_by_side(rxe1=(3, 5)), ["rxe0:1"]) == []


# --- minimum traffic ------------------------------------------------------------------------------


def test_a_benchmark_needs_what_no_algorithm_can_spare():
    assert message_bytes("latency", PAIR) == 2
    assert message_bytes("bw", PAIR, window=64) == 64
    # Each of the 2 ranks of a node sends to the 6 ranks on other nodes, and receives from them.
    assert message_bytes("alltoall", Layout(4, 2)) == 24
    with pytest.raises(ValueError, match="osu_put"):
        message_bytes("put", PAIR)


def test_linpack_needs_what_the_other_nodes_own():
    # A grid of 2 x 2 with one rank on each node. A node does not own half of the panels of its row
    # and half of the rows U of its column. Half of these bytes are counted.
    assert linpack_bytes(1000, Grid(2, 2), Layout(4, 1)) == 4 * 1000**2 * 2 / 4 / 2
    # With all ranks on one node, no bytes cross the link.
    assert linpack_bytes(1000, Grid(2, 2), Layout(1, 4)) == 0


# --- ranks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "cores", "ranks", "layout"),
    [
        (2, 1, lambda cores: 2, Layout(2, 1)),
        (4, 1, usable_ranks, Layout(4, 1)),
        (4, 48, usable_ranks, Layout(4, 48)),
        (7, 8, usable_ranks, Layout(7, 8)),
        (7, 5, usable_ranks, Layout(7, 5)),
        (3, 3, even_ranks, Layout(3, 2)),
    ],
)
def test_each_node_has_as_many_ranks(nodes, cores, ranks, layout):
    assert spread(nodes, cores, ranks) == layout


@pytest.mark.parametrize(("nodes", "ranks"), [(7, usable_ranks), (3, even_ranks)])
def test_a_number_of_nodes_that_suits_nothing_is_refused(nodes, ranks):
    with pytest.raises(SizingError, match=f"each of {nodes} nodes suits this test"):
        spread(nodes, 1, ranks)


# --- the witness --------------------------------------------------------------------------------


def witness(folder, *command, device="lo", script=links.WITNESS, **options):
    return subprocess.Popen([str(script), device, *command], cwd=folder, **options)


def test_the_witness_reads_the_kernels_counters_and_passes_on_what_goes_in_and_out(tmp_path):
    with witness(
        tmp_path, "sh", "-c", 'cat; echo "$1"; exit 7', "sh", "a  *",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        out, _ = process.communicate(b"input\n")
    assert (out, process.returncode) == (b"input\na  *\n", 7)
    (left,) = tmp_path.iterdir()
    assert left.name == f"link.{os.uname().nodename}.{process.pid}"
    before, after = parse_link_counters(left.read_text())
    assert after.counters["rx_bytes"] >= before.counters["rx_bytes"]


def test_a_device_that_is_not_there_does_not_stop_the_program(tmp_path):
    with witness(tmp_path, "true", device="none0,mlx9_0:1", stderr=subprocess.PIPE) as process:
        _, said = process.communicate()
    assert (process.returncode, said) == (0, b"")
    (left,) = tmp_path.iterdir()
    assert [(r.device, r.counters) for r in parse_link_counters(left.read_text())][:2] == [
        ("none0", None),
        ("mlx9_0:1", None),
    ]


def test_signals_go_both_ways(tmp_path):
    with witness(tmp_path, "sh", "-c", "kill -9 $$") as process:
        assert process.wait() == -signal.SIGKILL
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.1)\n"
    )
    with witness(tmp_path, sys.executable, "-c", program, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait() == 5
    assert parse_link_counters((tmp_path / f"link.{os.uname().nodename}.{process.pid}").read_text())


def test_a_signal_that_comes_before_the_witness_knows_its_program_is_passed_on(tmp_path):
    script = tmp_path / "witness.sh"
    text = links.WITNESS.read_text()
    assert text.count("program=$!") == 1
    script.write_text(text.replace("program=$!", "sleep 1; program=$!"))
    script.chmod(0o755)
    program = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "while True: time.sleep(0.1)\n"
    )
    with witness(tmp_path, sys.executable, "-c", program, script=script) as process:
        assert process.wait() == 5


def test_the_witness_needs_only_a_posix_shell(tmp_path):
    dash = shutil.which("dash")
    if not dash:
        pytest.skip("needs dash")
    subprocess.run([dash, str(links.WITNESS), "lo", "true"], cwd=tmp_path, check=True)
    assert re.match(r"before \S+ lo counters rx_bytes=\d+", next(tmp_path.iterdir()).read_text())
