"""Transports: settings that force them, logs that prove them, and the name of each sabotage."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pure.parse.test_ucx_log import EVERY, TEXTS

from assay.parse import openmpi
from assay.parse.ucx_log import UcxLog, parse_ucx_log
from assay.prove.transports import (
    TRANSPORTS,
    prove_transport,
    rails,
    transport_variables,
    unusable,
    without_farewells,
)

DATA = Path(__file__).parents[2] / "data"
CURVE = [1 << exponent for exponent in range(21)]


def proof(name, transport, sizes=CURVE, processes=2):
    return prove_transport(
        transport, parse_ucx_log(TEXTS[name]), sizes, name.split("/")[0], processes
    )


# --- what is asked ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transport", "version", "expected"),
    [
        ("posix", "1.13.1", ["posix,self", "info", None]),
        ("cma", "1.15.0", ["posix,cma,self", "debug", None]),
        ("sysv", "1.16.0", ["sysv,self", "info", "y"]),
        ("cma", "1.20.1", ["posix,cma,self", "debug", "y"]),
        ("cma", "1.21.0", ["posix,cma,self", "info", "used"]),
    ],
)
def test_environment_by_generation(transport, version, expected):
    names = ("UCX_TLS", "UCX_LOG_LEVEL", "UCX_PROTO_INFO")
    given = {name: value for name, value in zip(names, expected) if value}
    assert transport_variables(transport, version) == given


def test_a_device_is_set_only_for_a_transport_that_has_one():
    assert transport_variables("tcp", "1.22.0", "eth0")["UCX_NET_DEVICES"] == "eth0"
    assert "UCX_NET_DEVICES" not in transport_variables("tcp", "1.22.0")
    assert "UCX_NET_DEVICES" not in transport_variables("posix", "1.22.0", "eth0")


def test_a_gid_is_set_only_for_a_transport_that_reads_it():
    assert transport_variables("rc_verbs", "1.13.1", "rxe0:1", 0) == {
        "UCX_TLS": "rc_v,self",
        "UCX_LOG_LEVEL": "info",
        "UCX_NET_DEVICES": "rxe0:1",
        "UCX_IB_GID_INDEX": "0",
    }
    assert "UCX_IB_GID_INDEX" not in transport_variables("ud_verbs", "1.13.1", "rxe0:1")
    assert "UCX_IB_GID_INDEX" not in transport_variables("tcp", "1.13.1", "eth0", 0)


def test_every_transport_leaves_a_rank_its_endpoint_to_itself():
    assert all("self" in transport.tls.split(",") for transport in TRANSPORTS.values())


@pytest.mark.parametrize("version", ["1.20.0", "1.20.1"])
def test_tcp_over_lo_is_refused_where_ucx_cannot(version):
    assert unusable("tcp", version, "lo") == f"UCX {version} cannot run tcp over lo"
    assert unusable("tcp", version, "eth0") is None
    assert unusable("tcp", "1.21.0", "lo") is None
    assert unusable("posix", version, "lo") is None


def test_a_ucx_whose_log_nobody_read_is_refused():
    assert "1.12.1" in unusable("posix", "1.12.1")
    assert unusable("posix", "1.13.0") is None


@pytest.mark.parametrize("call", [transport_variables, unusable])
def test_an_unknown_version_is_named(call):
    with pytest.raises(ValueError, match="'latest' is not a version of UCX"):
        call("posix", "latest")


# --- what is proven -----------------------------------------------------------------------------

LATENCY = {
    "posix": ["1.13.1", "1.18.1", "1.21.0", "1.22.0"],
    "sysv": ["1.13.1", "1.18.1", "1.22.0"],
    "tcp": ["1.13.1", "1.18.1", "1.20.1", "1.22.0"],
    "cma": ["1.13.1", "1.15.0", "1.16.0", "1.18.1", "1.20.1", "1.21.0", "1.22.0"],
}
TRANSPORT_OF = {
    **{f"{version}/osu_latency.{t}": t for t, versions in LATENCY.items() for version in versions},
    "1.13.1/osu_latency.tcp.two-rails": "tcp",
    "1.13.1/osu_allreduce.tcp.two-hosts": "tcp",
    "1.13.1/osu_latency.rc_verbs": "rc_verbs",
    "1.13.1/osu_bw.rc_verbs.two-rails": "rc_verbs",
    "1.13.1/ucx_perftest.tag_bw.rc_verbs.two-rails": "rc_verbs",
    "1.13.1/ucx_perftest.tag_lat.ud_verbs": "ud_verbs",
    "1.13.1/NPopenmpi.posix": "posix",
    "1.13.1/ucx_perftest.tag_bw.cma": "cma",
    "1.22.0/osu_latency.py.cma": "cma",
    "1.22.0/osu_bw.cma": "cma",
}
#: Name, transport, means and lanes. EVERY says by what means a log proves which lanes.
PROVEN = [(name, transport, *EVERY[name][4:6]) for name, transport in TRANSPORT_OF.items()]


@pytest.mark.parametrize(("name", "transport", "means", "lanes"), PROVEN)
def test_a_run_over_the_transport_that_was_asked_for(name, transport, means, lanes):
    proven = proof(name, transport)

    assert proven.problems == ()
    assert (proven.means, proven.lanes, proven.ucx) == (means, lanes, name.split("/")[0])


def test_a_collective_is_proven_by_all_that_ucx_counted():
    proven = proof("1.22.0/osu_allreduce.cma.np4", "cma", sizes=(), processes=4)

    assert proven.problems == ()
    assert proven.lanes == {"posix/memory": 1.0, "cma/memory": 1.0}


def test_a_proof_can_be_written_down():
    proven = proof("1.22.0/osu_latency.cma", "cma")

    assert json.loads(json.dumps(dataclasses.asdict(proven)))["lanes"] == proven.lanes


# --- sabotage -----------------------------------------------------------------------------------

TLS = "UCX_TLS was {} where the program ran, {} was asked for"
NO_PEER = "has no endpoint to another process"
NOTHING = "UCX's log does not show what carried the messages"
NO_ANSWER = "UCX ERROR: UD endpoint 0x to <no debug data>: unhandled timeout error"
NO_CUDA_IPC = (
    "UCX WARN: transport 'cuda_ipc' is not available, "
    "please use one or more of: cma, mm, posix, self, shm, sm, sysv, tcp"
)
WRONG_GID = (
    "no packet reached the peer by {}: the extra gid_index of the partition names the GID "
    "(UCX_IB_GID_INDEX)"
)
NO_DEVICE = (
    "UCX WARN: network device 'mlx5_0:1' is not available, "
    "please use one or more of: 'eth0'(tcp), 'lo'(tcp)"
)

FAULTS = {
    **{
        f"{version}/fault.{name}": problems
        for version in ("1.13.1", "1.22.0")
        for name, problems in {
            "posix.UCX_TLS=tcp": [
                TLS.format("tcp,self", "posix,self"),
                "tcp/lo carried messages of 1..1048576 B: posix was asked for",
            ],
            "cma.UCX_TLS=posix": [
                TLS.format("posix,self", "posix,cma,self"),
                "posix/memory, not cma alone, carried messages of 1048576 B",
            ],
            "posix.unused-variables": [
                "this UCX does not read UCX_IB_GPU_DIRECT_RDMA",
                "this UCX does not read UCX_TSL",
            ],
            "posix.unavailable-cuda_ipc": [
                TLS.format("posix,self,cuda_ipc", "posix,self"),
                NO_CUDA_IPC,
            ],
        }.items()
    },
    "1.13.1/fault.posix.UCX_TLS=posix,tcp": [
        TLS.format("posix,tcp,self", "posix,self"),
        "tcp/lo is open between the processes: posix was asked for",
        NOTHING,
    ],
    "1.22.0/fault.posix.UCX_TLS=posix,tcp": [TLS.format("posix,tcp,self", "posix,self")],
    "1.13.1/fault.cma.UCX_PROTO_ENABLE=y": [
        "posix/memory, not cma alone, carried messages of 1048576 B"
    ],
    "1.13.1/fault.tcp.missing-device": [
        "UCX ERROR: no active messages transport to <no debug data>: "
        "self/memory0 - Destination is unreachable",
        NO_DEVICE,
        f"vm:32546 {NO_PEER}",
        f"vm:32547 {NO_PEER}",
        NOTHING,
    ],
    "1.22.0/fault.tcp.missing-device": [
        "UCX ERROR: no active messages transport to <no debug data>: self/memory - iface mismatch",
        NO_DEVICE,
        f"vm:361 {NO_PEER}",
        f"vm:362 {NO_PEER}",
        NOTHING,
    ],
    "1.13.1/fault.rc_verbs.wrong-gid": [
        TLS.format("not set", "rc_v,self"),
        TLS.format("rc_v", "rc_v,self"),
        NO_ANSWER,
        NO_ANSWER,
        WRONG_GID.format("the GID that UCX chose"),
    ],
    "1.13.1/fault.ud_verbs.wrong-gid": [
        TLS.format("not set", "ud_verbs,self"),
        TLS.format("ud_verbs", "ud_verbs,self"),
        NO_ANSWER,
        NO_ANSWER,
        WRONG_GID.format("GID 1"),
    ],
    "1.13.1/fault.posix.two-singletons": [f"vm:32612 {NO_PEER}", f"vm:32613 {NO_PEER}", NOTHING],
    "1.22.0/fault.posix.two-singletons": [f"vm:454 {NO_PEER}", f"vm:455 {NO_PEER}", NOTHING],
    "1.22.0/fault.posix.other-library": [
        "UCX 1.13.1 ran (/lib/x86_64-linux-gnu/libucp.so.0), the stack states 1.22.0",
        f"vm:486 {NO_PEER}",
        f"vm:487 {NO_PEER}",
        NOTHING,
    ],
}


def test_every_faulty_run_here_is_expected_to_fail():
    assert {name for name in TEXTS if "/fault." in name} == set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name):
    transport = Path(name).name.split(".")[1]

    said = [re.sub("0x[0-9a-f]+", "0x", problem) for problem in proof(name, transport).problems]
    assert said == FAULTS[name]


def test_a_pml_that_is_not_ucx_leaves_no_log():
    silent = prove_transport("posix", UcxLog(), CURVE)

    assert silent.problems == ("UCX printed nothing: is the pml ucx?",)
    assert (silent.means, silent.ucx) == ("none", None)


def test_another_transport_proves_nothing_about_this_one():
    """Each proven run is not proven when taken for a run over any other transport."""
    for name, transport, *_ in PROVEN:
        for other in set(TRANSPORTS) - {transport}:
            assert proof(name, other).problems, f"{name} passes for {other}"


def test_a_forbidden_lane_is_named_even_where_no_asked_size_took_it():
    log = parse_ucx_log(
        TEXTS["1.18.1/osu_latency.cma"].replace("UCX_TLS=posix,cma,self", "UCX_TLS=posix,self")
    )

    assert prove_transport("posix", log, [8]).problems == (
        "cma/memory is chosen for messages of 5423 B and more: posix was asked for",
    )


@pytest.mark.parametrize("other", ["tcp/eth0", "ud_verbs/rxe0:1"])
def test_a_fall_back_from_verbs_is_named(other):
    """The recorded run, as if the lane to the peer were one of another transport."""
    text = TEXTS["1.13.1/osu_latency.rc_verbs"].replace("tag(rc_verbs/rxe0:1)", f"tag({other})")

    assert prove_transport("rc_verbs", parse_ucx_log(text), CURVE, "1.13.1", 2).problems == (
        f"{other} carried messages of 1..1048576 B: rc_verbs was asked for",
    )


def test_a_rail_without_a_lane_and_a_lane_without_a_rail_are_named():
    log = parse_ucx_log(TEXTS["1.13.1/osu_bw.rc_verbs.two-rails"])
    assert rails(log, ["rxe0:1", "rxe1:1"]) == []
    assert rails(log, ["rxe0:1", "rxe2:1"]) == [
        "UCX has no lane over rxe2:1 to the peer",
        "UCX has a lane over rxe1:1 to the peer, which was not asked for",
    ]


def test_sizes_too_small_for_cma_do_not_prove_it():
    assert proof("1.22.0/osu_latency.cma", "cma", sizes=[8, 64]).problems == (
        "posix/memory, not cma alone, carried messages of 64 B",
    )


def test_a_size_that_was_never_sent_is_not_proven():
    """The run has sizes up to 64 KiB. It counted no message of 1 MiB."""
    text = re.sub(r"\|    66 (\|    256K)", r"|     0 \1", TEXTS["1.22.0/osu_latency.cma"])
    problems = prove_transport("cma", parse_ucx_log(text), [8, 1 << 20]).problems

    assert problems == ("UCX's log does not show what carried messages of 1048576 B",)


def test_a_log_that_is_missing_is_missed():
    text = TEXTS["1.22.0/osu_latency.posix"]
    (host, pid), _ = sorted(parse_ucx_log(text).processes)
    one = "".join(
        line for line in text.splitlines(keepends=True) if f"[{host}:{pid:<5}:" not in line
    )

    assert prove_transport("posix", parse_ucx_log(one), CURVE, "1.22.0", 2).problems == (
        "UCX left logs of 1 processes, 2 were started",
    )


# --- without the lines that prove, no proof -----------------------------------------------------

LANE = re.compile(r" tag\(|\]   \|")


@pytest.mark.parametrize(("name", "transport"), [row[:2] for row in PROVEN])
@settings(max_examples=20)
@given(data=st.data())
def test_no_log_that_stops_before_its_proof_is_one(name, transport, data):
    """The first half of each process's log ends before the lanes of its peer, or its tables."""
    lines = TEXTS[name].splitlines(keepends=True)
    log = parse_ucx_log("".join(lines))
    peers = {config.name for config in log.peer_configs()} | {t.config for t in log.peer_tables("")}
    first = min(
        number
        for number, line in enumerate(lines)
        if LANE.search(line) and any(peer in line for peer in peers)
    )
    cut = data.draw(st.integers(0, first))

    assert prove_transport(transport, parse_ucx_log("".join(lines[:cut])), CURVE, None, 2).problems


