"""Impossible requests are refused before the set-up, and each call reports only its own session."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from shell import BEGIN, ROOT, SITES, program, run

from assay.show import nodes

SET_UP = ("ci/system-stack.sh", "ci/setup-venv.sh", "ci/fetch-osu-py.sh", "ci/programs.py")


@pytest.fixture
def clone(tmp_path: Path, checkout: Path) -> Path:
    """A clone whose set-up and programs only print that they were called."""
    copy = tmp_path / "clone"
    checkout.rename(copy)
    (copy / "site-config/local").mkdir(parents=True)
    (copy / "site-config/local/reframe.py").touch()
    stacks = "stacks:\n  system: {}\n  # of Spack\n  spack: {spack: x.lock}\n"
    (copy / "site-config/local/assay.yaml").write_text(f"hostnames: []\n{stacks}general:\n  x: 1\n")
    (copy / "site-config/bare").mkdir(parents=True)
    (copy / "site-config/bare/reframe.py").touch()
    for name in SET_UP:
        program(copy, name, f"echo SETUP {name}")
    program(copy / ".venv/bin", "reframe", f"{BEGIN}; echo REFRAME")
    program(copy / ".venv/bin", "assay", 'echo "ASSAY[$*]"')
    return copy


def make(clone: Path, *words: str, **variables: object) -> subprocess.CompletedProcess[str]:
    return run("make", "--no-print-directory", *words, cwd=clone, **variables)


@pytest.mark.parametrize("target", ["acceptance", "paper", "calibrate"])
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            "SITE=lokal",
            "no site 'lokal': site-config/lokal/reframe.py does not exist; there are: bare local",
        ),
        ("PROFILE=smok", "no profile 'smok': PROFILE=smoke or PROFILE=full"),
        ("STACK=spac", "no stack 'spac' on the site local: STACK= one of: system spack"),
        ("ASSAY_RESULTS=/tmp/my results", "no jobs below a path with blanks ('/tmp/my results')"),
        ("ASSAY_RESULTS=/proc/results", "/proc/results cannot be written: name a directory"),
    ],
)
def test_what_cannot_be_run_is_one_line_before_the_set_up(
    clone: Path, target: str, asked: str, said: str
) -> None:
    name, _, value = asked.partition("=")
    given = {name: value} if name == "ASSAY_RESULTS" else {}
    done = make(clone, target, *([] if given else [asked]), **given)
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if not line.startswith("make: ***")]
    assert len(lines) == 1, done.stdout
    assert lines[0].startswith("acceptance: ")
    assert said in lines[0]


def test_what_can_be_run_is_set_up_and_run(clone: Path) -> None:
    done = make(clone, "acceptance", "STACK=spack", "PROFILE=smoke")
    assert done.returncode == 0, done.stdout
    assert re.findall(r"^SETUP (\S+)", done.stdout, re.MULTILINE) == list(SET_UP)
    assert "REFRAME" in done.stdout
    assert (clone / "results").stat().st_mode & 0o007 == 0, "not for others"


#: What a value may hold that a shell, or make, would run. Each would leave the file `ran`.
RUN_BY_A_SHELL = (
    "x; touch ran",
    "x | touch ran",
    "x & touch ran &",
    "x$(touch ran)",
    "x$$(touch ran)",
    "x$(shell touch ran)",
    "x`touch ran`",
    "x'; touch ran; '",
    'x"; touch ran; "',
    "x' $(touch ran) '",
    "x\\\ntouch ran",
)

#: Where a target takes values: (target, variable).
TAKEN = [
    *(("acceptance", name) for name in ("REFRAME_ARGS", "SITE", "STACK", "PROFILE", "DEADLINE")),
    *(("paper", name) for name in ("DOC", "REFRAME_ARGS")),
    *(("calibrate", name) for name in ("CALIBRATE_ARGS", "STACK", "PROFILE")),
    *(("test", "PYTEST_ARGS"), ("test-all", "PYTEST_ARGS"), ("pylock", "LOCK_ARGS")),
    *(("spack", "SPACK_ARGS"), ("spack", "SITE"), ("lock", "SITE")),
    *(("vcluster-up", "VCLUSTER_ARGS"), ("vcluster-up", "MACHINES"), ("vgpu", "STACK")),
    *(("fresh", "MACHINE"), ("fresh", "DISTRO"), ("image", "IMAGE"), ("image-test", "IMAGE")),
]


@pytest.fixture
def hollow(clone: Path) -> Path:
    """A clone in which every program that make starts does nothing but `asked` and `words`."""
    real = ("asked.sh", "words.sh", "acceptance.sh")
    makefile = (clone / "Makefile").read_text()
    for path in set(re.findall(r"(?:ci|lab|\.venv)/[\w./-]+", makefile)):
        if Path(path).name not in real and not path.endswith(".yaml"):
            program(clone, path, ":")
    program(clone / ".venv/bin", "reframe", f'{BEGIN}; printf "[%s]" "$@"')
    return clone


@pytest.mark.parametrize(("target", "name"), TAKEN)
def test_no_value_is_read_by_a_shell_or_by_make(
    hollow: Path, target: str, name: str, short: bool
) -> None:
    """A short run gives each variable every fourth value, and begins at another one for each."""
    first, step = (TAKEN.index((target, name)) % 4, 4) if short else (0, 1)
    for value in RUN_BY_A_SHELL[first::step]:
        for done in (
            make(hollow, target, f"{name}={value}"),
            make(hollow, target, **{name: value}),
        ):
            assert not list(hollow.glob("ran*")), (value, done.stdout)


@pytest.mark.parametrize("target", ["acceptance", "paper"])
def test_arguments_reach_reframe_as_they_are_typed(hollow: Path, target: str) -> None:
    for typed, words in (
        ("-n 'Census|Tournament'", "[-n][Census|Tournament]"),
        ('-n "^A|^B$" -S a=1', "[-n][^A|^B$][-S][a=1]"),
        ("-n *;", "[-n][*;]"),
        ("", ""),
    ):
        for done in (
            make(hollow, target, f"REFRAME_ARGS={typed}"),
            make(hollow, target, REFRAME_ARGS=typed),
        ):
            assert f"{words}[-r]" in done.stdout, done.stdout
            assert done.returncode == 0


def test_the_command_that_assay_nodes_prints_works_as_pasted(hollow: Path) -> None:
    row = nodes.Row(nodes.NODE, "n1", ("n1",), "FAIL", (), ("Census", "Tournament"))
    (command,) = nodes.repeats(SimpleNamespace(systems=("local",)), [row])
    done = run("bash", "-c", command, cwd=hollow)
    assert "[-n][^Census|^Tournament][-r]" in done.stdout, done.stdout


def test_a_quote_that_is_not_closed_is_one_line_before_the_set_up(clone: Path) -> None:
    done = make(clone, "acceptance", "REFRAME_ARGS=-n 'A")
    assert done.returncode != 0 and "SETUP" not in done.stdout
    assert done.stdout.startswith("words: REFRAME_ARGS has a quote that is not closed: -n 'A\n")


@pytest.mark.parametrize("flag", ["-i", "--ignore-errors", "-ki"])
def test_make_that_would_hide_the_exit_code_is_refused(clone: Path, flag: str) -> None:
    program(clone / ".venv/bin", "reframe", "exit 1")  # nothing ran
    done = make(clone, flag, "acceptance")
    assert done.returncode == 2
    assert "make -i hides how a run ended: type it without -i" in done.stdout
    assert "SETUP" not in done.stdout


@pytest.mark.parametrize("flag", ["-k", "--no-print-directory", "-j4", "--silent"])
def test_other_flags_of_make_keep_the_exit_code(clone: Path, flag: str) -> None:
    assert make(clone, flag, "acceptance").returncode == 0
    program(clone / ".venv/bin", "reframe", "exit 1")
    assert make(clone, flag, "acceptance").returncode == 2


def test_a_stack_of_a_site_that_names_none_is_left_to_reframe(clone: Path) -> None:
    assert "REFRAME" in make(clone, "acceptance", "SITE=bare", "STACK=mine").stdout


def test_a_second_run_is_refused_before_the_set_up_with_its_holder(clone: Path) -> None:
    (clone / "results").mkdir()
    with (clone / "results/.lock").open("w") as held:
        held.write("process 4711 of here, since 12:03")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        done = make(clone, "acceptance")
        assert done.returncode != 0
        assert "SETUP" not in done.stdout
        assert "process 4711 of here, since 12:03 runs here; wait for its end" in done.stdout
        assert "ASSAY_RESULTS=" in done.stdout
        other = make(clone, "acceptance", ASSAY_RESULTS=clone / "other")
        assert other.returncode == 0, other.stdout
    assert make(clone, "acceptance").returncode == 0


def test_only_the_session_of_this_call_is_reported(clone: Path) -> None:
    """ReFrame was refused. Meanwhile, another run ended in the same results folder."""
    theirs = f'mkdir -p "{clone}/results/reports" "{clone}/results/output/20990101T000000"'
    touch = f'touch "{clone}/results/reports/run-report-9.json"'
    session = f'touch "{clone}/results/output/20990101T000000/session.json"'
    program(clone / ".venv/bin", "reframe", f"{theirs}; {touch}; {session}; exit 1")
    done = make(clone, "acceptance")
    assert done.returncode != 0
    assert "--session" not in done.stdout
    assert "nothing ran" in done.stdout


def test_after_a_kill_the_page_is_made_of_what_is_done(clone: Path) -> None:
    program(clone / ".venv/bin", "reframe", f"{BEGIN}; kill -KILL $$")
    program(clone / ".venv/bin", "assay", 'echo "ASSAY[$*]"; exit 1')
    done = make(clone, "acceptance")
    assert done.returncode != 0
    session = re.search(r"ASSAY\[report --session (\S+) --junit \S+/junit.xml\]", done.stdout)
    assert session
    assert (Path(session[1]) / "session.json").exists()
    assert "reframe ended with 137" in done.stdout


def until_it_waits(process: int) -> None:
    """Returns once a shell waits for its child. A signal in the moment before would be lost."""
    end = time.monotonic() + 60
    while Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < end, "the shell never waited for its child"
        time.sleep(0.01)


def test_a_run_that_ignores_an_interruption_is_killed_by_the_second(clone: Path) -> None:
    stays = "trap 'echo TOLD' TERM; echo STARTED; while :; do sleep 0.1; done"
    program(clone / ".venv/bin", "reframe", f"{BEGIN}; {stays}")
    with subprocess.Popen(
        ["bash", str(clone / "ci/acceptance.sh")],
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout
        for awaited in ("STARTED", "TOLD"):
            assert awaited in iter(lambda: running.stdout.readline().strip(), "")
            until_it_waits(running.pid)
            running.send_signal(signal.SIGTERM)
        rest, _ = running.communicate(timeout=60)
    assert "ASSAY[report --session" in rest
    assert running.returncode == 1


@pytest.mark.parametrize("site", SITES)
def test_each_site_names_its_stacks_as_its_configuration_has_them(
    site: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("reframe")
    import runpy

    from reframe.core.exceptions import ConfigError

    file = SITES[site]
    said = list(yaml.safe_load(file.with_name("assay.yaml").read_text())["stacks"])
    asked = {"SITE": site, "ASSAY_STACK": "none", "ASSAY_RESULTS": tmp_path}
    shown = run(ROOT / "ci/asked.sh", **asked).stdout
    assert ": STACK= one of: " not in shown or shown.split(": STACK= one of: ")[1].split() == said
    assert (file.parent.parent.name == "examples") is (": STACK= one of: " not in shown)
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path))  # a cluster that is up may lack GPUs
    monkeypatch.setenv("GPUEMU_STACK", str(tmp_path))  # a prefix without programs
    monkeypatch.delenv("ASSAY_IMAGE", raising=False)
    found: set[str] = set()
    # There is no image, and no HPL of NVIDIA.
    said = [name for name in said if name not in ("container", "nvidia-hpl")]
    for stack in ("", *said):
        monkeypatch.setenv("ASSAY_STACK", stack)
        try:
            configuration = runpy.run_path(str(file))["site_configuration"]
        except ConfigError as error:
            if "MPI" in str(error):
                pytest.skip(f"needs an MPI on this machine ({error})")
            raise
        names = {environment["name"] for environment in configuration["environments"]}
        assert not stack or names == {stack}
        found |= names
    assert found == set(said)
