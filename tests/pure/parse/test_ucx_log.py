"""The log of UCX: how its lines are read, and which lane they prove for which message size."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_outputs import texts, torn

from assay.parse.ucx_log import Row, UcxLog, carriers, parse_ucx_log, transport_of

TEXTS = texts("ucx")
SIZES = (8, 4096, 1 << 20)

POSIX = {"posix/memory": 1.0}
SYSV = {"sysv/memory": 1.0}
TCP = {"tcp/lo": 1.0}
CMA = {"cma/memory": 1.0}
BOTH = {**POSIX, **CMA}
RC, UD = {"rc_verbs/rxe0:1": 1.0}, {"ud_verbs/rxe0:1": 1.0}
RAILS = {**TCP, "tcp/eth0": 1.0}
RC_RAILS = {"rc_verbs/rxe0:1": 1.0, "rc_verbs/rxe1:1": 1.0}
LARGE = (1 << 20,)
TABLE_AND_LANE = "protocol table + only lane"
TABLE_AND_USE = "protocol table + first use"
COUNT_AND_TABLE = "count + protocol table"


def without(text, pattern):
    """A real output without the lines that match `pattern`."""
    kept = [line for line in text.splitlines(keepends=True) if not re.search(pattern, line)]
    assert len(kept) < len(text.splitlines())
    return "".join(kept)


# Version, processes, lines of WARN and ERROR, means, lanes, sizes that remain unproven.
EVERY = {
    "1.13.1/NPopenmpi.posix": ("1.13.1", 2, 0, 0, "only lane", POSIX, ()),
    "1.13.1/fault.cma.UCX_PROTO_ENABLE=y": ("1.13.1", 2, 0, 0, "protocol table", POSIX, ()),
    "1.13.1/fault.cma.UCX_TLS=posix": ("1.13.1", 2, 0, 0, "only lane", POSIX, ()),
    "1.13.1/fault.posix.UCX_TLS=posix,tcp": ("1.13.1", 2, 0, 0, "none", {}, SIZES),
    "1.13.1/fault.posix.UCX_TLS=tcp": ("1.13.1", 2, 0, 0, "only lane", TCP, ()),
    "1.13.1/fault.posix.two-singletons": ("1.13.1", 2, 0, 0, "none", {}, SIZES),
    "1.13.1/fault.posix.unavailable-cuda_ipc": ("1.13.1", 2, 1, 0, "only lane", POSIX, ()),
    "1.13.1/fault.posix.unused-variables": ("1.13.1", 2, 0, 0, "only lane", POSIX, ()),
    "1.13.1/fault.rc_verbs.wrong-gid": ("1.13.1", 2, 0, 2, "only lane", RC, ()),
    "1.13.1/fault.tcp.missing-device": ("1.13.1", 2, 1, 1, "none", {}, SIZES),
    "1.13.1/fault.ud_verbs.wrong-gid": ("1.13.1", 2, 0, 2, "only lane", UD, ()),
    "1.13.1/ompi414-osu_bw-sysv": ("1.13.1", 2, 0, 0, "only lane", SYSV, ()),
    "1.13.1/ompi414-osu_latency-posix+cma": ("1.13.1", 2, 0, 0, "none", {}, SIZES),
    "1.13.1/osu_allreduce.tcp.two-hosts": ("1.13.1", 2, 0, 0, "only lane", TCP, ()),
    "1.13.1/osu_bw.rc_verbs.two-rails": ("1.13.1", 2, 0, 0, "only lane", RC_RAILS, ()),
    "1.13.1/osu_latency.cma": ("1.13.1", 2, 0, 0, "first use", CMA, SIZES),
    "1.13.1/osu_latency.posix": ("1.13.1", 2, 0, 0, "only lane", POSIX, ()),
    "1.13.1/osu_latency.rc_verbs": ("1.13.1", 2, 0, 0, "only lane", RC, ()),
    "1.13.1/osu_latency.sysv": ("1.13.1", 2, 0, 0, "only lane", SYSV, ()),
    "1.13.1/osu_latency.tcp": ("1.13.1", 2, 0, 0, "only lane", TCP, ()),
    "1.13.1/osu_latency.tcp.two-rails": ("1.13.1", 2, 0, 0, "only lane", RAILS, ()),
    "1.13.1/proto-info-used": (None, 2, 0, 2, "none", {}, SIZES),
    "1.13.1/protov2-tagbw1M": ("1.13.1", 2, 0, 0, "protocol table", POSIX, ()),
    "1.13.1/syntax-bogus": ("1.13.1", 2, 1, 2, "none", {}, SIZES),
    "1.13.1/syntax-posix+gdr_copy": ("1.13.1", 2, 1, 0, "only lane", POSIX, ()),
    "1.13.1/tls-posix+cma-tagbw1M": ("1.13.1", 2, 0, 0, "none", {}, SIZES),
    "1.13.1/tls-posix-tagbw1M": ("1.13.1", 2, 0, 0, "only lane", POSIX, ()),
    "1.13.1/tls-tcp-tagbw1M": ("1.13.1", 2, 0, 0, "only lane", TCP, ()),
    "1.13.1/ucx_perftest.tag_bw.cma": ("1.13.1", 2, 0, 0, "first use", CMA, SIZES),
    "1.13.1/ucx_perftest.tag_bw.rc_verbs.two-rails": (
        *("1.13.1", 2, 0, 0, "only lane", RC_RAILS, ()),
    ),
    "1.13.1/ucx_perftest.tag_lat.ud_verbs": ("1.13.1", 2, 0, 0, "only lane", UD, ()),
    "1.13.1/ucx_perftest.tag_lat.rc_verbs": ("1.13.1", 2, 0, 0, "only lane", RC, ()),
    "1.15.0/osu_latency.cma": ("1.15.0", 2, 0, 0, "first use", CMA, SIZES),
    "1.16.0/ompi414-osu_latency-tcp": ("1.16.0", 2, 0, 0, TABLE_AND_LANE, TCP, ()),
    "1.16.0/osu_latency.cma": ("1.16.0", 2, 0, 0, TABLE_AND_USE, BOTH, ()),
    "1.16.0/unknown-env": ("1.16.0", 2, 0, 0, TABLE_AND_LANE, POSIX, ()),
    "1.18.1/ompi414-osu_latency-posix+cma": ("1.18.1", 2, 0, 0, "protocol table", POSIX, LARGE),
    "1.18.1/osu_latency.cma": ("1.18.1", 2, 0, 0, TABLE_AND_USE, BOTH, ()),
    "1.18.1/osu_latency.posix": ("1.18.1", 2, 0, 0, TABLE_AND_LANE, POSIX, ()),
    "1.18.1/osu_latency.sysv": ("1.18.1", 2, 0, 0, TABLE_AND_LANE, SYSV, ()),
    "1.18.1/osu_latency.tcp": ("1.18.1", 2, 0, 0, TABLE_AND_LANE, TCP, ()),
    "1.18.1/osu_latency.tcp.two-rails": ("1.18.1", 2, 0, 0, TABLE_AND_LANE, RAILS, ()),
    "1.20.1/ompi414-osu_latency-tcp": ("1.20.1", 2, 0, 2, "none", {}, SIZES),
    "1.20.1/osu_latency.cma": ("1.20.1", 2, 0, 0, TABLE_AND_USE, BOTH, ()),
    "1.20.1/osu_latency.tcp": ("1.20.1", 2, 0, 0, TABLE_AND_LANE, {"tcp/eth0": 1.0}, ()),
    "1.21.0/osu_latency.cma": ("1.21.0", 2, 0, 0, COUNT_AND_TABLE, BOTH, ()),
    "1.21.0/osu_latency.posix": ("1.21.0", 2, 0, 0, COUNT_AND_TABLE, POSIX, ()),
    "1.22.0/fault.cma.UCX_TLS=posix": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, POSIX, ()),
    "1.22.0/fault.posix.UCX_TLS=posix,tcp": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, POSIX, ()),
    "1.22.0/fault.posix.UCX_TLS=tcp": ("1.22.0", 2, 0, 0, "count", TCP, ()),
    "1.22.0/fault.posix.other-library": ("1.13.1", 2, 0, 0, "none", {}, SIZES),
    "1.22.0/fault.posix.two-singletons": ("1.22.0", 2, 0, 0, "none", {}, SIZES),
    "1.22.0/fault.posix.unavailable-cuda_ipc": ("1.22.0", 2, 1, 0, COUNT_AND_TABLE, POSIX, ()),
    "1.22.0/fault.posix.unused-variables": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, POSIX, ()),
    "1.22.0/fault.tcp.missing-device": ("1.22.0", 2, 1, 1, "none", {}, SIZES),
    "1.22.0/mem-cuda": (None, 2, 0, 2, "none", {}, SIZES),
    "1.22.0/ompi414-osu_latency-posix+cma": ("1.22.0", 2, 0, 0, "protocol table", POSIX, LARGE),
    "1.22.0/ompi414-osu_latency-tcp": ("1.22.0", 2, 0, 0, TABLE_AND_LANE, TCP, ()),
    "1.22.0/osu_allreduce.cma.np4": ("1.22.0", 4, 0, 0, COUNT_AND_TABLE, BOTH, ()),
    "1.22.0/osu_bw.cma": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, BOTH, ()),
    "1.22.0/osu_latency.cma": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, BOTH, ()),
    "1.22.0/osu_latency.posix": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, POSIX, ()),
    "1.22.0/osu_latency.py.cma": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, BOTH, ()),
    "1.22.0/osu_latency.sysv": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, SYSV, ()),
    "1.22.0/osu_latency.tcp": ("1.22.0", 2, 0, 0, "count", TCP, ()),
    "1.22.0/osu_latency.tcp.two-rails": ("1.22.0", 2, 0, 0, "count", TCP, ()),
    "1.22.0/proto-info-used": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, BOTH, (4096,)),
    "1.22.0/torn.cma.np8.stdout": ("1.22.0", 8, 0, 0, "protocol table", POSIX, LARGE),
    "1.22.0/ucx_perftest.tag_bw.cma": ("1.22.0", 2, 0, 0, COUNT_AND_TABLE, BOTH, (4096,)),
}


@pytest.mark.parametrize("name", sorted({*EVERY, *TEXTS}))
def test_what_an_output_says_and_proves(name):
    version, processes, warnings, errors, means, lanes, unproven = EVERY[name]
    log = parse_ucx_log(TEXTS[name])
    carried = carriers(log, SIZES)

    assert {version for version, _ in log.versions.values()} == ({version} - {None})
    assert len(log.processes) == processes
    assert (len(log.warnings), len(log.errors)) == (warnings, errors)
    assert (carried.means, carried.lanes, carried.unproven) == (means, lanes, unproven)


def test_names_of_the_library_the_processes_and_their_variables():
    log = parse_ucx_log(TEXTS["1.13.1/osu_allreduce.tcp.two-hosts"])

    assert log.processes == {("node0", 9803), ("node1", 9804)}
    assert set(log.versions.values()) == {("1.13.1", "/lib/x86_64-linux-gnu/libucp.so.0")}
    assert log.env["node0", 9803] == {
        "UCX_NET_DEVICES": "lo",
        "UCX_LOG_FILE": "ucx.%h.%p.log",
        "UCX_LOG_LEVEL": "info",
        "UCX_TLS": "tcp,self",
    }
    assert [config.lanes for config in log.configs] == [("self/memory0", "tcp/lo"), ("tcp/lo",)] * 2


@pytest.mark.parametrize("version", ["1.13.1", "1.22.0"])
def test_unused_variables_in_both_spellings_but_not_the_one_that_ucx_proposes(version):
    log = parse_ucx_log(TEXTS[f"{version}/fault.posix.unused-variables"])

    assert log.unused == {"UCX_TSL", "UCX_IB_GPU_DIRECT_RDMA"}
    assert log.warnings == ()


def test_messages_are_kept_apart_by_level():
    log = parse_ucx_log(TEXTS["1.13.1/fault.tcp.missing-device"])

    assert log.warnings == (
        "network device 'mlx5_0:1' is not available, please use one or more of: "
        "'eth0'(tcp), 'lo'(tcp)",
    )
    assert log.errors == (
        "no active messages transport to <no debug data>: "
        "self/memory0 - Destination is unreachable",
    )


def test_the_last_words_of_a_process_are_an_error():
    log = parse_ucx_log(TEXTS["1.13.1/fault.rc_verbs.wrong-gid"])

    assert [re.sub("0x[0-9a-f]+", "0x", error) for error in log.errors] == [
        "UD endpoint 0x to <no debug data>: unhandled timeout error"
    ] * 2


def test_a_message_from_before_the_log_has_no_process_and_is_not_lost():
    line = TEXTS["1.13.1/proto-info-used"].splitlines()
    error = next(text for text in line if "UCX  ERROR" in text)
    early = re.sub(r"\[vm:\d+ *:0\]", "[0]", error)
    assert early != error

    log = parse_ucx_log(early)

    assert log.processes == frozenset()
    assert len(log.errors) == 1


def test_rows_of_a_table_without_counts():
    log = parse_ucx_log(TEXTS["1.18.1/osu_latency.cma"])
    table = next(t for t in log.peer_tables("tagged message") if t.variant == "fast-completion")

    assert (table.kind, table.memory) == ("tagged message by ucp_tag_send*", "host memory")
    assert table.config == "ucp_context_0 intra-node cfg#1"
    assert table.rows == (
        Row(0, 92, "eager short", POSIX),
        Row(93, 8248, "eager copy-in copy-out", POSIX),
        Row(8249, 262143, "multi-frag eager copy-in copy-out", POSIX),
        Row(1 << 18, math.inf, "rendezvous zero-copy read from remote", {"cma/memory": 1.0}, True),
    )


@pytest.mark.parametrize("version", ["1.21.0", "1.22.0"])
def test_counts_are_the_messages_that_the_benchmark_sent(version):
    """osu_latency sends, for each size, 20 messages and 2 warm-up messages in each direction."""
    log = parse_ucx_log(TEXTS[f"{version}/osu_latency.cma"])
    sent = [t for t in log.peer_tables("tagged message") if t.variant == "fast-completion"]
    fetched = log.peer_tables("rendezvous data fetch")

    assert len(sent) == len(fetched) == 2  # one for each rank
    for table in sent:
        by_first = {row.first: row.count for row in table.rows}
        sizes = [1 << exponent for exponent in range(21)]
        assert by_first == {
            0: 0,  # the fast path of the shortest messages is not counted
            93: 22 * sum(93 <= size <= 8248 for size in sizes),
            # Each fragment is counted. A fragment holds as much as the largest single message.
            8249: 22 * sum(math.ceil(size / 8248) for size in sizes if 8249 <= size < 1 << 18),
            1 << 18: 22 * sum(size >= 1 << 18 for size in sizes),
        }
    assert {row.count for table in fetched for row in table.rows} == {0, 66}


def test_shares_of_two_rails():
    log = parse_ucx_log(TEXTS["1.18.1/osu_latency.tcp.two-rails"])
    shares = [row.lanes for table in log.peer_tables("tagged message") for row in table.rows]

    assert {"tcp/lo": 0.52, "tcp/eth0": 0.48} in shares
    assert {"tcp/lo": 1.0} in shares


def test_a_plan_for_two_rails_is_not_believed_where_the_sender_then_used_one():
    """The table of the sender says 52 % and 48 %, but 4994 fragments went over one rail."""
    log = parse_ucx_log(TEXTS["1.22.0/osu_latency.tcp.two-rails"])
    planned = [row.lanes for t in log.peer_tables("tagged message") for row in t.rows if row.count]

    assert {"tcp/lo": 0.52, "tcp/eth0": 0.48} in planned
    assert carriers(log, [1 << 20]).by_size == {1 << 20: {"tcp/lo": 1.0}}


def test_a_plan_for_cma_is_not_believed_where_the_sender_then_copied():
    """strace saw no process_vm_readv in this run. The last table of the chain is the true one."""
    log = parse_ucx_log(TEXTS["1.13.1/fault.cma.UCX_PROTO_ENABLE=y"])
    planned = {lane for t in log.peer_tables("") for row in t.rows for lane in row.lanes}

    assert "cma/memory" in planned
    assert log.copiers == frozenset()
    assert carriers(log, [1 << 20]).by_size == {1 << 20: {"posix/memory": 1.0}}


def test_blocking_and_nonblocking_sends_may_take_different_lanes():
    carried = carriers(parse_ucx_log(TEXTS["1.18.1/osu_latency.cma"]), [65536])

    assert carried.by_size == {65536: {"posix/memory": 1.0, "cma/memory": 1.0}}


def test_sizes_left_to_ucx_are_those_that_it_counted():
    """ucx_perftest sent messages of one size only."""
    carried = carriers(parse_ucx_log(TEXTS["1.22.0/ucx_perftest.tag_bw.cma"]))

    assert carried.by_size[6031] == {"cma/memory": 1.0}
    assert 93 not in carried.by_size
    assert carried.unproven == ()


# --- without the lines that prove, no proof -----------------------------------------------------

TABLES = r"\]   [|+]"
LANES = r" tag\("


@pytest.mark.parametrize(
    "name", [name for name, (*_, means, _, _) in EVERY.items() if means != "none"]
)
def test_nothing_is_proven_without_tables_and_lanes(name):
    text = re.sub(rf"(?m)^.*(?:{TABLES}|{LANES}).*\n", "", TEXTS[name])

    carried = carriers(parse_ucx_log(text), SIZES)

    assert (carried.means, carried.lanes, carried.unproven) == ("none", {}, SIZES)


FIRST_USE = "uct_scopy_iface_tx_mp: allocated"
TABLE_OF_RECEIVER = r"zero-copy read from remote  .*\| cma"


@pytest.mark.parametrize(
    ("version", "lost", "unproven"),
    [
        *((version, FIRST_USE, SIZES) for version in ("1.13.1", "1.15.0")),
        # The row of cma stays a plan.
        *((version, FIRST_USE, LARGE) for version in ("1.16.0", "1.18.1", "1.20.1")),
        # The sender alone proves nothing.
        *((version, TABLE_OF_RECEIVER, LARGE) for version in ("1.21.0", "1.22.0")),
    ],
)
def test_without_the_line_that_proves_cma_it_is_not_proven(version, lost, unproven):
    carried = carriers(parse_ucx_log(without(TEXTS[f"{version}/osu_latency.cma"], lost)), SIZES)

    assert carried.unproven == unproven
    assert (carried.means == "none") is (unproven == SIZES)


def test_a_row_that_was_never_taken_proves_nothing():
    text = TEXTS["1.22.0/osu_bw.cma"]
    taken = re.compile(r"\| +\d+ (\| 5029\.\.inf)")
    assert taken.search(text)
    never = taken.sub(
        lambda m: m[0].replace(m[0].split()[1], "0".rjust(len(m[0].split()[1]))), text
    )

    assert carriers(parse_ucx_log(never), [4096, 1 << 20]).unproven == (1 << 20,)


def test_two_torn_halves_are_no_row():
    """In the real output, `| 0..92 | eager sho` is followed by the end of another line."""
    text = TEXTS["1.22.0/torn.cma.np8.stdout"]
    assert re.search(r"eager sho\[", text)

    rows = [row for table in parse_ucx_log(text).tables for row in table.rows]

    assert {row.description for row in rows} == {
        "eager short",
        "eager copy-in copy-out",
        "multi-frag eager copy-in copy-out",
        "rendezvous zero-copy read from remote",
        "rendezvous copy from mapped remote memory",
    }
    assert {lane for row in rows for lane in row.lanes} == {
        "posix/memory",
        "cma/memory",
        "self/memory",
    }


# --- any text -----------------------------------------------------------------------------------


@given(st.text())
def test_any_text_is_read(text):
    assert isinstance(parse_ucx_log(text), UcxLog)


@given(torn(TEXTS), st.lists(st.integers(0, 1 << 40), max_size=3))
def test_any_mixture_of_torn_lines_is_read(text, sizes):
    carried = carriers(parse_ucx_log(text), sizes)

    assert set(carried.unproven) <= set(sizes)
    assert (carried.means == "none") == (not carried.lanes and not carried.by_size)


@pytest.mark.parametrize("digits", ["9" * 5000, "٣"])
def test_absurd_numbers_are_read(digits):
    text = TEXTS["1.22.0/proto-info-used"]
    for old in ("6031", "27", "13883", "3598"):
        parse_ucx_log(text.replace(old, digits))


# --- made from the format strings of UCX's source ------------------------------------------------


def said(text, process="n1:42", place="ucp_worker.c:1905"):
    return f"[1700000000.000001] [{process}:0] {place:>22} UCX  INFO  {text}\n"


def protocols(config, title, *rows, before="| "):
    """A table as ucp_proto_select_elem_info prints it: range, description, lanes of each row."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    left = max(widths[0], len(config))
    middle = max(widths[1], len(title) - widths[2])
    head = f"{before}{config:>{left}} | {title:<{middle + 3 + widths[2]}} |\n"
    body = (f"{before}{a:>{left}} | {b:<{middle}} | {c:<{widths[2]}} |\n" for a, b, c in rows)
    return head + "".join(body)


