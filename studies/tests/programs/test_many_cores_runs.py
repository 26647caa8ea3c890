"""MorePairs and MorePyPairs: the real tests on recorded outputs with made numbers."""

from __future__ import annotations

import re

import pytest
from bench import DATA, processor
from made_nodes import MadeNodes, scaled

pytestmark = pytest.mark.slow

PAIRS = (1, 2, 4)
RATE = (DATA / "osu/osu_mbw_mr.5.7.np2.txt").read_text()
LATENCY = (DATA / "osu/osu_multi_lat.5.7.np2.txt").read_text()
AT_64_KIB = float(dict(re.findall(r"^(\d+) +(\S+)$", LATENCY, re.MULTILINE))["65536"])
OF_PORT = (DATA / "osu-py/osu_multi_lat.4.1.2.np2.txt").read_text()

#: Messages in a second of 1, 2 and 4 pairs, as multiples of those of one pair.
HEALTHY, FALLS, SHARED = (1, 1.9, 3.6), (1, 1.9, 1.5), (1, 1.1, 1.2)
SLOWER, STALLS = "more of them must not be slower", "messages/s were to be reached"


def outputs(folder, rates, one_pair=1.0):
    """The outputs of all programs for these rates, and a shell command that prints one.

    The recorded latencies have one or two digits: made are latencies a hundred times as long.
    """
    folder.mkdir(parents=True)
    for pairs, rate in zip(PAIRS, rates):
        slower = 100 * pairs / rate
        named = RATE.replace("pairs: 1 ", f"pairs: {pairs} ")
        (folder / f"osu_mbw_mr.{2 * pairs}").write_text(scaled(named, rate * one_pair))
        (folder / f"osu_multi_lat.{2 * pairs}").write_text(scaled(LATENCY, slower))
        (folder / f"port_multi_lat.{2 * pairs}").write_text(scaled(OF_PORT, slower))
    return f'cat "{folder}/${{0##*/}}.$MADE_SIZE"'


@pytest.fixture
def within(bench):
    """A node with eight cores, as the site says; this machine may have fewer."""
    bench.partition(
        processor=processor(8),
        features=["intra-node", "posix"],
        env_vars=[["OMPI_MCA_rmaps_base_oversubscribe", "1"]],
    )
    return MadeNodes(bench, 1, "$np")


@pytest.mark.long
def test_more_pairs_must_send_more(bench, within):
    for name, rates in {"healthy": HEALTHY, "falls": FALLS, "shared": SHARED}.items():
        table = outputs(bench.folder / "tables" / name, rates)
        within.stack(name, ["osu"], ["osu_mbw_mr", "osu_multi_lat"], table, osu_version="5.7")
    run = bench.run("-n", "MorePairs%.*posix", path="studies/doc002/pairs.py")
    for case, column in (
        ("MorePairs %transport=posix %benchmark=mbw_mr", "messages_per_s"),
        ("MorePairs %transport=posix %benchmark=multi_lat", "latency"),
    ):
        record = run.says(case, "", environ="healthy").record
        (most,) = record["metrics"].values()
        rows = {
            row["pairs"]: row[column]
            for row in record["parsed"]["rows"]
            if row["message_size"] == 8
        }
        assert (tuple(rows), rows[4]) == (PAIRS, most["value"])
        run.says(case, "4 pairs reach ", "2 pairs reach ", SLOWER, environ="falls")
        run.says(case, "2 pairs reach ", ", 1 reach ", STALLS, environ="shared")


def test_the_ports_in_python(bench, within):
    extras = {"osu_py_command": "port_{benchmark}"}
    for name, rates in {"healthy": HEALTHY, "falls": FALLS}.items():
        table = outputs(bench.folder / "tables" / name, rates)
        within.stack(name, ["osu-py"], ["port_multi_lat"], table, **extras)
    run = bench.run("-n", "MorePyPairs%.*posix", path="studies/doc002/pairs.py")
    run.says("MorePyPairs", "", environ="healthy")
    run.says("MorePyPairs", "4 pairs reach ", SLOWER, environ="falls")


def test_a_number_of_pairs_that_did_not_run_leaves_no_comparison(bench, within):
    """Four ranks that measure as two: the number of pairs in the output says so."""
    folder = bench.folder / "tables"
    table = outputs(folder, HEALTHY)
    (folder / "osu_mbw_mr.4").write_text(RATE)
    within.stack("fewer", ["osu"], ["osu_mbw_mr"], table, osu_version="5.7")
    run = bench.run("-n", "MorePairs%.*posix.*mbw_mr", path="studies/doc002/pairs.py")
    run.says("OsuPairs %transport=posix %benchmark=mbw_mr %pairs=2", "osu_mbw_mr says 2 ranks, 4 ")
    assert run.case("MorePairs").result == "fail_deps"


@pytest.mark.long
def test_long_messages_of_more_pairs_fill_the_link(bench):
    """Between two nodes with a link of 100 Gbit/s, of which one pair uses a fifth.

    One pair that waits for each answer uses half of it. Two such pairs that send at once each wait
    for the message of the other: together they reach less than 80 % of the link, without a fault.
    """
    bench.partition(
        processor=processor(4),
        features=["inter-node", "rc_verbs"],
        extras={
            "network_device": "mlx5_0:1",
            "nodes": 2,
            "gid_index": 0,
            "hardware": {"link": "infiniband-edr"},
        },
        env_vars=[["OMPI_MCA_rmaps_base_oversubscribe", "1"]],
    )
    nodes = MadeNodes(bench, 2, "$((np / 2))", {"mlx5_0": "0-3"})
    for name in ("healthy", "narrow"):
        folder = bench.folder / "tables" / name
        table = outputs(folder, HEALTHY, one_pair=0.2)
        for pairs in PAIRS:
            # 4 us, and 5.2 us for each message of 64 KiB on the link.
            longer = (4 + 5.2 * pairs) / AT_64_KIB
            text = scaled(scaled(LATENCY, 16), longer / 16, first=4 << 10)
            (folder / f"osu_multi_lat.{2 * pairs}").write_text(text)
        if name == "narrow":  # from 64 KiB on, four pairs reach hardly more than two
            path = folder / "osu_mbw_mr.8"
            path.write_text(scaled(path.read_text(), 0.55, first=64 << 10))
        lanes = "echo rc_verbs/mlx5_0:1"
        programs = ["osu_mbw_mr", "osu_multi_lat"]
        nodes.stack(name, ["osu"], programs, table, lanes=lanes, osu_version="5.7")
    run = bench.run("-n", "MorePairs%.*rc_verbs", path="studies/doc002/pairs.py")
    rate, latency = (
        f"MorePairs %transport=rc_verbs %benchmark={name}" for name in ("mbw_mr", "multi_lat")
    )
    run.says(rate, "", environ="healthy")
    run.says(latency, "", environ="healthy")
    said = ("messages of 65536 B: 4 pairs reach 4952 MB/s together, 1 reach 2501 MB/s: at least ",)
    run.says(rate, *said, environ="narrow")
