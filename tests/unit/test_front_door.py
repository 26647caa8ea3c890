"""The scripts between a clone and a run, on the paths that end badly and on the short ones.

Programs that a script starts are replaced on PATH by small scripts where their failure, or what
they were asked to do, is the point; the scripts themselves are the real ones, run by bash.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASE_PROGRAMS = """
    awk bash cat chmod cmp cp dirname env find grep gzip head id ldd make mkdir mktemp mv readlink
    rm sed sh sha256sum sleep tail tar touch wc
""".split()  # noqa: SIM905


def program(directory: Path, name: str, body: str = "exit 0") -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def run(
    *command: object, path: Path | None = None, cwd: Path | None = None, **variables: object
) -> subprocess.CompletedProcess[str]:
    """Run without a terminal, with the programs of `path` only, and none of our variables."""
    keep = {k: v for k, v in os.environ.items() if k in ("HOME", "TMPDIR", "LANG", "PIP_CERT")}
    return subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        env={
            **keep,
            "PATH": str(path) if path else os.environ["PATH"],
            **{k: str(v) for k, v in variables.items()},
        },
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH with the usual tools and Python, and nothing of the system stack."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in BASE_PROGRAMS:
        found = shutil.which(name)
        if found:
            (directory / name).symlink_to(found)
    program(directory, "python3", f'exec "{sys.executable}" "$@"')
    return directory


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The front door alone, in a directory with a blank in its name."""
    copy = tmp_path / "a checkout"
    shutil.copytree(ROOT / "ci", copy / "ci")
    shutil.copy(ROOT / "Makefile", copy)
    return copy


# --- the system stack ---------------------------------------------------------------------------


def test_without_apt_missing_programs_are_named_and_no_mpi_is_the_end(
    bare: Path, checkout: Path
) -> None:
    done = run("bash", checkout / "ci/system-stack.sh", path=bare)
    assert done.returncode == 1
    assert "missing: mpirun, ucx_perftest, ucx_info, NPmpi or NPopenmpi, hpcc, iozone" in (
        done.stdout
    )
    assert "no apt-get here" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "system-stack: no MPI: mpirun is not on PATH; install openmpi-bin or load your MPI module"
    )


def test_without_apt_it_goes_on_with_what_there_is(bare: Path, checkout: Path) -> None:
    for name in ("mpirun", "NPmpi", "hpcc", "ucx_info"):
        program(bare, name)
    done = run("bash", checkout / "ci/system-stack.sh", path=bare)
    assert done.returncode == 0, done.stdout
    assert "going on without: ucx_perftest, iozone" in done.stdout


def test_where_all_is_there_apt_is_not_asked(bare: Path, checkout: Path) -> None:
    for name in ("mpirun", "NPopenmpi", "hpcc", "ucx_info", "ucx_perftest", "iozone"):
        program(bare, name)
    program(bare, "apt-get", "echo called")
    done = run("bash", checkout / "ci/system-stack.sh", path=bare, YES=1)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines() == [
        "system-stack: complete",
        "system-stack: optional, not here: osu_latency, xhpl, bt.S.x.mpi_io_full",
    ]


def test_without_terminal_it_says_what_to_type_and_installs_nothing(
    bare: Path, checkout: Path
) -> None:
    program(bare, "mpirun")
    program(bare, "apt-get", '[ "$1" = -s ] && exit 0; echo INSTALLED')
    program(bare, "id", "echo 0")
    done = run("bash", checkout / "ci/system-stack.sh", path=bare)
    assert done.returncode == 0, done.stdout
    assert "YES=1 make setup" in done.stdout
    assert "INSTALLED" not in done.stdout


def test_without_root_and_sudo_the_packages_are_named(bare: Path, checkout: Path) -> None:
    program(bare, "mpirun")
    program(bare, "apt-get", '[ "$1" = -s ] && exit 0; echo INSTALLED')
    program(bare, "id", "echo 1000")
    done = run("bash", checkout / "ci/system-stack.sh", path=bare, YES=1)
    assert done.returncode == 0, done.stdout
    assert "not root, and no sudo; as root: apt-get install --no-install-recommends ucx-utils" in (
        done.stdout
    )
    assert "INSTALLED" not in done.stdout


def test_programs_of_another_mpi_are_not_installed(bare: Path, checkout: Path) -> None:
    program(bare, "mpirun")  # not in /usr/bin: somebody else's
    program(bare, "apt-get", "echo APT $*")
    program(bare, "apt-cache", 'echo "  Candidate: 1.0"')
    program(bare, "id", "echo 0")
    done = run("bash", checkout / "ci/system-stack.sh", path=bare, YES=1)
    assert f"missing: ucx_perftest, ucx_info, NPmpi or NPopenmpi for {bare}/mpirun" in done.stdout
    installed = re.findall(r"^APT .*install.*$", done.stdout, re.M)
    assert installed
    assert not re.search("openmpi|hpcc", " ".join(installed))


