"""The table of counters: each has one limit, and a reading beyond it is red, wherever it was read.

The readings are made. Their form is that of the kernel's documents. Lines of the kernel's log are
from public reports where that is said, and else follow the format in the kernel's source.
"""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest
from real_outputs import DATA

import assay.node
from assay import files
from assay.accused import How
from assay.prove import counters
from assay.prove.counters import BY_NAME, Reading, rows

PARTS = ("interrupts", "protocols", "counters", "links", "kernel")


def text(up=1000.0, **parts):
    """What a node prints: `up`, and the lines of each part."""
    said = "".join(f"[{part}]\n{parts.get(part, '')}\n" for part in PARTS)
    return f"[uptime]\n{up} 1.0\n{said}[end]\n"


def reading(**parts):
    return counters.parse_counters(text(**parts))


#: The parts of a path that stand for its stars, by what it begins with; and the name of the device.
DEVICES = {
    "/sys/devices/system/edac": (["mc0"], "mc0"),
    "/sys/devices/system/cpu": (["cpu3"], "cpu3"),
    "/sys/class/infiniband": (["mlx5_0", "1"], "mlx5_0:1"),
    "/sys/bus/pci/devices/*/net": (["0000:1b:00.0", "ens1f0"], "0000:1b:00.0:ens1f0"),
    "/sys/bus/pci/devices": (["0000:1b:00.0"], "0000:1b:00.0"),
}

#: Rows that are read in files of the kernel.
FILES = [row for row in rows().values() if row.path]
LIMITED = [row.name for row in FILES if row.rule == "rise"]
RECORDED = [row.name for row in FILES if not row.rule]
PORT = ("mlx5_0:1",)


def place(row, devices=None):
    """A path of a counter with these parts for its stars; and the name of the device."""
    path = next(iter(row.paths))
    stars, device = next(said for begin, said in DEVICES.items() if path.startswith(begin))
    for part in devices or stars:
        path = path.replace("*", part, 1)
    return path, device


def said(name, value):
    """The line of a counter."""
    path, _ = place(rows()[name])
    return f"{path}:{'TOTAL_ERR_X ' if 'aer_dev' in path else ''}{value}"


def of_counter(name, value, **parts):
    return reading(counters=said(name, value), **parts)


def device_of(name):
    return place(rows()[name])[1]


@pytest.mark.parametrize("name", LIMITED)
def test_a_counter_that_moved_beyond_its_limit_is_red_and_names_its_device(name):
    row = rows()[name]
    limit = int(row.limit)
    before = of_counter(name, 0)
    within = of_counter(name, limit, up=1000.5)
    beyond = of_counter(name, limit + 1, up=1000.5)
    assert counters.reading_problems(before, within, {}, PORT) == []
    (problem,) = counters.reading_problems(before, beyond, {}, PORT)
    assert problem.startswith(f"{device_of(name)}: {row.what}: {limit + 1} more during the run")
    assert f"({name}" in problem
    assert counters.rises(before, beyond) == {row.names[0]: {device_of(name): limit + 1}}
    # What rose within its limit is in the record.
    assert bool(counters.rises(before, within)) == (limit > 0)


@pytest.mark.parametrize("name", RECORDED)
def test_a_counter_without_a_limit_is_recorded_and_passes(name):
    before, after = of_counter(name, 0), of_counter(name, 10**6)
    assert counters.reading_problems(before, after) == []
    assert counters.rises(before, after) == {name: {device_of(name): 10**6}}


@pytest.mark.parametrize("name", [name for name in LIMITED if rows()[name].per])
def test_a_short_run_may_see_the_whole_limit_and_a_long_one_more_in_proportion(name):
    row = rows()[name]
    before = of_counter(name, 0, up=0)
    for seconds, allowed in ((row.per / 1000, row.limit), (3 * row.per, 3 * row.limit)):
        for rise, problems in ((allowed, 0), (allowed + 1, 1)):
            after = of_counter(name, int(rise), up=seconds)
            assert len(counters.reading_problems(before, after)) == problems


