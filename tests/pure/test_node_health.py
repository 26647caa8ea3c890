"""Counters, links and log lines of a node: each limit has a reading that makes it red.

The readings are made. Their form is that of the kernel's documents. Lines of the kernel's log are
from public reports where that is said, and else follow the format in the kernel's source.
"""

from pathlib import Path

import pytest

from assay.accused import How
from assay.evidence import node_health, node_limits
from assay.evidence.node_health import Reading, rules

HEAD = "[uptime]\n{up} 1.0\n[interrupts]\n{interrupts}\n[counters]\n{counters}\n"
TAIL = "[links]\n{links}\n[kernel]\n{kernel}\n[end]\n"


def text(up=1000.0, interrupts="", counters="", links="", kernel=""):
    return (HEAD + TAIL).format(**locals())


def reading(**parts):
    return node_health.parse(text(**parts))


def file_of(name, devices):
    """The path of a counter of a device; `devices` has the parts that stand for the stars."""
    path = rules().counters[name].path
    for part in devices:
        path = path.replace("*", part, 1)
    return path


#: The parts of a path that stand for its stars, by what it begins with; and the name of the device.
DEVICES = {
    "/sys/devices/system/edac": (["mc0"], "mc0"),
    "/sys/devices/system/cpu": (["cpu3"], "cpu3"),
    "/sys/class/infiniband": (["mlx5_0", "1"], "mlx5_0:1"),
    "/sys/bus/pci/devices/*/net": (["0000:1b:00.0", "ens1f0"], "0000:1b:00.0:ens1f0"),
    "/sys/bus/pci/devices": (["0000:1b:00.0"], "0000:1b:00.0"),
}


def of_counter(name, value, **parts):
    path = rules().counters[name].path
    stars = next(stars for begin, (stars, _) in DEVICES.items() if path.startswith(begin))
    total = "TOTAL_ERR_X " if "aer_dev" in path else ""
    return reading(counters=f"{file_of(name, stars)}:{total}{value}", **parts)


def device_of(name):
    path = rules().counters[name].path
    return next(device for begin, (_, device) in DEVICES.items() if path.startswith(begin))


LIMITED = [name for name, limit in rules().counters.items() if limit.rise is not None]
RECORDED = [name for name, limit in rules().counters.items() if limit.rise is None]


@pytest.mark.parametrize("name", LIMITED)
def test_a_counter_that_moved_beyond_its_limit_is_red_and_names_its_device(name):
    limit = rules().counters[name]
    before = of_counter(name, 0)
    within = of_counter(name, int(limit.rise), up=1000.5)
    beyond = of_counter(name, int(limit.rise) + 1, up=1000.5)
    assert node_health.problems(before, within) == []
    (problem, *rest) = node_health.problems(before, beyond)
    assert problem.startswith(f"{device_of(name)}: {limit.what}: {int(limit.rise) + 1} more during")
    assert problem.endswith(f"({name})")
    assert bool(rest) == (limit.most is not None)
    assert node_health.rises(before, beyond) == {name: {device_of(name): int(limit.rise) + 1}}


@pytest.mark.parametrize("name", RECORDED)
def test_a_counter_without_a_limit_is_recorded_and_passes(name):
    before, after = of_counter(name, 0), of_counter(name, 10**6)
    assert node_health.problems(before, after) == []
    assert node_health.rises(before, after) == {name: {device_of(name): 10**6}}


@pytest.mark.parametrize("name", [name for name in LIMITED if rules().counters[name].per])
def test_a_long_run_may_see_more_in_proportion(name):
    limit = rules().counters[name]
    before = of_counter(name, 0, up=0)
    for rise, problems in ((3 * limit.rise, 0), (3 * limit.rise + 1, 1)):
        after = of_counter(name, int(rise), up=3 * limit.per)
        assert len(node_health.problems(before, after)) == problems


def test_uncorrected_memory_errors_before_the_run_are_red_too():
    old = of_counter("memory_uncorrected", 2)
    assert node_health.problems(old, old) == [
        "mc0: uncorrected memory errors: 2, at most 0 (memory_uncorrected)"
    ]


@pytest.mark.parametrize("name", [n for n in LIMITED if rules().counters[n].holds])
def test_a_counter_that_is_full_shows_no_new_fault_and_is_red(name):
    full = rules().counters[name].holds
    stuck, free = of_counter(name, full), of_counter(name, full - 1)
    (problem,) = node_health.problems(stuck, stuck)
    said = f"mlx5_0:1: {rules().counters[name].what}: the counter stands at {full}, the most that"
    assert problem.startswith(said)
    assert "reset it (perfquery -R)" in problem and problem.endswith(f"({name})")
    assert node_health.problems(free, free) == []
    assert node_health.problems(stuck, stuck, {name: 0}) == []


def test_a_machine_check_is_red():
    rows = (" MCE:          0          {}   Machine check exceptions", " MCP:   7  7  polls")
    before, after = (reading(interrupts="\n".join(rows).format(n)) for n in (0, 1))
    assert node_health.problems(before, before) == []
    assert node_health.problems(before, after) == [
        "machine check exceptions: 1 more during the run (MCE)"
    ]


def test_counters_of_many_devices_are_one_line():
    """Every processor of a package has the counter of the package."""
    before, after = (
        reading(counters="\n".join(
            f"{file_of('package_throttled', [f'cpu{n}'])}:{value}" for n in range(64)
        )) for value in (5, 6)
    )  # fmt: skip
    (problem,) = node_health.problems(before, after)
    assert problem.startswith("cpu0, cpu1, cpu10 and 61 more: times that the package was throttled")