def test_failed_apt_is_one_line_and_not_the_end(bare: Path, checkout: Path) -> None:
    program(bare, "mpirun")
    program(bare, "apt-get", 'echo "E: no network" >&2; exit 100')
    program(bare, "apt-cache", 'echo "  Candidate: 1.0"')
    program(bare, "id", "echo 0")
    done = run("bash", checkout / "ci/system-stack.sh", path=bare, CI="true")
    assert done.returncode == 0, done.stdout
    assert "apt-get failed, see above; going on with what there is" in done.stdout
    assert "going on without: ucx_perftest" in done.stdout


DEB822 = """\
# A comment of its own

Types: deb deb-src
URIs: mirror+file:/mirrors/debian
# a comment inside
Suites: bookworm
 bookworm-updates
Components: main
Enabled: yes
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: mirror:/other
Suites: bookworm-security
Components: main
"""
LINES = """\
# deb mirror:/commented bookworm main
deb [arch=amd64 signed-by=/keys/a.gpg] mirror:/one bookworm main contrib
deb mirror:/two jammy main
"""


@dataclass
class Entry:
    """An entry of the machine's own source lists, and what must become of it."""

    file: str
    content: str
    number: int  # of the stanza or of the line, as apt counts them
    release: str
    own: str


OWN_OF_DEB822 = """\
URIs: mirror+file:/mirrors/debian
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
Types: deb
Suites: bookworm
Components: non-free
Architectures: amd64
"""
OWN_OF_OPTIONS = "deb [arch=amd64 signed-by=/keys/a.gpg] mirror:/one bookworm non-free\n"
OWN_OF_LINE = "deb mirror:/two jammy multiverse\n"


@pytest.mark.parametrize(
    "entry",
    [
        Entry("debian.sources", DEB822, 1, "Debian bookworm", OWN_OF_DEB822),
        Entry("sources.list", LINES, 2, "Debian bookworm", OWN_OF_OPTIONS),
        Entry("sources.list", LINES, 3, "Ubuntu jammy", OWN_OF_LINE),
    ],
    ids=["deb822", "line-with-options", "line"],
)
def test_own_source_list_is_the_machines_with_another_component(
    bare: Path, checkout: Path, tmp_path: Path, entry: Entry
) -> None:
    """And it goes away again although the installation fails."""
    for other in ("mpirun", "NPopenmpi", "hpcc", "ucx_info", "ucx_perftest"):
        program(bare, other)
    machine, record, temporary = tmp_path / entry.file, tmp_path / "record", tmp_path / "tmp"
    machine.write_text(entry.content)
    temporary.mkdir()
    program(bare, "id", "echo 0")
    program(bare, "dpkg", "echo amd64")
    program(bare, "apt-cache", "echo '  Candidate: (none)'")
    # Keeps what it is given as source list, then fails as a mirror without the package would.
    program(
        bare,
        "apt-get",
        f"""case "$*" in
        *indextargets*) echo "{entry.release} {machine}:{entry.number} any";;
        *sourceparts=*) for w in "$@"; do case $w in Dir::Etc::sourceparts=*)
            cat "${{w#*=}}"/* > "{record}";; esac; done; exit 100;;
        esac""",
    )
    done = run("bash", checkout / "ci/system-stack.sh", path=bare, YES=1, TMPDIR=temporary)
    assert done.returncode == 0, done.stdout
    assert record.read_text() == entry.own
    assert "iozone3 could not be installed, see above; going on without" in done.stdout
    assert list(temporary.iterdir()) == []
    assert machine.read_text() == entry.content


# --- .venv and the Python ports -----------------------------------------------------------------


def older(directory: Path, name: str, version: tuple[int, int, int]) -> Path:
    """This Python under another version number, as `sys.version_info` and --version say it."""
    return program(
        directory,
        name,
        f'[ "$1" = --version ] && echo "Python {".".join(map(str, version))}" && exit\n'
        f'exec "{sys.executable}" -c "import sys; sys.version_info = {version}; exec(sys.argv[1])"'
        ' "$2"',
    )


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        ({"python3": (3, 12, 1), "python3.13": (3, 13, 0)}, "python3"),
        ({"python3": (3, 9, 18), "python3.11": (3, 11, 7)}, "python3.11"),
        ({"python3": (3, 9, 18)}, "python3"),
        ({"python3": (3, 6, 8)}, None),
        ({}, None),
    ],
)
def test_choice_of_python(
    bare: Path, pythons: dict[str, tuple[int, int, int]], chosen: str | None
) -> None:
    (bare / "python3").unlink()
    for name, version in pythons.items():
        older(bare, name, version)
    done = run("bash", ROOT / "ci/find-python.sh", path=bare)
    if chosen:
        assert (done.returncode, done.stdout) == (0, f"{bare}/{chosen}\n")
    else:
        assert done.returncode == 1
        assert len(done.stdout.splitlines()) == 1, done.stdout
        assert "no Python 3.9 or newer" in done.stdout