def lanes_of(text, sizes=(8, 1 << 20)):
    carried = carriers(parse_ucx_log(text), sizes)
    return carried.means, carried.lanes


@pytest.mark.parametrize(
    ("line", "lanes"),
    [
        ("ep_cfg[1]: tag(posix/memory knem/memory); stream(posix/memory); ", ["posix", "knem"]),
        ("ep_cfg[1]: rma(rc_mlx5/mlx5_0:1); am(dc_mlx5/mlx5_0:1); ", ["dc_mlx5"]),
        ("jucx inter-node cfg#1 tag(srd/efa_0:1) am(srd/efa_0:1)", ["srd"]),
        ("perftest inter-node cfg#0 am(ud_mlx5/mlx5_0:1) ka(ud_mlx5/mlx5_0:1)", ["ud_mlx5"]),
        ("ucp_context_0 intra-node cfg#1  rma_am(tcp/eth0)  amo_am(tcp/eth0)", ["tcp"]),
        ("ucp_context_0 intra-node cfg#1 tag(sysv/memory xpmem/memory)", ["sysv", "xpmem"]),
        ("ep_cfg[2]: tag(ugni_smsg/nic0 ugni_rdma/nic0) ", ["ugni_smsg", "ugni_rdma"]),
        ("0x26b4960 intra-node cfg#1 tag(rocm_ipc/rocm_ipc rocm_copy/rocm_copy)",
         ["rocm_ipc", "rocm_copy"]),
    ],
)  # fmt: skip
def test_the_lanes_of_any_network_and_any_kind_of_message(line, lanes):
    (config,) = parse_ucx_log(said(line)).peer_configs()
    assert list(map(transport_of, config.lanes)) == lanes


