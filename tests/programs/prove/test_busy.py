"""The load that other work puts on a machine, measured by the real shell, and a site's limits."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import shell
from reframe.core.exceptions import ConfigError
from shell import ROOT

from assay.judge.plausible import Ratio
from assay.prove import busy, launch
from assay.prove.busy import Others, Reading
from assay.run import outputs
from assay.store.record import Metric
from assay.tolerances import TOLERANCES

#: A program that uses half a second of processor time, however long it has to wait for it.
WORK = f"""\
#!{sys.executable}
import time
while time.process_time() < 0.5:
    pass
"""

#: A command that begins, and then uses no processor until the test opens the pipe.
WAITS = "touch begun; read -r _ <pipe"

#: Threads of the kernel count as ours. Those of this machine work, and end, at any time.
OF_THE_KERNEL = "  if (int($7 / 2097152) % 2) kernel += $12 + $13\n"

ACCOUNTS = (Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup/cpu,cpuacct"))


@pytest.fixture
def folder(tmp_path):
    """A folder with a pipe, and with the program :data:`WORK`."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "work").write_text(WORK)
    (tmp_path / "work").chmod(0o755)
    return tmp_path


def readings(folder, command=WAITS, ours=busy.PROCESSES, meanwhile=lambda: None):
    """The readings of a job script before and after a command.

    If the command waits, this calls `meanwhile` after the first reading, and before the second.
    """
    command_of_readings = "\n".join(busy.script(ours))
    assert ours != busy.PROCESSES or OF_THE_KERNEL in command_of_readings
    lines = [
        launch.FIRST, command_of_readings.replace(OF_THE_KERNEL, ""), launch.SHARED_BEFORE,
        launch.BEFORE, command, *launch.BEHIND, *launch.SHARED_BEHIND, launch.LAST,
    ]  # fmt: skip
    # ReFrame starts a job in the same way.
    job = subprocess.Popen(["bash", "-c", "\n".join(lines)], cwd=folder, start_new_session=True)
    try:
        if command == WAITS:
            while not (folder / "begun").exists():
                assert job.poll() is None
                time.sleep(0.01)
            meanwhile()
            (folder / "pipe").write_text("\n")
        assert job.wait() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)  # what the command left in the background
        job.wait()
    text = (folder / launch.FILE).read_text()
    launch.parse_launch(text)
    before, behind = (Reading.parse(line) for line in text.splitlines()[1:])
    assert before is not None, text
    assert behind is not None, text
    return before, behind


@pytest.mark.parametrize(
    "command",
    [
        "./work",
        "(./work)",
        # A server that has worked and still runs, and one whose parent has ended.
        "(./work; echo >pipe; exec sleep 1000) & read -r _ <pipe",
        "sh -c '(./work; echo >pipe; exec sleep 1000) &'; read -r _ <pipe",
    ],
    ids=["child", "grandchild", "in the background", "left by its parent"],
)
def test_what_the_benchmark_burns_is_ours(folder, command):
    before, behind = readings(folder, command)
    assert behind.ours - before.ours > 0.4


def test_what_the_harness_burns_is_no_other_work(folder):
    """ReFrame is the parent of the job, and it asks often whether the job has ended."""

    def burn():
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass

    before, behind = readings(folder, meanwhile=burn)
    assert behind.ours - before.ours > 0.4


def test_what_others_burn_is_not_ours(folder):
    def work():
        subprocess.run([folder / "work"], check=True)

    before, behind = readings(folder, meanwhile=work)
    # What the readings themselves use is in both numbers.
    assert (behind.used - before.used) - (behind.ours - before.ours) > 0.3
    others = busy.between(before, behind)
    assert others is not None
    assert others.processors > 0