def test_named_python_is_not_replaced_by_another(bare: Path) -> None:
    named = older(bare, "old", (3, 8, 2))
    done = run("bash", ROOT / "ci/find-python.sh", path=bare, PYTHON=named)
    assert done.returncode == 1
    assert f"{named} is Python 3.8.2" in done.stdout
    done = run("bash", ROOT / "ci/find-python.sh", path=bare, PYTHON="/not/here")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "find-python: no Python 3.9 or newer (3.10 to run ReFrame): /not/here is no program; "
        "name one that is by PYTHON=/path/to/python3"
    ]


def test_python_without_ensurepip_is_one_line(bare: Path, checkout: Path) -> None:
    shutil.copy(ROOT / "requirements.lock", checkout)
    program(bare, "python3", f'exec "{sys.executable}" -c "{WITHOUT_ENSUREPIP}" "$2"')
    done = run("bash", checkout / "ci/setup-venv.sh", path=bare)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1, done.stdout
    assert "install python3-venv" in done.stdout
    assert not (checkout / ".venv").exists()


WITHOUT_ENSUREPIP = "import sys; sys.modules['ensurepip'] = None; exec(sys.argv[1])"


def source_distribution(directory: Path) -> str:
    """A source distribution with two programs below demo/; returns its sha256."""
    directory.mkdir()
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: mpi4py\nVersion: 4.1.2\n",
        "setup.py": "from setuptools import setup\nsetup(name='mpi4py', version='4.1.2')\n",
        "demo/osu_bw.py": "# bandwidth\n",
        "demo/osu_latency.py": "# latency\n",
        "demo/helloworld.py": "# not ours\n",
    }
    path = directory / "mpi4py-4.1.2.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"mpi4py-4.1.2/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def offline(checkout: Path, tmp_path: Path) -> tuple[Path, str, dict[str, object]]:
    """A checkout with a Python in .venv; the sha256 of what pip finds; variables for pip."""
    sha256 = source_distribution(tmp_path / "dist")
    program(checkout / ".venv/bin", "python", f'exec "{sys.executable}" "$@"')
    variables = {"PIP_NO_INDEX": 1, "PIP_FIND_LINKS": tmp_path / "dist", "PIP_NO_CACHE_DIR": 1}
    return checkout, sha256, variables


def test_python_ports_arrive_whole_and_once(offline: tuple[Path, str, dict[str, object]]) -> None:
    checkout, sha256, pip = offline
    (checkout / "ci/osu-py.txt").write_text(f"mpi4py==4.1.2 --hash=sha256:{sha256}\n")
    first = run("bash", checkout / "ci/fetch-osu-py.sh", **pip)
    assert first.returncode == 0, first.stdout
    cache = checkout / ".cache"
    assert [p.name for p in cache.iterdir()] == ["osu-py"]
    names = sorted(p.name for p in (cache / "osu-py").iterdir())
    assert names == ["osu_bw.py", "osu_latency.py", "pin.txt"]
    second = run("bash", checkout / "ci/fetch-osu-py.sh", PIP_NO_INDEX=1)
    assert (second.returncode, second.stdout) == (0, "")


def test_wrong_hash_is_one_line_and_leaves_nothing(
    offline: tuple[Path, str, dict[str, object]],
) -> None:
    checkout, sha256, pip = offline
    wrong = "0" * 64
    (checkout / "ci/osu-py.txt").write_text(f"mpi4py==4.1.2 --hash=sha256:{wrong}\n")
    done = run("bash", checkout / "ci/fetch-osu-py.sh", **pip)
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [
        f"fetch-osu-py: refused: what came has sha256 {sha256}, ci/osu-py.txt expects {wrong}"
    ]
    assert list((checkout / ".cache").iterdir()) == []


def test_pin_without_hash_is_refused(offline: tuple[Path, str, dict[str, object]]) -> None:
    checkout, _, pip = offline
    (checkout / "ci/osu-py.txt").write_text("mpi4py==4.1.2\n")
    done = run("bash", checkout / "ci/fetch-osu-py.sh", **pip)
    assert done.returncode == 1, done.stdout
    assert list((checkout / ".cache").iterdir()) == []


# --- the run ------------------------------------------------------------------------------------


@pytest.fixture
def site(checkout: Path) -> Path:
    """A checkout with one site; reframe writes a run report, both programs end with 0."""
    (checkout / "site-config/here").mkdir(parents=True)
    (checkout / "site-config/here/reframe.py").touch()
    stage(checkout, reframe=0, report=0)
    return checkout


