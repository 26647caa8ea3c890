"""OsuNear, AffinityCost, MoreRails and NearestDevice on made devices: what turns each one red.

The devices, their places and their counters are made. The scripts that place the ranks and read the
counters are the real ones. The outputs are recorded ones of OSU 5.7, with made numbers.
"""

from __future__ import annotations

import os

import pytest
from bench import DATA, processor
from made_nodes import NODES, MadeNodes, scaled

pytestmark = pytest.mark.slow

HERE, _ = NODES[:2]
LATENCY, BW, BIBW, RATE = "osu_latency", "osu_bw", "osu_bibw", "osu_mbw_mr"
RECORDED = {
    name: (DATA / f"osu/{name}.5.7.np2.txt").read_text() for name in (LATENCY, BW, BIBW, RATE)
}

#: A processor near the first device, and one near the second device.
CPUS = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))][:2]

#: The lanes of UCX over the devices that it was told to use.
LANES = "echo \"$UCX_NET_DEVICES\" | sed 's|[^,]*|rc_verbs/&|g; s/,/ /g'"


@pytest.fixture
def nodes(bench):
    """Two nodes with two processors, and an adapter near each of them."""
    if len(CPUS) < 2:
        pytest.skip("needs two processors")
    bench.partition(
        processor=processor(2),
        features=["inter-node", "rails", "rc_verbs"],
        extras={"network_device": "mlx5_0:1,mlx5_1:1", "nodes": 2, "gid_index": 0},
        # The two processors may be those of one core.
        env_vars=[["OMPI_MCA_rmaps_base_oversubscribe", "1"]],
    )
    return MadeNodes(bench, 2, "$((np / 2))", dict(zip(("mlx5_0", "mlx5_1"), CPUS)))


def stack(nodes, name, table, lanes=LANES, **more):
    nodes.stack(name, ["osu"], list(RECORDED), table, lanes=lanes, osu_version="5.7", **more)


def run(bench, name):
    return bench.run(
        "-n", name, "-c", "reframe/network/rails.py", path="studies/doc004/affinity.py"
    )


# --- near and far ---------------------------------------------------------------------------------


def sided(bench, name, far):
    """A shell command that prints the output of the side of the rank.

    The far side has the latency times `far`, and the rates by it. The recorded latencies have one
    digit: made are latencies a hundred times as long.
    """
    folder = bench.folder / "tables" / name
    folder.mkdir(parents=True)
    for program, text in RECORDED.items():
        worse = 100 * far if program == LATENCY else 1 / far
        (folder / f"{program}.near").write_text(scaled(text, 100 if program == LATENCY else 1))
        (folder / f"{program}.far").write_text(scaled(text, worse))
    return (
        "cpus=$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status); "
        f"[ $cpus = {CPUS[0]} ] && side=near || side=far; cat {folder}/${{0##*/}}.$side"
    )


@pytest.mark.long
@pytest.mark.long
def test_the_far_device_must_not_be_the_faster_one(bench, nodes):
    for name, far in (("healthy", 1.32), ("reversed", 0.7)):
        stack(nodes, name, sided(bench, name, far))
    done = run(bench, "AffinityCost%.*rc_verbs")
    record = done.says("AffinityCost", "", environ="healthy").record
    gains = {name: round(said["value"]) for name, said in record["metrics"].items()}
    assert gains == dict.fromkeys(("latency_gain", "bw_gain", "bibw_gain", "mbw_mr_gain"), 32)
    worse = [
        f"{name}: the near device is 30 % worse than the far one: does the node say rightly where "
        "its devices are?"
        for name in ("latency", "bw", "bibw", "mbw_mr")
    ]
    done.says("AffinityCost", *worse, environ="reversed")


#: Stack -> what is other than in the healthy one, and what must be said of the rank near it.
SIDES = {
    "healthy": ({}, ""),
    "other-device-carries": (
        {"moved": "echo mlx5_0 500000000000; echo mlx5_1 500000000000"},
        f"mlx5_1:1 on {HERE} carried 50.0% of the bytes, and was not asked for",
    ),
    "lane-over-the-other": (
        {"lanes": "echo rc_verbs/mlx5_0:1 rc_verbs/mlx5_1:1"},
        "UCX has a lane over mlx5_1:1 to the peer, which was not asked for",
    ),
    "not-bound": ({}, f"a rank on {HERE} may run on processors "),
}


def test_a_rank_that_is_not_where_it_was_asked_to_be(bench, nodes):
    for name, (more, _) in SIDES.items():
        stack(nodes, name, sided(bench, name, 1.32), **more)
    bench.program("not-bound", "taskset", '#!/bin/sh\nshift 2\nexec "$@"\n')
    stack(nodes, "no-place", sided(bench, "no-place", 1.32))
    for path in nodes.kernel("no-place", "mlx5_0/device/numa_node"):
        path.write_text("-1\n")
    done = run(bench, "OsuNear%.*rc_verbs.*=latency.*=near")
    for name, (_, cause) in SIDES.items():
        done.says("OsuNear", cause, environ=name)
    near = f", near of mlx5_0:1 was asked for: near it are {CPUS[0]}"
    done.says("OsuNear", near, environ="not-bound")
    assert done.case("OsuNear", environ="no-place").result == "skip"
    assert "does not say which processors are near mlx5_0:1" in done.output