def test_uncorrected_memory_errors_before_the_run_are_red_too():
    old = of_counter("memory_uncorrected", 2)
    line = "mc0: uncorrected memory errors: {} (memory_uncorrected)"
    assert counters.reading_problems(old, old) == [line.format("2, at most 0")]
    new = counters.reading_problems(of_counter("memory_uncorrected", 0), old)
    assert new == [line.format("2 more during the run")]


@pytest.mark.parametrize("name", [row.name for row in FILES if row.holds])
def test_a_counter_that_is_full_shows_no_new_fault_and_is_red(name):
    full = rows()[name].holds
    stuck, free = of_counter(name, full), of_counter(name, full - 1)
    (problem,) = counters.reading_problems(stuck, stuck)
    line = f"mlx5_0:1: {rows()[name].what}: the counter stands at {full}, the most that"
    assert problem.startswith(line)
    assert "reset it (perfquery -R)" in problem and problem.endswith(f"({name})")
    assert counters.reading_problems(free, free) == []
    assert counters.reading_problems(stuck, stuck, {BY_NAME: {name: 0}}) == []


def test_a_machine_check_is_red():
    lines = (" MCE:          0          {}   Machine check exceptions", " MCP:   7  7  polls")
    before, after = (reading(interrupts="\n".join(lines).format(n)) for n in (0, 1))
    assert counters.reading_problems(before, before) == []
    assert counters.reading_problems(before, after) == [
        "machine check exceptions: 1 more during the run (MCE)"
    ]


def test_counters_of_many_devices_are_one_line():
    """Every processor of a package has the counter of the package."""
    row = rows()["package_throttled"]
    before, after = (
        reading(counters="\n".join(f"{place(row, [f'cpu{n}'])[0]}:{value}" for n in range(64)))
        for value in (5, 6)
    )
    (problem,) = counters.reading_problems(before, after)
    assert problem.startswith("cpu0, cpu1, cpu10 and 61 more: times that the package was throttled")


def test_a_counter_that_was_set_back_counts_from_0():
    before, after = of_counter("link_downed", 9), of_counter("link_downed", 2)
    assert counters.rises(before, after) == {"link_downed": {"mlx5_0:1": 2}}
    new = reading()
    assert counters.rises(new, after) == {}, "a device that came during the run has no rise"


def test_a_site_may_allow_more_of_a_counter():
    before, after = of_counter("core_throttled", 0), of_counter("core_throttled", 4)
    assert counters.reading_problems(before, after)
    assert counters.reading_problems(before, after, {BY_NAME: {"core_throttled": 4}}) == []
    assert counters.reading_problems(before, after, {BY_NAME: {"core_throttled": 3}})


def test_a_site_may_limit_a_counter_that_is_only_recorded():
    before, after = of_counter("core_power_limited", 0), of_counter("core_power_limited", 6)
    assert counters.reading_problems(before, after) == []
    assert counters.reading_problems(before, after, {BY_NAME: {"core_power_limited": 5}})
    assert counters.reading_problems(before, after, {BY_NAME: {"core_power_limited": 6}}) == []


@pytest.mark.parametrize(
    ("health", "line"),
    [
        ({BY_NAME: {"MCE": 1, "network": 1}, "link_resent_max": 0.5, "governors": ["x"]}, None),
        (
            {BY_NAME: {"core_throtled": 4}},
            "counters_max/core_throtled: 'core_throtled' is not known; did you mean 'core_",
        ),
        (
            {"link_resend_max": 0.1},
            "link_resend_max: unknown key; did you mean 'link_resent_max'?",
        ),
        ({"colour": "green"}, "colour: unknown key; known are counters_max, free_bytes_min, "),
        ({"link_errors_max": "1"}, "link_errors_max: '1': expected a number, got a text"),
        ({BY_NAME: {"MCE": -1}}, "counters_max/MCE: -1: expected a number >= 0"),
        ({BY_NAME: {"log_disk_error": 1}}, "counters_max/log_disk_error: has no limit to change: "),
        ({BY_NAME: 3}, "counters_max: 3: expected a mapping, got a whole number"),
        (["MCE"], "(top level): ['MCE']: expected a mapping, got a list"),
        ({"governors": "performance"}, "governors: 'performance': expected a list, got a text"),
    ],
)
def test_a_wrong_word_or_number_of_a_site_is_one_line(health, line):
    said = counters.refused_health(health)
    assert said.startswith(line) if line else said == ""