#: Processes: number -> name, parent, session, flags, and the ticks of 10 ms that it used as user
#: and in the kernel, and those of its children that have ended. The job is number 10.
PROCESSES = {
    1: ("init", 0, 1, 0, (1, 1, 1, 1)),
    2: ("kthreadd", 0, 0, 0x208040, (0, 7, 0, 900)),
    9: ("reframe", 1, 9, 0, (30, 20, 900, 900)),
    10: ("bash", 9, 10, 0, (10, 5, 20, 10)),
    11: ("a) b) (c", 10, 10, 0, (100, 0, 0, 0)),
    12: ("grandchild", 11, 12, 0, (200, 0, 0, 0)),
    13: ("left", 1, 10, 0, (400, 0, 0, 0)),
    77: ("hog", 1, 77, 0, (5000, 0, 0, 0)),
    78: ("hog", 9, 78, 0, (5000, 0, 0, 0)),
}


def test_the_numbers_of_the_kernel_are_added_up(tmp_path):
    """Made files of the kernel, with other work in a session of its own, also below ReFrame."""
    proc = tmp_path / "proc"
    for pid, (name, parent, session, flags, ticks) in PROCESSES.items():
        (proc / str(pid)).mkdir(parents=True)
        used = " ".join(map(str, ticks))
        line = f"{pid} ({name}) S {parent} {pid} {session} 0 -1 {flags} 0 0 0 0 {used} 20 0 1 0\n"
        (proc / str(pid) / "stat").write_text(line)
    (proc / "uptime").write_text("1234.50 2000.00\n")
    cpus = "cpu  9000 1000 2000 70000 500 30 40 250 0 0\n" + "".join(
        f"cpu{number} 1 1 1 1 1 1 1 1 0 0\n" for number in range(4)
    )
    (proc / "stat").write_text(f"{cpus}intr 1\n")
    made = "\n".join([*busy.script(busy.PROCESSES), busy.COMMAND]).replace("/proc/", f"{proc}/")
    for word, value in (("shell=$$", "shell=10"), ('"$(getconf CLK_TCK)"', "100")):
        assert word in made
        made = made.replace(word, value)
    said = shell.run("bash", "-c", made).stdout
    ours = 0.45 + 1.0 + 2.0 + 4.0  # the job with its children
    assert Reading.parse(said) == Reading(
        at=1234.5, cores=4, used=122.5, stolen=2.5, ours=ours + 0.5 + 0.07
    ), said


@pytest.mark.skipif(
    os.geteuid() != 0 or not any((top / "cpuacct.usage").exists() for top in ACCOUNTS),
    reason="needs root and control groups of version 1",
)
def test_a_hog_within_the_control_group_is_ours(folder):
    """A node of the emulated cluster works like this: all work in its control group is ours."""
    top = next(top for top in ACCOUNTS if (top / "cpuacct.usage").exists())
    group = top / f"assay-test-{os.getpid()}"
    node = group / "node02"
    node.mkdir(parents=True)
    enter = f"echo $$ >{node}/cgroup.procs && exec {folder}/work"
    try:
        before, behind = readings(
            folder,
            ours=str(group / "cpuacct.usage"),
            meanwhile=lambda: subprocess.run(["sh", "-c", enter], check=True),
        )
    finally:
        for each in (node, group):
            while each.exists():
                try:
                    each.rmdir()
                except OSError as error:
                    # A process that has ended may still be counted for a moment.
                    assert error.errno == errno.EBUSY
                    time.sleep(0.05)
    assert behind.ours - before.ours > 0.4


def test_a_group_that_is_not_there_excuses_nothing(tmp_path):
    lines = [*busy.script("/nonexistent/cpu.stat"), busy.COMMAND]
    assert shell.run("bash", "-c", "\n".join(lines)).stdout == ""
    assert Reading.parse("") is None
    assert busy.between(None, None) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("1500000000\n", 1.5), ("usage_usec 2500000\nuser_usec 1\n", 2.5)]
)
def test_processor_time_of_either_version_of_control_groups(tmp_path, text, seconds):
    (tmp_path / "cpu").write_text(text)
    lines = [*busy.script(str(tmp_path / "cpu")), busy.COMMAND]
    reading = Reading.parse(shell.run("bash", "-c", "\n".join(lines)).stdout)
    assert reading is not None
    assert reading.ours == seconds


