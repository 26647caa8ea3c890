"""ci/system-stack.sh: the packages that it finds, names and installs."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from shell import program, run

from assay import catalogue


def mpirun(bare: Path, says: str = "mpirun (Open MPI) 4.1.4") -> Path:
    return program(bare, "mpirun", f"echo '{says}'")


def stack(bare: Path, checkout: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    return run("bash", checkout / "ci/system-stack.sh", path=bare, **variables)


def test_without_apt_missing_programs_are_named_and_no_mpi_is_the_end(
    bare: Path, checkout: Path
) -> None:
    done = stack(bare, checkout)
    assert done.returncode == 1
    assert "missing: mpirun, ucx_info, NPmpi or NPopenmpi, ucx_perftest, hpcc, iozone" in (
        done.stdout
    )
    assert "no apt-get here" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "system-stack: no MPI: mpirun is not on PATH; install openmpi-bin or load your MPI module"
    )


def test_without_apt_it_goes_on_with_what_there_is(bare: Path, checkout: Path) -> None:
    mpirun(bare)
    for name in ("NPmpi", "hpcc", "ucx_info"):
        program(bare, name)
    done = stack(bare, checkout)
    assert done.returncode == 0, done.stdout
    assert "going on without: ucx_perftest, iozone" in done.stdout


def test_where_all_is_there_apt_is_not_asked(bare: Path, checkout: Path) -> None:
    mpirun(bare)
    for packaged in catalogue.PROGRAMS.values():
        if packaged.debian and packaged.word != "mpi":
            program(bare, packaged.executables[-1])
    program(bare, "apt-get", "echo called")
    optional = [
        program.executables[0]
        for program in catalogue.PROGRAMS.values()
        if program.executables and not program.debian and program.word != "container"
    ]
    done = stack(bare, checkout, YES=1)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines() == [
        "system-stack: complete",
        f"system-stack: optional, not here: {', '.join(optional)}",
    ]


def test_without_terminal_it_says_what_to_type_and_installs_nothing(
    bare: Path, checkout: Path
) -> None:
    mpirun(bare)
    program(bare, "apt-get", '[ "$1" = -s ] && exit 0; echo INSTALLED')
    program(bare, "id", "echo 0")
    done = stack(bare, checkout)
    assert done.returncode == 0, done.stdout
    assert "YES=1 make setup" in done.stdout
    assert "INSTALLED" not in done.stdout


def test_without_root_and_sudo_the_packages_are_named(bare: Path, checkout: Path) -> None:
    mpirun(bare)
    program(bare, "apt-get", '[ "$1" = -s ] && exit 0; echo INSTALLED')
    program(bare, "id", "echo 1000")
    done = stack(bare, checkout, YES=1)
    assert done.returncode == 0, done.stdout
    script = f"YES=1 {checkout}/ci/system-stack.sh"
    by_hand = "apt-get install --no-install-recommends ucx-utils"
    assert f"not root, and no sudo; as root: {script}, or {by_hand}" in done.stdout
    # iozone3 is not in Debian's main, and apt would refuse the whole command line.
    assert "iozone3" not in done.stdout.partition(by_hand)[2].partition(" (and iozone3 from")[0]
    assert "INSTALLED" not in done.stdout


@pytest.mark.parametrize("says", ["mpirun (Open MPI) 4.1.4", "HYDRA build details:"])
def test_programs_of_another_mpi_are_not_installed(bare: Path, checkout: Path, says: str) -> None:
    mpirun(bare, says)  # not in /usr/bin, so not of the distribution
    program(bare, "apt-get", "echo APT $*")
    program(bare, "apt-cache", 'echo "  Candidate: 1.0"')
    program(bare, "id", "echo 0")
    done = stack(bare, checkout, YES=1)
    assert f"missing: ucx_info, NPmpi or NPopenmpi for {bare}/mpirun, ucx_perftest" in done.stdout
    installed = re.findall(r"^APT .*install.*$", done.stdout, re.M)
    assert installed
    assert not re.search("openmpi|hpcc", " ".join(installed))
    skipped = f"{bare}/mpirun is not of Open MPI: tests of a path are skipped"
    assert (skipped in done.stdout) is ("HYDRA" in says)


def test_failed_apt_is_one_line_and_not_the_end(bare: Path, checkout: Path) -> None:
    mpirun(bare)
    program(bare, "apt-get", 'echo "E: no network" >&2; exit 100')
    program(bare, "apt-cache", 'echo "  Candidate: 1.0"')
    program(bare, "id", "echo 0")
    done = stack(bare, checkout, CI="true")
    assert done.returncode == 0, done.stdout
    assert "apt-get failed, see above; going on with what there is" in done.stdout
    assert "going on without: ucx_info, NPmpi or NPopenmpi" in done.stdout


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
    """An entry in the source lists of the machine, and the source list expected from it."""

    file: str
    content: str
    number: int  # of the stanza or the line, as apt counts
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
    """The new source list is removed, even if the installation fails."""
    mpirun(bare)
    for other in ("NPopenmpi", "hpcc", "ucx_info", "ucx_perftest"):
        program(bare, other)
    machine, record, temporary = tmp_path / entry.file, tmp_path / "record", tmp_path / "tmp"
    machine.write_text(entry.content)
    temporary.mkdir()
    program(bare, "id", "echo 0")
    program(bare, "dpkg", "echo amd64")
    program(bare, "apt-cache", "echo '  Candidate: (none)'")
    # Keeps the source list that it gets, then fails like a mirror without the package.
    program(
        bare,
        "apt-get",
        f"""case "$*" in
        *indextargets*) echo "{entry.release} {machine}:{entry.number} any";;
        *sourceparts=*) for w in "$@"; do case $w in Dir::Etc::sourceparts=*)
            cat "${{w#*=}}"/* > "{record}";; esac; done; exit 100;;
        esac""",
    )
    done = stack(bare, checkout, YES=1, TMPDIR=temporary)
    assert done.returncode == 0, done.stdout
    assert record.read_text() == entry.own
    assert "iozone3 could not be installed, see above; going on without" in done.stdout
    assert list(temporary.iterdir()) == []
    assert machine.read_text() == entry.content