def test_two_devices_are_not_one_path():
    both = said("ep_cfg[4]: tag(tcp/ib0 tcp/docker0)")
    assert lanes_of(both) == ("only lane", {"tcp/docker0": 1.0, "tcp/ib0": 1.0})


def test_knem_is_proven_by_its_first_use_and_only_if_cma_is_not_there():
    used = said("mpool uct_scopy_iface_tx_mp: allocated chunk 0x1", place="mpool.c:270")
    lane = said("ep_cfg[1]: tag(posix/memory knem/memory)")
    assert lanes_of(lane) == ("none", {})
    assert lanes_of(lane + used) == ("first use", {"knem/memory": 1.0})
    assert lanes_of(lane.replace("posix", "cma") + used) == ("none", {})


PUT = "remote memory write by ucp_put* from host memory to host"
AM = "active message by ucp_am_send* with reply flag(multi) from host memory"
TAG = "tagged message by ucp_tag_send*(multi) from host memory"
SHARED = "50% on rc_mlx5/mlx5_0:1/path0 and 50% on rc_mlx5/mlx5_2:1/path0"


@pytest.mark.parametrize("before", ["| ", "  | ", "# | "])
def test_tables_whose_lines_name_no_process(before):
    """As of ``ucx_info -e``, or copied without the begin of each line."""
    name, rows = "perftest inter-node cfg#0", [("0..2K", "short", "rc_mlx5/mlx5_0:1/path0")]
    text = protocols(name, PUT, *rows, ("2049..inf", "zero-copy", SHARED), before=before)
    log = parse_ucx_log(text)
    assert log.processes == {("", 0)}
    assert len(log.tables[0].rows) == 2
    rails = {"rc_mlx5/mlx5_0:1/path0": 0.5, "rc_mlx5/mlx5_2:1/path0": 0.5}
    assert carriers(log, [1 << 20]).lanes == rails


