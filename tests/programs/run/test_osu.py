"""OSU between nodes over two rails of verbs: the real test on a run that is put together.

The output is a recorded run over tcp. The lines of UCX are rewritten to what UCX 1.13.1 said over
two soft-RoCE devices (tests/data/ucx/1.13.1/osu_bw.rc_verbs.two-rails.txt). The counters are in the
proportion that was recorded there.
"""

import os
import sys

import pytest
from bench import Recorded

pytestmark = pytest.mark.slow

RUN = Recorded.load("osu-bw-tcp")

#: Uses half a second of processor time, however long it has to wait for it.
WORK = f"{sys.executable} -c 'import time; all(iter(lambda: time.process_time() < 0.5, False))'"

#: Two names, but one node: the job has no other.
HERE = os.uname().nodename
ELSEWHERE = f"{HERE}.elsewhere"
BOTH = "rc_verbs/rxe0:1 rc_verbs/rxe1:1"

#: Packets (received, sent) of each device, a thousand times those of the recorded run.
PACKETS = {"rxe0:1": (740_000, 3_389_000), "rxe1:1": (36_000, 2_688_000)}


def readings(host, **more):
    """The counters of a node: `rxe1` replaces those of this device, others are added to rxe0."""
    lines = []
    for device, (received, sent) in PACKETS.items():
        end = {"rcvd_pkts": received, "sent_pkts": sent}
        if device == "rxe0:1":
            end.update({name: count for name, count in more.items() if name != "rxe1"})
        elif "rxe1" in more:
            end = more["rxe1"]
        for when in ("before", "after"):
            counts = "".join(f" {name}={end[name] if when == 'after' else 0}" for name in end)
            lines.append((when, f"{when} {host} {device} counters{counts}\n"))
    return "".join(line for _, line in sorted(lines, key=lambda line: line[0], reverse=True))


def health(**counts):
    """What the second node printed of itself after the run, or before: other counters of rxe0."""
    at = "/sys/class/infiniband/rxe0/ports/1"
    folder = {"symbol_error": "counters"}
    lines = "".join(
        f"{at}/{folder.get(name, 'hw_counters')}/{name}:{count}\n" for name, count in counts.items()
    )
    return f"[uptime]\n9 1\n[interrupts]\n[counters]\n{lines}[links]\n[kernel]\n[end]\n"


def over_verbs(lanes=BOTH, last="", **counters):
    """The run, as if it had been over these lanes; `counters` are those of the second node."""
    run, files = RUN, {}
    ranks = [name.split(".")[2] for name in run.files]
    for rank, host in zip(ranks, (HERE, ELSEWHERE)):
        run = run.but(stderr=run.stderr.replace(f"[vm:{rank}]", f"[{host}:{rank}]"))
        text = run.files[f"ucx.vm.{rank}.log"].replace(f"[vm:{rank}", f"[{host}:{rank} ")
        text = text.replace("UCX_TLS=tcp,self", "UCX_TLS=rc_v,self UCX_IB_GID_INDEX=0")
        text = text.replace(
            "UCX_NET_DEVICES=lo", "UCX_NET_DEVICES=rxe0:1,rxe1:1 UCX_MAX_RNDV_RAILS=2"
        )
        files[f"ucx.vm.{rank}.log"] = text.replace("tcp/lo", lanes) + last
        files[f"link.{host}.{rank}"] = readings(host, **(counters if host == ELSEWHERE else {}))
    counts = {name: count for name, count in counters.items() if name != "rxe1"}
    files[f"health.{ELSEWHERE}.before"] = health(**dict.fromkeys(counts, 0))
    files[f"health.{ELSEWHERE}.after"] = health(**counts)
    return run.but(files=files)


UNREAD = over_verbs()
UNREAD.files[f"health.{ELSEWHERE}.after"] = "[uptime]\n9 1\n"
SILENT = (
    f"[{HERE}:7  :0:7]       ud_ep.c:276  Fatal: UD endpoint 0x55 to <no debug data>: "
    "unhandled timeout error\n"
)

#: Fault -> the run, and the cause that must be named.
FAULTS = {
    "rail-unused": (
        over_verbs(rxe1={"rcvd_pkts": 0, "sent_pkts": 0}),
        f"rxe1:1 on {ELSEWHERE} carried 0.0% of the bytes: each of 2 rails must carry at least",
    ),
    "rail-without-a-lane": (
        over_verbs("rc_verbs/rxe0:1"),
        "UCX has no lane over rxe1:1 to the peer",
    ),
    "fell-back": (
        over_verbs("tcp/eth0"),
        "tcp/eth0 carried messages of 1..4194304 B: rc_verbs was asked for",
    ),
    "datagrams": (
        over_verbs(BOTH.replace("rc_", "ud_")),
        "ud_verbs/rxe0:1 carried messages of 1..4194304 B: rc_verbs was asked for",
    ),
    "lost": (
        over_verbs(completer_retry_err=29_000, rcvd_seq_err=14_000),
        f"{ELSEWHERE}: rxe0:1: packets that were lost or sent again: 43000 more during the run",
    ),
    "link-down": (
        over_verbs(link_downed=1),
        f"{ELSEWHERE}: rxe0:1: times that the link of the port went down: 1 more during the run",
    ),
    "symbol-errors": (
        over_verbs(symbol_error=121),
        f"{ELSEWHERE}: rxe0:1: symbol errors of the port: 121 more during the run, at most 120 in",
    ),
    "unread": (UNREAD, f"{ELSEWHERE}: the state of the node is not known: it stops half-way"),
    "wrong-gid": (over_verbs(last=SILENT), "no packet reached the peer by GID 0"),
}