def stage(checkout: Path, reframe: int, report: int, writes: bool = True) -> None:
    made = 'd="$ASSAY_RESULTS/reports"; mkdir -p "$d"; sleep 0.02; touch "$d/run-report-1.json"'
    program(
        checkout / ".venv/bin",
        "reframe",
        f'echo "REFRAME[$*]"; {made if writes else ":"}; exit {reframe}',
    )
    program(checkout / ".venv/bin", "assay", f'echo "ASSAY[$*]"; exit {report}')


def accept(site: Path, *arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
    results = site.parent / "results"  # without the blank
    return run("bash", site / "ci/acceptance.sh", *arguments, ASSAY_RESULTS=results, **variables)


@pytest.mark.parametrize(("reframe", "report"), [(0, 0), (1, 0), (0, 1), (3, 2)])
def test_reframe_or_report_fails_the_run_and_the_report_is_always_written(
    site: Path, reframe: int, report: int
) -> None:
    stage(site, reframe, report)
    done = accept(site, SITE="here")
    assert (done.returncode == 0) is (reframe == report == 0), done.stdout
    assert "ASSAY[report]" in done.stdout
    if reframe or report:
        assert done.stdout.splitlines()[-1] == (
            f"acceptance: failed (reframe ended with {reframe}, assay report with {report})"
        )


@pytest.mark.parametrize("reframe", [0, 1])
def test_a_run_without_run_report_is_red_and_shows_no_older_one(site: Path, reframe: int) -> None:
    accept(site, SITE="here")
    stage(site, reframe, report=0, writes=False)
    done = accept(site, SITE="here")
    assert done.returncode == 1
    assert "ASSAY" not in done.stdout
    assert "nothing ran" in done.stdout.splitlines()[-1]


def test_arguments_reach_reframe(site: Path) -> None:
    done = accept(site, "-n", "Osu x", SITE="here", PROFILE="smoke")
    assert "REFRAME[-C site-config/here/reframe.py -c reframe -R --mode smoke -n Osu x -r]" in (
        done.stdout
    )


def test_unknown_site_is_one_line_that_names_the_known_ones(site: Path) -> None:
    done = accept(site, SITE="nowhere")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "acceptance: no site 'nowhere': site-config/nowhere/reframe.py does not exist; "
        "there are: here"
    ]


def test_the_cost_of_the_harness_is_held_to_a_limit_only_where_one_is_given(site: Path) -> None:
    assert "ASSAY[report]" in accept(site, SITE="here", PROFILE="smoke").stdout
    limited = accept(site, SITE="here", PROFILE="smoke", MAX_HARNESS="15")
    assert "ASSAY[report --max-harness 15]" in limited.stdout


def test_unknown_profile_is_one_line_that_names_the_known_ones(site: Path) -> None:
    done = accept(site, SITE="here", PROFILE="smok")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "acceptance: no profile 'smok': PROFILE=smoke or PROFILE=full"
    ]


def test_results_below_a_path_with_blanks_are_one_line(site: Path) -> None:
    done = run("bash", site / "ci/acceptance.sh", SITE="here")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1
    assert f"'{site}/results'" in done.stdout
    assert "ASSAY_RESULTS=" in done.stdout


def test_an_environment_without_reframe_is_one_line(site: Path) -> None:
    (site / ".venv/bin/reframe").unlink()
    done = run("bash", site / "ci/acceptance.sh", SITE="here")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1
    assert "Python 3.10 or newer" in done.stdout


def test_help_names_every_target_that_a_user_types() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.M).group(1).split())
    done = run("make", "--no-print-directory", cwd=ROOT)
    named = set(re.findall(r"^make (\S+)", done.stdout, re.M))
    assert named | {"help", "system", "osu-py"} == phony


def test_only_the_local_site_needs_packages_of_the_distribution() -> None:
    local = run("make", "-n", "setup", cwd=ROOT).stdout
    other = run("make", "-n", "setup", "SITE=other", cwd=ROOT).stdout
    assert "system-stack.sh" in local
    assert "system-stack.sh" not in other


@pytest.mark.parametrize("red", ["", "test", "acceptance", "test acceptance"])
def test_gate_runs_both_and_fails_when_either_fails(tmp_path: Path, bare: Path, red: str) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / "copy/.ci")
    (bare / "make").unlink()
    program(bare, "make", f'echo "MAKE[$*]"; case " {red} " in *" $1 "*) exit 2;; esac')
    done = run("bash", tmp_path / "copy/.ci/run", path=bare)
    assert re.findall(r"MAKE\[(.*)\]", done.stdout) == ["test", "acceptance PROFILE=smoke"]
    assert (done.returncode == 0) is (red == "")