# --- one counter, one limit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"what": "x", "source": "y", "risee": 1}, "a/risee: unknown key; did you mean 'rise'?"),
        ({"what": "x"}, "a: `source` is missing (A counter has what and source; "),
        ({"what": "x", "source": "y", "rise": "1"}, "a/rise: '1': expected a number or nothing"),
    ],
)
def test_a_wrong_row_of_the_table_is_one_line(row, said):
    assert files.misshapen({"a": row}, dict[str, counters.Row]).startswith(said)


def test_each_counter_is_in_one_row():
    names = Counter(name for row in rows().values() for name in row.names)
    assert [name for name, times in names.items() if times > 1] == []
    paths = Counter(path for row in rows().values() for path in row.paths)
    assert [path for path, times in paths.items() if times > 1] == []


def test_no_other_file_of_the_suite_names_a_counter_of_a_port():
    """The scripts of the nodes get the names from the table, so no other file can limit them."""
    names = {name for row in rows().values() if row.of == "port" for name in row.names}
    source = Path(assay.node.__file__).parents[1]
    for path in (path for path in source.rglob("*") if path.suffix in (".py", ".sh", ".yaml")):
        if path.name != "counters.yaml":
            assert not set(re.findall(r"\w+", path.read_text())) & names, path


def test_a_word_of_a_site_that_limits_several_rows_replaces_one_limit():
    for word in {row.site_key for row in rows().values()} - {""}:
        same = {(row.rule, row.limit) for row in rows().values() if row.site_key == word}
        assert len(same) == 1, word


#: Counters that were judged twice before: at 0 in a run between nodes, and by a public source.
TWICE = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"),
    *("local_link_integrity_errors", "local_ack_timeout_err"),
)


@pytest.mark.parametrize("tested", [PORT, ()], ids=["between nodes", "within a node"])
@pytest.mark.parametrize("name", TWICE)
def test_a_run_between_nodes_and_one_within_a_node_judge_a_rise_alike(tmp_path, name, tested):
    limit = int(rows()[name].limit)
    for host, rise in (("n1", limit), ("n2", limit + 1)):
        leave(tmp_path, host, *(text(counters=said(name, value)) for value in (0, rise)))
    problems, doubts, nodes = counters.counter_problems(tmp_path, {}, tested)
    (problem,) = (*problems, *doubts)
    assert problem.startswith(f"n2: mlx5_0:1: {rows()[name].what}: {limit + 1} more")
    assert (problem.nodes, problem.how) == (("n2",), How.LOSSY)
    assert nodes["n1"]["rose"] == ({name: {"mlx5_0:1": limit}} if limit else {})
    assert nodes["n2"]["rose"] == {name: {"mlx5_0:1": limit + 1}}


def test_other_work_explains_what_it_can_move_and_nothing_else(tmp_path):
    """Packets are sent again where the cores are taken. No other work makes a link fail."""
    ends = (f"{said('link_downed', n)}\n{said('packets_resent', 9 * n)}" for n in (0, 1))
    leave(tmp_path, "n1", *(text(counters=end) for end in ends))
    problems, doubts, _ = counters.counter_problems(tmp_path, {}, PORT)
    assert [line.rpartition("(")[2] for line in problems] == ["link_downed)"]
    (doubt,) = doubts
    assert "packets that were lost or sent again: 9 more" in doubt


# --- packets that were sent again -----------------------------------------------------------------

#: Counters of rxe0 after runs over soft-RoCE of 2026-11-21: without loss, and with a loss of 1 %.
RXE = {
    "healthy": "rcvd_pkts=2387 sent_pkts=15927",
    "sender": "completer_retry_err=29 rcvd_pkts=4085 rcvd_seq_err=14 sent_pkts=3927",
    "receiver": "completer_retry_err=4 duplicate_request=582 link_downed=0 out_of_seq_request=16 "
    "rcvd_pkts=3891 rcvd_seq_err=0 retry_exceeded_err=0 send_err=0 sent_pkts=4084",
}