@pytest.fixture
def rails(bench):
    """Runs the test of this number of rails on stacks that replay runs."""

    def make(runs, number=2, **extras):
        extras = {"network_device": "rxe0:1,rxe1:1", "gid_index": 0, **extras}
        features = ["inter-node", "rails", "rc_verbs"]
        bench.partition(launcher="replay", features=features, extras=extras)
        bench.replays("osu_bw", ["osu"], runs, osu_version="5.7", ucx_version="1.13.1")
        for name in runs if "others" in extras else ():
            program = bench.folder / "programs" / name / "osu_bw"
            program.write_text(program.read_text().replace("\n", f"\n{WORK}\n", 1))
        bench.record_all()
        return bench.run("-n", f"OsuRails%.*rails={number}", path="reframe/network/rails.py")

    return make


def test_each_fault_of_two_rails_is_named(rails):
    uncounted = over_verbs(rxe1={})
    runs = {
        "healthy": over_verbs(), "uncounted": uncounted, "few": over_verbs(symbol_error=120)
    }  # fmt: skip
    run = rails({**runs, **{name: fault for name, (fault, _) in FAULTS.items()}})

    link = run.says("OsuRails", "", environ="healthy").record["proof"]["link"]
    assert link["carried"][HERE] == {"rxe0:1": 4_129_000 * 4096, "rxe1:1": 2_724_000 * 4096}
    for name, (_, cause) in FAULTS.items():
        run.says("OsuRails", cause, environ=name)
    rose = run.says("OsuRails", "", environ="few").record["node_health"][ELSEWHERE]["rose"]
    assert rose == {"symbol_error": {"rxe0:1": 120}}, "what rose within its limit is recorded"
    nothing = "rxe1:1 on {} counts neither bytes nor packets: nothing shows whether the bytes"
    (said,) = run.case("OsuRails", environ="uncounted").record["proof"]["link"]["unavailable"]
    assert said.startswith(nothing.format(ELSEWHERE))


def test_packets_sent_again_beside_other_work_accuse_no_link(rails, bench, tmp_path):
    """The account of a control group that never grows makes all processor time other work."""
    account = tmp_path / "cpuacct.usage"
    account.write_text("1000000000\n")
    (bench.site / "tolerances.yaml").write_text("other_work: 0.000001\n")
    runs = {name: FAULTS[name][0] for name in ("lost", "link-down")}
    run = rails(runs, others=str(account))
    lost, down = (run.case("OsuRails", environ=name) for name in runs)
    (problem,) = lost.record["problems"]
    assert lost.record["verdict"] == "INCONCLUSIVE"
    assert problem.startswith("the machine was busy: other work took ")
    assert FAULTS["lost"][1] in problem
    assert down.record["verdict"] == "FAIL", "no other work takes a link down"
    assert down.record["accused"][0]["nodes"] == [ELSEWHERE]


def test_verbs_must_open_where_a_site_names_them(bench):
    """`ucx_info -d` of a node whose UCX opens rc_verbs, but not ud_verbs."""
    for name, features in {"both": ["rc_verbs", "ud_verbs"], "neither": []}.items():
        extras = {"network_device": "rxe0:1"}
        bench.partition(name, launcher="replay", features=["inter-node", *features], extras=extras)
    said = "#      Transport: rc_verbs\n#         Device: rxe0:1\n"
    path = bench.program("verbs", "ucx_info", f"#!/bin/sh\ncat <<'E'\n{said}E\n")
    bench.stack("verbs", ["ucx"], path, ucx_version="1.13.1")
    run = bench.run("-n", "TransportOpens", path="reframe/node/transport.py")
    assert {(name, where) for name, _, where in run.cases} == {
        (f"TransportOpens %transport={name}", "both") for name in ("rc_verbs", "ud_verbs")
    }
    run.says("TransportOpens %transport=rc_verbs", "")
    run.says("TransportOpens %transport=ud_verbs", "UCX cannot open ud_verbs here, which the")


def test_more_rails_than_devices_are_skipped(rails):
    run = rails({"healthy": over_verbs()}, number=4)
    assert run.case("OsuRails").result == "skip"
    assert "4 rails are needed, bench:here has 2" in run.output
