"""Counters of the link: their values, what they prove, and the witness of each rank."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from assay.evidence import links
from assay.evidence.links import Reading, linpack_bytes, message_bytes, parse, prove
from assay.workloads.sizing import Grid, Layout, SizingError, even_ranks, spread, usable_ranks

PAIR = Layout(2, 1)


def readings(host, before, after, device="eth0"):
    return "".join(
        f"{when} {host} {device} received={value} sent={value} unit=1\n"
        for when, value in (("before", before), ("after", after))
    )


def launch(**hosts):
    """One rank on each host: name -> (before, after), the same for both directions."""
    return {f"link.{host}.7": readings(host, *ends) for host, ends in hosts.items()}


# --- readings -----------------------------------------------------------------------------------


def test_counters_of_infiniband_are_in_words():
    text = (
        "before n1 mlx5_0:1 received=3 sent=5 unit=4\nafter n1 mlx5_0:1 received=4 sent=6 unit=4\n"
    )
    assert parse(text)[0] == Reading("before", "n1", "mlx5_0:1", 12, 20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "ends before the program did"),
        (readings("n1", 1, 2).splitlines()[0] + "\n", "ends before the program did"),
        (readings("n1", 1, 2)[:-30], "line 2 is not a reading"),
        ("before n1 eth0 received=-1 sent=2 unit=1\n", "line 1 is not a reading"),
        (readings("n1", 1, 2).replace("after n1 eth0", "after n1 eth1"), "ends before"),
    ],
)
def test_a_torn_file_is_named(text, said):
    with pytest.raises(ValueError, match=said):
        parse(text)
    assert prove({"link.n1.7": text}, PAIR, 0).problems[0].startswith("link.n1.7: ")


# --- proof --------------------------------------------------------------------------------------


def test_bytes_that_crossed_are_counted_on_each_node():
    crossing = prove(launch(n1=(100, 600), n2=(0, 500)), PAIR, 1000)
    assert crossing.problems == ()
    assert crossing.moved["n1"] == {"received": 500, "sent": 500}


def test_ranks_of_a_node_read_the_same_counter():
    files = {"link.n1.7": readings("n1", 100, 600), "link.n1.8": readings("n1", 110, 620)}
    crossing = prove(files, Layout(1, 2), 0)
    assert crossing.problems == ()
    assert crossing.moved["n1"] == {"received": 520, "sent": 520}


def test_several_devices_of_a_node_are_added():
    text = (
        "before n1 a received=0 sent=0 unit=1\nbefore n1 b received=0 sent=0 unit=1\n"
        "after n1 a received=5 sent=1 unit=1\nafter n1 b received=7 sent=2 unit=1\n"
    )
    assert prove({"link.n1.7": text}, Layout(1, 1), 15).problems == ()
    assert prove({"link.n1.7": text}, Layout(1, 1), 16).problems


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (launch(n1=(0, 500), n2=(0, 499)), "n2 moved 1e+03 B over eth0, the benchmark moves at"),
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
    problems = prove(files, PAIR, 1000).problems
    assert len(problems) == 1
    assert said in problems[0]


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


def witness(folder, *command, device="lo", **options):
    return subprocess.Popen([str(links.WITNESS), device, *command], cwd=folder, **options)


def test_the_witness_reads_the_kernels_counters_and_passes_on_what_goes_in_and_out(tmp_path):
    with witness(
        tmp_path, "sh", "-c", 'cat; echo "$1"; exit 7', "sh", "a  *",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        out, _ = process.communicate(b"input\n")
    assert (out, process.returncode) == (b"input\na  *\n", 7)
    (left,) = tmp_path.iterdir()
    assert left.name == f"link.{os.uname().nodename}.{process.pid}"
    before, after = parse(left.read_text())
    assert before.received is not None
    assert after.received >= before.received


def test_a_device_that_is_not_there_does_not_stop_the_program(tmp_path):
    with witness(tmp_path, "true", device="none0,mlx9_0:1", stderr=subprocess.PIPE) as process:
        _, said = process.communicate()
    assert (process.returncode, said) == (0, b"")
    (left,) = tmp_path.iterdir()
    assert [(r.device, r.sent) for r in parse(left.read_text())][:2] == [
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
        "time.sleep(60)\n"
    )
    with witness(tmp_path, sys.executable, "-c", program, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait() == 5
    assert parse((tmp_path / f"link.{os.uname().nodename}.{process.pid}").read_text())


def test_the_witness_needs_only_a_posix_shell(tmp_path):
    dash = shutil.which("dash")
    if not dash:
        pytest.skip("needs dash")
    subprocess.run([dash, str(links.WITNESS), "lo", "true"], cwd=tmp_path, check=True)
    assert re.match(r"before \S+ lo received=\d+", next(tmp_path.iterdir()).read_text())