@pytest.mark.parametrize(("name", "transport"), [row[:2] for row in PROVEN])
def test_no_process_can_be_left_out(name, transport):
    text = TEXTS[name]
    for host, pid in parse_ucx_log(text).processes:
        rest = re.sub(rf"(?m)^.*\[{host}:{pid} *:.*\n", "", text)
        assert prove_transport(transport, parse_ucx_log(rest), CURVE, None, 2).problems


def test_a_connection_closed_in_mpi_finalize_is_no_error_where_open_mpi_says_so():
    error = "req 0x5649: error during flush: Endpoint timeout, flush comp 0x5650 count reduced to 0"
    log = UcxLog(errors=(error, "connection refused"))
    said = openmpi.parse_openmpi(
        "[n1:7] ../opal/mca/common/ucx/common_ucx.c:470  Error: ucp_disconnect_nb(3) failed: "
        "Endpoint timeout\n"
    )
    assert said.farewells == 1
    assert without_farewells("tcp", log, 1).errors == ("connection refused",)
    assert without_farewells("tcp", log, 0) == log
    assert without_farewells("posix", log, 1) == log


@pytest.mark.parametrize("transport", ["dc_mlx5", "ud_mlx5", "srd", "xpmem"])
def test_any_network_can_be_proven_and_its_fall_back_named(transport):
    """The recorded run, as if its lane were one of this transport."""
    text = TEXTS["1.13.1/osu_latency.rc_verbs"]
    text = text.replace("UCX_TLS=rc_v,self", f"UCX_TLS={TRANSPORTS[transport].tls}")
    mine = text.replace("tag(rc_verbs/rxe0:1)", f"tag({transport}/x:1)")
    assert prove_transport(transport, parse_ucx_log(mine), CURVE, "1.13.1", 2).problems == ()
    assert prove_transport(transport, parse_ucx_log(text), CURVE, "1.13.1", 2).problems == (
        f"rc_verbs/rxe0:1 carried messages of 1..1048576 B: {transport} was asked for",
    )


def test_a_bridge_of_containers_is_no_way_to_another_node():
    text = TEXTS["1.13.1/osu_latency.tcp"].replace("tag(tcp/lo)", "tag(tcp/ib0 tcp/docker0)")
    (said,) = prove_transport("tcp", parse_ucx_log(text), CURVE, "1.13.1", 2).problems
    assert said.startswith("UCX has a lane over docker0 to the peer, a bridge inside the node")
