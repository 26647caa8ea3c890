"""The load that other work puts on a machine, measured by the real shell, and a site's limits."""

import os
import subprocess
import time
from pathlib import Path

import pytest
import shell
from reframe.core.exceptions import ConfigError

from assay.evidence import busy, launch
from assay.evidence.busy import Others, Reading

#: Uses half a second of processor time, even if it has to wait for the processor.
WORK = "awk 'BEGIN { for (i = 0; i < 6000000; i++) s += i % 7 }'"

ACCOUNTS = (Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup/cpu,cpuacct"))


def readings(folder, command, ours=busy.PROCESSES, meanwhile=lambda: None):
    """The readings of a job script before and after a command. Calls `meanwhile` until it ends."""
    lines = [
        launch.FIRST, *busy.script(ours), launch.SHARED_BEFORE, launch.BEFORE, command,
        *launch.BEHIND, *launch.SHARED_BEHIND, launch.LAST,
    ]  # fmt: skip
    # ReFrame starts a job in the same way.
    job = subprocess.Popen(["bash", "-c", "\n".join(lines)], cwd=folder, start_new_session=True)
    end = time.monotonic() + 100
    while job.poll() is None:
        assert time.monotonic() < end
        meanwhile()
        time.sleep(0.01)
    assert job.returncode == 0
    text = (folder / launch.FILE).read_text()
    launch.parse(text)
    before, behind = (Reading.parse(line) for line in text.splitlines()[1:])
    assert before is not None, text
    assert behind is not None, text
    return before, behind


@pytest.mark.parametrize(
    "command",
    [
        WORK,
        f"({WORK}; {WORK})",
        # One server that still runs, and one whose parent has ended.
        f"({WORK}; {WORK}; sleep 2) & sleep 1; until [ -e done ]; do {WORK}; touch done; done",
        f"sh -c '(sh -c \"{WORK.replace(chr(39), '')}\" &) ' 2>/dev/null; {WORK}",
    ],
    ids=["child", "grandchildren", "in the background", "left by its parent"],
)
def test_what_the_benchmark_burns_is_ours(tmp_path, command):
    before, behind = readings(tmp_path, command)
    assert behind.ours - before.ours > 0.2
    assert behind.used - before.used >= behind.ours - before.ours - 0.1


def test_what_the_harness_burns_is_no_other_work(tmp_path):
    """ReFrame is the parent of the job, and it asks often whether the job has ended."""
    before, behind = readings(tmp_path, "sleep 2", meanwhile=lambda: sum(range(10**6)))
    assert behind.ours - before.ours > 0.3


def test_what_others_burn_is_not_ours(tmp_path):
    hog = subprocess.Popen(["timeout", "60", "sh", "-c", "while :; do :; done"])
    try:
        before, behind = readings(tmp_path, "sleep 2")
        assert hog.poll() is None, "it ran all the time"
    finally:
        hog.terminate()
        hog.wait()
    assert behind.ours - before.ours < 0.5, "the test itself, which waits in a loop"
    others = busy.between(before, behind)
    assert others is not None
    assert others.processors > 0.3


@pytest.mark.skipif(
    os.geteuid() != 0 or not any((top / "cpuacct.usage").exists() for top in ACCOUNTS),
    reason="needs root and control groups of version 1",
)
def test_a_hog_within_the_control_group_is_ours(tmp_path):
    """A node of the emulated cluster works like this: all work in its control group is ours."""
    top = next(top for top in ACCOUNTS if (top / "cpuacct.usage").exists())
    group = top / f"assay-test-{os.getpid()}"
    node = group / "node02"
    node.mkdir(parents=True)
    enter = f"echo $$ >{node}/cgroup.procs; exec timeout 60 sh -c 'while :; do :; done'"
    hog = subprocess.Popen(["sh", "-c", enter])
    try:
        end = time.monotonic() + 10
        while not (node / "cgroup.procs").read_text().strip():
            assert time.monotonic() < end
            time.sleep(0.01)
        before, behind = readings(tmp_path, "sleep 2", str(group / "cpuacct.usage"))
        ours = busy.reading(str(group / "cpuacct.usage"))
    finally:
        hog.terminate()
        hog.wait()
        for folder in (node, group):
            end = time.monotonic() + 10
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:
                    assert time.monotonic() < end
                    time.sleep(0.05)
    assert behind.ours - before.ours > 0.3
    assert ours is not None
    assert ours.ours >= behind.ours - 0.01  # the job script prints two decimals


def test_a_group_that_is_not_there_excuses_nothing(tmp_path):
    lines = [*busy.script("/nonexistent/cpu.stat"), busy.COMMAND]
    assert shell.run("bash", "-c", "\n".join(lines)).stdout == ""
    assert Reading.parse("") is None
    assert busy.between(None, None) is None
    assert busy.reading("/nonexistent/cpu.stat") is None


def test_processor_time_of_either_version_of_control_groups():
    assert busy._of_group("1500000000\n") == 1.5
    assert busy._of_group("usage_usec 2500000\nuser_usec 1\n") == 2.5


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
    assert launch.parse(LAUNCH).others is None
    assert launch.parse(LAUNCH + READINGS).others == Others(1.0, 2)
    assert launch.parse(LAUNCH + "\n\n").others is None
    with pytest.raises(ValueError, match=r"assay\.launch is torn"):
        launch.parse(LAUNCH + READINGS.splitlines()[0] + "\n")


@pytest.fixture
def looks(monkeypatch):
    """Sets the load of the machine to these numbers, one number for each look."""

    def be(*processors):
        taken = iter(processors)
        monkeypatch.setattr(busy, "LOOK", 0.0)
        monkeypatch.setattr(busy, "reading", lambda ours: None)
        monkeypatch.setattr(busy, "between", lambda before, behind: Others(next(taken), 2))
        return lambda: busy.look(busy.PROCESSES, 0.75)

    return be


def test_a_busy_machine_is_named_with_its_figures(looks):
    said = looks(1.9, 1.8, 2.0)()
    assert said.startswith("other work takes 1.8 of 2 cores (")
    assert said.endswith(" processes run or wait to)")


@pytest.mark.parametrize("processors", [(0.1,), (1.9, 0.2), (1.9, 1.9, 1.4)])
def test_one_quiet_look_is_enough(looks, processors):
    assert looks(*processors)() == ""


def test_a_machine_that_was_quiet_since_an_earlier_reading_is_not_waited_for(monkeypatch):
    waits = []
    monkeypatch.setattr(busy.time, "sleep", waits.append)
    monkeypatch.setattr(busy.time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(busy, "reading", lambda ours: Reading(100.0, 2, 50.0, 0.0, 49.0))
    quiet, loaded = Reading(95.0, 2, 45.0, 0.0, 44.0), Reading(95.0, 2, 35.0, 0.0, 44.0)
    assert busy.look(busy.PROCESSES, 0.75, quiet) == ""
    assert waits == []
    assert busy.look(busy.PROCESSES, 0.75, loaded) == ""  # a second look found it quiet
    assert busy.look(busy.PROCESSES, 0.75, Reading(99.5, 2, 45.0, 0.0, 44.0)) == ""  # too young
    assert waits == [busy.LOOK] * 2


def test_a_site_changes_limits_in_its_own_folder(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / busy.FILE).write_text("before: 0.75\nduring: 0.3\n")
    (site / busy.FILE).write_text("during: 1\n")
    busy.limits.cache_clear()
    assert busy.limits(site) == {"before": 0.75, "during": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("befor: 1\n", "unknown key 'befor'; known are before, during"),
        ("before: much\n", "before is 'much'; give a number above 0"),
        ("during: true\n", "during is True; give a number above 0"),
        ("[", "not valid YAML"),
        ("", "must have `before` and `during`"),
    ],
)
def test_limits_that_are_none_are_refused_in_one_line(tmp_path, text, said):
    (tmp_path / busy.FILE).write_text(text)
    busy.limits.cache_clear()
    with pytest.raises(ConfigError) as refused:
        busy.limits(tmp_path / "site")
    assert str(refused.value).startswith(f"{tmp_path / busy.FILE}: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