def test_a_counter_that_was_set_back_counts_from_0():
    before, after = of_counter("link_downed", 9), of_counter("link_downed", 2)
    assert node_health.rises(before, after) == {"link_downed": {"mlx5_0:1": 2}}
    new = reading()
    assert node_health.rises(new, after) == {}, "a device that came during the run has no rise"


def test_a_site_may_allow_more_of_a_counter():
    before, after = of_counter("core_throttled", 0), of_counter("core_throttled", 4)
    assert node_health.problems(before, after)
    assert node_health.problems(before, after, {"core_throttled": 4}) == []
    assert node_health.problems(before, after, {"core_throttled": 3})
    (line,) = node_limits.unknown({"counters_max": {"core_throtled": 4}})
    assert "counters_max: 'core_throtled' is no counter" in line and "core_throttled" in line
    assert node_limits.unknown({"counters_max": {"MCE": 1}}) == []


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
    found = node_health.problems(reading(), reading(links=pci("0000:3b:00.0", kind, **files)))
    if end is None:
        assert found == []
    else:
        (problem,) = found
        assert problem.startswith("0000:3b:00.0 (") and f"the {end} of its PCIe link is" in problem


def test_a_site_may_leave_out_a_link_and_allow_an_old_error():
    narrow = reading(links=pci("0000:3b:00.0", "0x020700", **NARROW))
    assert node_health.problems(narrow, narrow)
    assert node_health.problems(narrow, narrow, {"network": 1}) == []
    assert node_limits.unknown({"counters_max": {"network": 1}}) == []
    old = of_counter("memory_uncorrected", 2)
    assert node_health.problems(old, old, {"memory_uncorrected": 2}) == []


def test_an_adapter_that_vanished_during_the_run_is_red():
    there = reading(links=pci("0000:3b:00.0", "0x020700"))
    (line,) = node_health.problems(there, reading())
    assert line.startswith("0000:3b:00.0 (") and line.endswith(
        "it was there before the run, and is gone"
    )


#: Lines that count, by their rule.
LINES = {
    # andikleen/mcelog issue 74 and radiasoft/devops issue 134 have lines of this driver.
    "memory_uncorrected": (
        "[  9.1] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0)",
        "[  9.1] Memory failure: 0x12345: recovery action for dirty LRU page: Recovered",
    ),
    "pcie_uncorrected": (
        "[  9.1] pcieport 0000:3a:00.0: AER: Uncorrectable (Non-Fatal) error message received",
    ),
    # erpalma/throttled issue 186.
    "throttled": (
        "[76747.169397] mce: CPU2: Core temperature above threshold, cpu clock throttled (total "
        "events = 2675)",
        # Made, after therm_throt.c of newer kernels.
        "[  9.1] mce: CPU2: Core temperature is above threshold, cpu clock is throttled (total "
        "events = 1)",
    ),
    "lockup": ("[  9.1] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [xhpl:1234]",),
    "hung_task": ("[  9.1] INFO: task xhpl:1234 blocked for more than 120 seconds.",),
    "out_of_memory": ("[  9.1] Out of memory: Killed process 1234 (xhpl) total-vm:1kB",),
    "disk_error": (
        "[  9.1] I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "[  9.1] nvme nvme0: I/O 12 QID 3 timeout, aborting",
    ),
    "adapter_failed": (
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


@pytest.mark.parametrize("name", rules().kernel)
def test_a_new_line_of_the_log_is_red_and_an_old_one_is_not(name):
    for line in LINES[name]:
        before, after = reading(kernel="[ 1.0] older"), reading(kernel=line)
        assert node_health.problems(before, after) == [
            f"{rules().kernel[name].what} during the run: {line}"
        ]
        assert node_health.problems(after, after) == []


@pytest.mark.parametrize("line", HARMLESS)
def test_lines_that_do_not_count(line):
    assert node_health.problems(reading(), reading(kernel=line)) == []


def test_a_log_that_may_not_be_read_is_recorded_and_not_taken_for_new_lines():
    said = "dmesg: read kernel buffer failed: Operation not permitted"
    silent = reading(kernel=said)
    assert silent == Reading(1000.0, unread=said)
    assert node_health.problems(silent, reading(kernel=LINES["lockup"][0])) == []


def test_every_limit_has_a_source():
    found = rules()
    for part in (found.counters, found.interrupts, found.links, found.kernel):
        assert all(len(entry.source) > 20 for entry in part.values())


@pytest.mark.parametrize("torn", ["", "[uptime]\n", "[uptime]\nnow\n", text()[:-6]])
def test_a_torn_reading_is_an_error(torn):
    with pytest.raises(ValueError, match="it "):
        node_health.parse(torn)


def leave(folder, host, before, after):
    for pattern, said in zip(node_health.FILES, (before, after)):
        if said is not None:
            (folder / pattern.replace("*", host)).write_text(said)


def test_the_node_of_a_job_is_accused(tmp_path: Path):
    path = file_of("link_downed", ["mlx5_1", "1"])
    leave(tmp_path, "n1", text(), text())
    leave(tmp_path, "n2.cluster", text(counters=f"{path}:4"), text(counters=f"{path}:5"))
    leave(tmp_path, "n3", text(), None)
    leave(tmp_path, "n4", "", text())
    nodes = node_health.of_job(tmp_path)
    (problem,) = nodes.problems
    assert problem.startswith("n2.cluster: mlx5_1:1: times that the link of the port went down: 1")
    assert (problem.nodes, problem.how) == (("n2.cluster",), How.DIFFERS)
    assert nodes.record["n2.cluster"]["rose"] == {"link_downed": {"mlx5_1:1": 1}}
    assert "No such file" in nodes.record["n3"]["unread"]
    assert nodes.record["n4"]["unread"].endswith("it does not begin with the time since the boot")
    assert node_health.of_job(tmp_path, {"link_downed": 1}).problems == ()