def test_a_table_of_an_endpoint_to_itself_proves_nothing():
    row = ("0..inf", "eager short", "rc_mlx5/mlx5_0:1")
    assert lanes_of(protocols("ucx_info self cfg#0", TAG, row, before="# | ")) == ("none", {})


def test_active_messages_count_where_no_message_is_tagged():
    plan = ("219..inf", "(?) rendezvous zero-copy read from remote", "dc_mlx5/mlx5_0:1")
    rows = ("0..218", "short", "dc_mlx5/mlx5_0:1"), plan
    text = protocols("perftest inter-node cfg#0", AM, *rows)
    assert lanes_of(text) == ("protocol table + only lane", {"dc_mlx5/mlx5_0:1": 1.0})


def test_a_plan_beside_a_second_lane_stays_a_plan():
    rows = ("0..92", "eager short", "sysv/memory"), ("93..inf", "(?) rendezvous", "xpmem/memory")
    assert carriers(
        parse_ucx_log(protocols("x intra-node cfg#1", TAG, *rows)), [1024]
    ).unproven == (1024,)


@pytest.mark.parametrize(
    "line",
    [
        "ucp_worker.c:1903 UCX INFO perftest inter-node cfg#0 tag(rc_verbs/erdma_0:1)\n",
        "UCX INFO ucp_context_0 inter-node cfg#1 tag(rc_verbs/erdma_0:1)\n",
    ],
)
def test_lanes_whose_line_names_no_process(line):
    assert lanes_of(line) == ("only lane", {"rc_verbs/erdma_0:1": 1.0})


def test_a_line_without_a_process_is_torn_where_others_have_one():
    whole = said("ucp_context_0 inter-node cfg#1 tag(tcp/eth0)")
    torn = "ucp_context_0 inter-node cfg#1 tag(rc_mlx5/mlx5_0:1)\n"
    assert lanes_of(whole + torn) == ("only lane", {"tcp/eth0": 1.0})


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("[n1:42   :0:42]  ib_mlx5_log.c:177  Local protection on mlx5_0:1/IB (synd 0x4 vend 0x33)",
         "Local protection on mlx5_0:1/IB (synd 0x4 vend 0x33)"),
        ("[n1:42   :0:42] Caught signal 11 (Segmentation fault: address not mapped)",
         "Caught signal 11 (Segmentation fault: address not mapped)"),
        ("[n1:42   :a:43]   rc_verbs.c:120  Fatal: send completion failed",
         "send completion failed"),
        ("[1700.5] [n1:42   :0]    srd_iface.c:310  UCX  ERROR efa_0: failed to create EFA SRD QP",
         "efa_0: failed to create EFA SRD QP"),
    ],
)  # fmt: skip
def test_the_last_words_in_every_form(line, error):
    assert parse_ucx_log(f"131072   12.5\n{line}\n").errors == (error,)