def of_port(counts):
    """What a node prints of the port rxe0:1: its driver has these counters."""
    at = "/sys/class/infiniband/rxe0/ports/1/hw_counters"
    pairs = (pair.split("=") for pair in counts.split())
    return text(counters="\n".join(f"{at}/{name}:{value}" for name, value in pairs))


def between(after, before=None, tested=("rxe0:1",), health=None):
    before = re.sub("=[0-9]+", "=0", after) if before is None else before
    ends = (counters.parse_counters(of_port(counts)) for counts in (before, after))
    return counters.reading_problems(*ends, health, tested)


def test_lost_packets_are_named_with_the_port_and_its_counters():
    assert between(RXE["healthy"]) == []
    assert between(RXE["sender"]) == [
        "rxe0:1: packets that were lost or sent again: 43 more during the run among 8012, at most "
        "0.02 % (packets_resent: completer_retry_err 29, rcvd_seq_err 14)"
    ]
    (line,) = between(RXE["receiver"])
    assert "602 more during the run among 7975" in line and "duplicate_request 582" in line


def test_losses_of_another_port_are_recorded_only():
    """The port of a file system or of another job may send again what it likes."""
    assert between(RXE["sender"], tested=()) == between(RXE["sender"], tested=PORT) == []


def test_a_site_allows_losses():
    assert between(RXE["receiver"], health={"link_resent_max": 0.2}) == []
    assert between(RXE["receiver"], health={BY_NAME: {"packets_resent": 0.01}})


def test_losses_of_a_port_that_counts_no_packets_have_no_share_and_fail():
    assert between("out_of_sequence=3") == [], "so few tell nothing"
    (line,) = between("out_of_sequence=4")
    assert line.startswith("rxe0:1: packets that were lost or sent again: 4 more")


@pytest.mark.parametrize("name", rows()["link_errors"].names)
def test_a_packet_that_the_driver_gave_up_is_red_on_the_port_under_test(name):
    (line,) = between(f"{RXE['healthy']} {name}=1")
    assert line.startswith("rxe0:1: times that the driver gave up a packet: 1 more")
    assert between(f"{RXE['healthy']} {name}=1", health={"link_errors_max": 1}) == []
    assert between(f"{RXE['healthy']} {name}=1", tested=()) == []


def test_a_counter_of_the_port_under_test_that_was_set_back_is_red():
    """Who clears the counters of a port during a run hides its errors."""
    ends = f"{RXE['healthy']} send_err=3", f"{RXE['healthy']} send_err=7"
    assert between(*ends) == [
        "rxe0:1: times that the driver gave up a packet: set back, so earlier ones are not known "
        "(send_err 7 before, 3 after)"
    ]
    assert between(*ends, tested=()) == []


def test_a_link_of_soft_roce_that_went_down_is_red():
    (line,) = between(f"{RXE['healthy']} link_downed=1")
    said = "rxe0:1: times that the link of the port went down: 1 more during the run (link_downed)"
    assert line == said


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("two-rails", []),
        ("latency", []),  # one packet was repeated
        ("one-of-two-rails", ["completer_retry_err 30", "duplicate_request 53"]),
        ("loss", ["completer_retry_err 117", "duplicate_request 133"]),
    ],
)
def test_a_recorded_run_is_judged_by_what_its_ports_repeated(run, said):
    found = []
    for path in sorted((DATA / "links").glob(f"{run}.*.txt")):
        lines = [line.split(" ", 4) for line in path.read_text().splitlines()]
        ends = {when: counts for when, _, device, _, counts in lines if device == "rxe0:1"}
        found += between(ends["after"], ends["before"])
    assert len(found) == len(said)
    for problem, words in zip(found, said):
        assert words in problem


SNMP = "Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 {} {}"


def test_segments_that_were_sent_again_are_recorded_and_left_to_the_tournament():
    ends = [reading(protocols=SNMP.format(*said)) for said in ((10, 1), (20, 8))]
    assert counters.reading_problems(*ends, {}, ("eth0",)) == []
    assert counters.rises(*ends) == {"segments_resent": {"": 7}}