# --- rails ----------------------------------------------------------------------------------------


def railed(bench, name, two):
    """A shell command that prints the output for the number of rails: two have `two` times one."""
    folder = bench.folder / "tables" / name
    folder.mkdir(parents=True)
    for rails, factor in ((1, 1), (2, two)):
        (folder / str(rails)).write_text(scaled(RECORDED[BW], factor))
    return f"cat {folder}/$UCX_MAX_RNDV_RAILS"


def test_each_rail_must_add_its_bandwidth(bench, nodes):
    for name, two in (("healthy", 1.9), ("stalls", 1.3), ("idle", 1.9)):
        one = "echo mlx5_0 1000000000000"
        more = {"moved": one} if name == "idle" else {}
        stack(nodes, name, railed(bench, name, two), **more)
    done = run(bench, "MoreRails%.*rc_verbs")
    record = done.says("MoreRails", "", environ="healthy").record
    assert [row["rails"] for row in record["parsed"]["rows"]] == [1, 2]
    said = ("2 rails reach ", " MB/s together, 1 reach ", " MB/s were to be reached")
    done.says("MoreRails", *said, environ="stalls")
    said = f"mlx5_1:1 on {HERE} carried 0.0% of the bytes"
    done.says("OsuRails %transport=rc_verbs %rails=2", said, environ="idle")
    assert done.case("MoreRails", environ="idle").result == "fail_deps"


def test_one_rail_is_no_comparison(bench, nodes):
    bench.partitions[0]["extras"]["network_device"] = "mlx5_0:1"
    stack(nodes, "one", railed(bench, "one", 1.9))
    said = "only one number of rails was measured: name all devices in network_device"
    run(bench, "MoreRails%.*rc_verbs").says("MoreRails", said)


# --- the mapping of the launcher ------------------------------------------------------------------

#: Binds the ranks of a node to the two processors, one to each.
BIND = f"taskset -c $(echo {' '.join(CPUS)} | cut -d' ' -f$((place + 1)))"

#: The first rank of a node has its lanes over the first device, the second one over the second.
OWN = "echo rc_verbs/mlx5_$MADE_PLACE:1"

#: Stack -> what is other than in the healthy one, and what must be said.
MAPPINGS = {
    "healthy": ({}, ()),
    "not-bound": (
        {"bind": "env"},
        (
            f"2 of 2 ranks on {HERE} are near no single device: the launcher must bind them to "
            f"{CPUS[0]} (mlx5_0:1) or {CPUS[-1]} (mlx5_1:1)",
        ),
    ),
    "one-device-for-all": (
        {"moved": "echo mlx5_0 950000000000; echo mlx5_1 50000000000"},
        (
            f"1 of 2 ranks on {HERE} run near mlx5_1:1",
            "which carried 5% of the bytes: the others took a far device",
        ),
    ),
    "each-takes-the-other": (
        {"lanes": "echo rc_verbs/mlx5_$((1 - MADE_PLACE)):1"},
        (
            f"ranks on {HERE} near mlx5_0:1",
            "whose lanes to other ranks are all over mlx5_1:1: 1; UCX chose a far device",
        ),
    ),
    "not-counted": ({}, (f"mlx5_1:1 on {HERE} counts neither bytes nor packets",)),
    "place-not-known": ({}, (f"{HERE} does not say which processors are near mlx5_1:1",)),
}


def test_each_rank_must_use_the_device_near_it(bench, nodes):
    folder = bench.folder / "tables"
    folder.mkdir()
    (folder / RATE).write_text(RECORDED[RATE].replace("pairs: 1 ", "pairs: 2 "))
    for name, (more, _) in MAPPINGS.items():
        stack(nodes, name, f"cat {folder}/{RATE}", **{"lanes": OWN, "bind": BIND, **more})
    for path in nodes.kernel("not-counted", "mlx5_1/ports/1/counters/*"):
        path.unlink()
    for path in nodes.kernel("place-not-known", "mlx5_1/device/numa_node"):
        path.write_text("-1\n")
    done = run(bench, "NearestDevice%.*rc_verbs")
    for name, (_, causes) in MAPPINGS.items():
        case = done.says("NearestDevice", *causes, environ=name)
        assert "took a far device" not in case.reason or name == "one-device-for-all"
        record = case.record
        if name != "place-not-known":  # the record of a red case says the right mapping, too
            right = dict(zip(CPUS, ("mlx5_0:1", "mlx5_1:1")))
            assert record["mapping"] == dict.fromkeys(NODES[:2], right)