def test_others_are_what_is_left_of_the_machine():
    before = Reading.parse("at=100.00 cores=2 used=50.00 stolen=1.00 ours=10.00")
    behind = Reading.parse("at=104.00 cores=2 used=57.00 stolen=1.80 ours=12.00")
    others = busy.between(before, behind)
    assert (others.processors, others.cores, round(others.stolen, 3)) == (1.25, 2, 0.2)
    assert str(others) == "1.2 of 2 cores, 0.2 of them other machines"
    assert str(Others(0.5, 4)) == "0.5 of 4 cores"
    # The clock of the kernel is too coarse for a few milliseconds.
    short = Reading.parse("at=100.05 cores=2 used=50.10 stolen=1.00 ours=10.00")
    assert busy.between(before, short) is None


LAUNCH = (
    "rc=0 start=99.0 begin=100.0 end=104.0 zone=+0000 host=a up=1.0..1.0 down=6.0..6.0 nonce=0123\n"
)
READINGS = (
    "at=100.00 cores=2 used=50.00 stolen=0.00 ours=10.00\n"
    "at=104.00 cores=2 used=56.00 stolen=0.00 ours=12.00\n"
)


def test_a_launch_file_with_the_share_of_others():
    assert launch.parse_launch(LAUNCH).others is None
    assert launch.parse_launch(LAUNCH + READINGS).others == Others(1.0, 2, ours=0.5)
    assert launch.parse_launch(LAUNCH + "\n\n").others is None
    with pytest.raises(ValueError, match=r"assay\.launch is torn"):
        launch.parse_launch(LAUNCH + READINGS.splitlines()[0] + "\n")


@pytest.mark.parametrize(
    ("metric", "key", "excused"),
    [
        ({"value": 9.0, "lower": 10.0, "upper": 20.0}, "larger 8", True),
        ({"value": 21.0, "lower": 10.0, "upper": 20.0}, "larger 8", False),
        ({"value": 15.0, "lower": 10.0, "upper": 20.0}, "fastest 8", False),
        ({"value": 15.0}, "link 1048576", False),
    ],
    ids=["slow", "rate above its bound", "faster than memory", "faster than the link"],
)
def test_other_work_excuses_no_number_that_is_too_good(metric, key, excused):
    ratios = {key: Ratio(7.0, 1.0, "it was 7", "at most 1 is plausible")}
    assert (
        outputs.too_good([Metric("bandwidth", **metric)], {"bandwidth": "MB/s"}, ratios)
        is not excused
    )


def test_a_latency_below_its_bound_is_too_good():
    judged = {value: [Metric("latency", value, lower=1.0)] for value in (0.5, 9.0)}
    said = {value: outputs.too_good(its, {"latency": "us"}, {}) for value, its in judged.items()}
    assert said == {0.5: True, 9.0: False}


def test_a_site_changes_the_limit_in_its_own_folder(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / TOLERANCES).symlink_to(ROOT / "site-config" / TOLERANCES)
    (site / TOLERANCES).write_text("other_work: 1\n")
    busy.limit.cache_clear()
    assert busy.limit(site) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("other_wrok: 1\n", "other_wrok: unknown key; did you mean 'other_work'?"),
        ("other_work: much\n", "other_work: 'much': expected a number"),
        ("other_work: true\n", "other_work: True: expected a number"),
        ("other_work: 0\n", "other_work: 0: expected a number > 0.0"),
        ("[", "not valid YAML"),
        ("", "(top level): None: expected a mapping"),
    ],
)
def test_a_limit_that_is_none_is_refused_in_one_line(tmp_path, text, said):
    (tmp_path / TOLERANCES).symlink_to(ROOT / "site-config" / TOLERANCES)
    site = tmp_path / "site"
    site.mkdir()
    (site / TOLERANCES).write_text(text)
    busy.limit.cache_clear()
    with pytest.raises(ConfigError) as refused:
        busy.limit(site)
    assert str(refused.value).startswith(f"{site / TOLERANCES}: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