def test_the_pairs_of_a_tournament_count_what_the_table_says(monkeypatch):
    """A counter with a limit of its own is no packet that was sent again."""
    monkeypatch.syspath_prepend(Path(assay.node.__file__).parents[1] / "fleet/node")
    pairs = importlib.import_module("pairs")
    counts = {name: 1 for row in rows().values() if row.of == "port" for name in row.names}
    port = {**counts, "rcvd_pkts": 50, "sent_pkts": 90}
    monkeypatch.setattr(pairs.port_counters, "of_port", lambda device: port)
    names = rows()["packets_resent"].names
    assert pairs.repairs("rxe0:1", names) == [90, len(names)]


# --- links on the PCI bus, and the kernel's log ---------------------------------------------------


def pci(address, kind, **more):
    files = {
        "class": kind, "current_link_speed": "16.0 GT/s PCIe", "current_link_width": "16",
        "max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16",
        "../max_link_speed": "16.0 GT/s PCIe", "../max_link_width": "16", **more,
    }  # fmt: skip
    at = f"/sys/bus/pci/devices/{address}"
    return "\n".join(f"{at}/{name}:{value}" for name, value in files.items())


SLOW, NARROW = {"current_link_speed": "8.0 GT/s PCIe"}, {"current_link_width": "8"}


@pytest.mark.parametrize(
    ("kind", "files", "end"),
    [
        ("0x020700", {}, None),
        ("0x020700", SLOW, "speed"),
        ("0x020000", NARROW, "width"),
        ("0x010802", SLOW, "speed"),
        ("0x010802", NARROW, "width"),
        ("0x030200", NARROW, "width"),
        # An idle GPU saves power; other devices do not count.
        ("0x030200", SLOW, None),
        ("0x0c0330", {**SLOW, **NARROW}, None),
        # The slot has no more to give, and a link that is not known says nothing.
        ("0x020700", {**NARROW, "../max_link_width": "8"}, None),
        ("0x020700", {"current_link_speed": "Unknown", "current_link_width": "0"}, None),
        ("0x020700", {"max_link_width": "255", "../max_link_width": "255"}, None),
        # The bridge of a virtual machine states nothing.
        ("0x020700", {**SLOW, "../max_link_speed": "Unknown"}, None),
    ],
)
def test_a_link_below_what_both_ends_can_have_is_red(kind, files, end):
    found = counters.reading_problems(reading(), reading(links=pci("0000:3b:00.0", kind, **files)))
    if end is None:
        assert found == []
    else:
        (problem,) = found
        assert problem.startswith("0000:3b:00.0 (") and f"the {end} of its PCIe link is" in problem


def test_a_site_may_leave_out_a_link_and_allow_an_old_error():
    narrow = reading(links=pci("0000:3b:00.0", "0x020700", **NARROW))
    assert counters.reading_problems(narrow, narrow)
    assert counters.reading_problems(narrow, narrow, {BY_NAME: {"network": 1}}) == []
    old = of_counter("memory_uncorrected", 2)
    assert counters.reading_problems(old, old, {BY_NAME: {"memory_uncorrected": 2}}) == []


def test_an_adapter_that_vanished_during_the_run_is_red():
    there = reading(links=pci("0000:3b:00.0", "0x020700"))
    (line,) = counters.reading_problems(there, reading())
    assert line.startswith("0000:3b:00.0 (") and line.endswith(
        "it was there before the run, and is gone"
    )


#: Lines that count, by their rule.
LINES = {
    # andikleen/mcelog issue 74 and radiasoft/devops issue 134 have lines of this driver.
    "log_memory_uncorrected": (
        "[  9.1] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0)",
        "[  9.1] Memory failure: 0x12345: recovery action for dirty LRU page: Recovered",
    ),
    "log_pcie_uncorrected": (
        "[  9.1] pcieport 0000:3a:00.0: AER: Uncorrectable (Non-Fatal) error message received",
    ),
    # erpalma/throttled issue 186.
    "log_throttled": (
        "[76747.169397] mce: CPU2: Core temperature above threshold, cpu clock throttled (total "
        "events = 2675)",
        # Made, after therm_throt.c of newer kernels.
        "[  9.1] mce: CPU2: Core temperature is above threshold, cpu clock is throttled (total "
        "events = 1)",
    ),
    "log_lockup": ("[  9.1] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [xhpl:1234]",),
    "log_hung_task": ("[  9.1] INFO: task xhpl:1234 blocked for more than 120 seconds.",),
    "log_out_of_memory": ("[  9.1] Out of memory: Killed process 1234 (xhpl) total-vm:1kB",),
    "log_disk_error": (
        "[  9.1] I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "[  9.1] nvme nvme0: I/O 12 QID 3 timeout, aborting",
    ),
    "log_adapter_failed": (
        "[  9.1] mlx5_core 0000:3b:00.0: device's health compromised - reached miss count",
    ),
}

#: Lines that do not count: one corrected error, which its counter judges (radiasoft/devops issue
#: 134), and the limit of one control group.
HARMLESS = (
    "[  9.1] EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#1_Ha#0_Chan#0_DIMM#0 (channel:0)",
    "[  9.1] Memory cgroup out of memory: Killed process 1234 (xhpl) total-vm:1kB",
    "[  9.1] mce: CPU6: Core temperature/speed normal",
    # Made: an image on a loop device, and an empty drive.
    "[  9.1] I/O error, dev loop0, sector 20971392 op 0x0:(READ) flags 0x80700 phys_seg 1 prio 2",
    "[  9.1] blk_update_request: I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x0",
)


@pytest.mark.parametrize("name", [r.name for r in rows().values() if r.pattern and not r.tool])
def test_a_new_line_of_the_log_is_red_and_an_old_one_is_not(name):
    for line in LINES[name]:
        before, after = reading(kernel="[ 1.0] older"), reading(kernel=line)
        assert counters.reading_problems(before, after) == [
            f"{rows()[name].what} during the run: {line}"
        ]
        assert counters.reading_problems(after, after) == []


@pytest.mark.parametrize("line", HARMLESS)
def test_lines_that_do_not_count(line):
    assert counters.reading_problems(reading(), reading(kernel=line)) == []


def test_a_log_that_may_not_be_read_is_recorded_and_not_taken_for_new_lines():
    said = "dmesg: read kernel buffer failed: Operation not permitted"
    silent = reading(kernel=said)
    assert silent == Reading(1000.0, unread=said)
    assert counters.reading_problems(silent, reading(kernel=LINES["log_lockup"][0])) == []


def test_every_limit_has_a_source():
    assert all(len(row.source) > 20 for row in rows().values())
    of = {row.of for row in rows().values()}
    assert of == {"node", "port", "interface", "adapter", "drive", "gpu", "nvlink"}


@pytest.mark.parametrize("torn", ["", "[uptime]\n", "[uptime]\nnow\n", text()[:-6]])
def test_a_torn_reading_is_an_error(torn):
    with pytest.raises(ValueError, match="it "):
        counters.parse_counters(torn)


def leave(folder, host, before, after):
    for pattern, said in zip(counters.FILES, (before, after)):
        if said is not None:
            (folder / pattern.replace("*", host)).write_text(said)


def test_the_node_of_a_job_is_accused(tmp_path: Path):
    path, _ = place(rows()["link_downed"], ["mlx5_1", "1"])
    leave(tmp_path, "n1", text(), text())
    leave(tmp_path, "n2.cluster", text(counters=f"{path}:4"), text(counters=f"{path}:5"))
    leave(tmp_path, "n3", text(), None)
    leave(tmp_path, "n4", "", text())
    problems, _, nodes = counters.counter_problems(tmp_path)
    (problem,) = problems
    assert problem.startswith("n2.cluster: mlx5_1:1: times that the link of the port went down: 1")
    assert (problem.nodes, problem.how) == (("n2.cluster",), How.LOSSY)
    assert nodes["n2.cluster"]["rose"] == {"link_downed": {"mlx5_1:1": 1}}
    assert "No such file" in nodes["n3"]["unread"]
    assert nodes["n4"]["unread"].endswith("it does not begin with the time since the boot")
    assert counters.counter_problems(tmp_path, {BY_NAME: {"link_downed": 1}})[0] == []
