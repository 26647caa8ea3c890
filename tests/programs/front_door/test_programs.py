"""ci/programs.py: where sources come from, what is refused, and how a call goes on."""

from __future__ import annotations

import configparser
import hashlib
import http.server
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from email.message import Message
from functools import partial
from pathlib import Path

import pytest
from bench import live_program
from shell import ROOT, module, program, run

from assay.catalogue import BTIO_CLASSES, BTIO_SUBTYPES, PROGRAMS
from assay.locks import package

programs = module("ci/programs.py")
sources = sys.modules["program_sources"]

#: A recipe that compiles one line of C, and one that says so in a file and waits to be killed.
TINY = '# needs: cc\nmkdir -p "$PREFIX/bin"\ncc -o "$PREFIX/bin/tiny" tiny.c\n"$PREFIX/bin/tiny"\n'
SOURCE = b'#include <stdio.h>\nint main(void) { return puts("tiny 1.0") < 0; }\n'
SLOW = 'mkdir -p "$PREFIX/bin"\ntouch "$PREFIX/bin/slow"\necho $$ >"$MARK"\nsleep 600\n'


class Place:
    """A folder of sources, pins and recipes, and what a call with them does."""

    def __init__(self, root: Path) -> None:
        self.root, self.sources, self.made = root, root / "sources", root / "made"
        self.sources.mkdir()
        self.recipe("tiny", TINY)
        self.mpirun("4.1.4")
        archive = self.archive("tiny-1.0.tar.gz", {"tiny-1.0/tiny.c": SOURCE})
        self.pin("tiny 1.0", sha256=hashlib.sha256(archive.read_bytes()).hexdigest())

    def mpirun(self, version: str) -> None:
        program(self.root / f"mpi-{version}", "mpirun", f"echo 'mpirun (Open MPI) {version}'")
        self.mpi = self.root / f"mpi-{version}"

    def recipe(self, name: str, text: str) -> None:
        (self.root / "recipes").mkdir(exist_ok=True)
        (self.root / "recipes" / f"{name}.sh").write_text(text)

    def archive(self, name: str, files: dict[str, bytes]) -> Path:
        with tarfile.open(self.sources / name, "w:gz") as tar:
            for path, content in files.items():
                member = tarfile.TarInfo(path)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return self.sources / name

    def pin(self, section: str, file: str = "pins.ini", **words: str) -> None:
        lines = [f"[{section}]", *(f"{key} = {value}" for key, value in words.items()), ""]
        with (self.root / file).open("a") as stream:
            stream.write("\n".join(lines))

    @property
    def command(self) -> list[str]:
        script, pins = str(ROOT / "ci/programs.py"), str(self.root / "pins.ini")
        return [sys.executable, script, "--pins", pins, "--recipes", str(self.root / "recipes")]

    def variables(self, **more: object) -> dict[str, object]:
        # No proxy: the server of a test is on this machine.
        path = f"{self.mpi}:{os.environ['PATH']}"
        named = {"ASSAY_SOURCES": self.sources, "ASSAY_PROGRAMS": self.made, "no_proxy": "*"}
        # No test installs a package, whatever `make test` was told.
        return {**named, "PATH": path, "YES": "", "CI": "", **more}

    def call(self, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        return run(*self.command, *words, **self.variables(**more))

    @property
    def index(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.made / "programs.json").read_text())
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    live_program("gcc")
    return Place(tmp_path)


@pytest.fixture
def server(place: Place) -> Iterator[str]:
    """A mirror on this machine, with the files of the folder ``mirror``."""
    (place.root / "mirror").mkdir()
    handler = partial(Quiet, directory=str(place.root / "mirror"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        pass


def test_an_archive_of_a_folder_is_compiled_and_a_second_call_does_nothing(place: Place) -> None:
    done = place.call()
    assert done.returncode == 0, done.stdout
    assert re.search(r"^programs: tiny 1\.0: \d+ s, from archive tiny-1\.0", done.stdout, re.M)
    assert run(place.made / "bin/tiny").stdout == "tiny 1.0\n"
    assert place.index["mpi"]["mpirun"] == str(place.mpi / "mpirun")  # type: ignore[index]
    before = (place.made / "tiny").stat().st_mtime_ns
    again = place.call()
    assert (again.returncode, "complete" in again.stdout) == (0, True)
    assert (place.made / "tiny").stat().st_mtime_ns == before


def test_a_wrong_checksum_is_named_and_the_others_go_on(place: Place) -> None:
    place.recipe("other", TINY)
    place.archive("other-2.tar.gz", {"tiny.c": SOURCE})
    place.pin("other 2", sha256="0" * 64)
    done = place.call()
    assert done.returncode == 1
    assert re.search(r"left out: other 2: \S+other-2\.tar\.gz has sha256 \w{64}, the", done.stdout)
    assert "1 of 2 are in" in done.stdout
    assert not (place.made / "other").exists()


def test_what_a_missing_program_costs_is_said(place: Place) -> None:
    place.recipe("hpl", TINY)
    place.pin("hpl 2.3", sha256="0" * 64)
    done = place.call()
    assert "without hpl these tests do not run: Hpl (1), HplAgainstDgemm (1), HplStudy" in (
        done.stdout
    )


def test_a_pin_of_a_users_own_comes_first_and_needs_a_checksum(place: Place) -> None:
    own = "sources/programs.ini"
    place.pin("tiny 3.0", own)
    done = place.call()
    assert done.returncode == 1
    assert "[tiny 3.0]: no sha256 and no commit" in done.stdout
    (place.root / own).unlink()
    source = SOURCE.replace(b"1.0", b"3.0")
    archive = place.archive("mine.tgz", {"x/tiny.c": source})
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    place.pin("tiny 3.0", own, archive="mine.tgz", sha256=sha256)
    done = place.call()
    assert "tiny 3.0: " in done.stdout
    assert run(place.made / "bin/tiny").stdout == "tiny 3.0\n"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"sha256": "abc"}, "sha256 is not one: abc"),
        ({"sha265": "0" * 64}, "unknown word sha265"),
        ({"commit": "v1.0"}, "commit is not one: v1.0"),
    ],
)
def test_a_pin_that_is_none_is_refused(place: Place, words: dict[str, str], fault: str) -> None:
    place.pin("other 1", **words)
    done = place.call()
    assert done.returncode == 1
    assert f"[other 1]: {fault}" in done.stdout


def test_an_entry_that_leads_out_of_its_archive_is_refused(place: Place) -> None:
    archive = place.archive("tiny-2.tar.gz", {"../tiny.c": SOURCE})
    (place.root / "pins.ini").unlink()
    place.pin("tiny 2", sha256=hashlib.sha256(archive.read_bytes()).hexdigest())
    done = place.call()
    assert "leads out of it" in done.stdout
    assert not list(place.root.rglob("tiny.c"))


def test_an_archive_gives_no_file_to_others_and_brings_no_link(place: Place) -> None:
    """Who owns a source may change it between the checksum and the compiler."""
    kept = tarfile.TarInfo("x/tiny.c")
    kept.uid, kept.mode, kept.size = 1234, 0o4777, len(SOURCE)
    link = tarfile.TarInfo("x/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(place.sources / "tiny-2.tar.gz", "w:gz") as tar:
        tar.addfile(kept, io.BytesIO(SOURCE))
        tar.addfile(link)
    place.recipe("tiny", TINY + "stat -c '%u %a' tiny.c >\"$PREFIX/stat\"\n! [ -L link ]\n")
    (place.root / "pins.ini").unlink()
    archive = place.sources / "tiny-2.tar.gz"
    place.pin("tiny 2", sha256=hashlib.sha256(archive.read_bytes()).hexdigest())
    done = place.call()
    assert done.returncode == 0, done.stdout
    assert (place.made / "tiny/stat").read_text() == f"{os.getuid()} 755\n"


def test_an_absolute_entry_of_an_archive_is_refused(place: Place, tmp_path: Path) -> None:
    archive = place.archive("tiny-2.tar.gz", {f"{tmp_path}/out.c": SOURCE})
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("x")
        member.name, member.size = f"{tmp_path}/out.c", len(SOURCE)
        tar.addfile(member, io.BytesIO(SOURCE))
    (place.root / "pins.ini").unlink()
    place.pin("tiny 2", sha256=hashlib.sha256(archive.read_bytes()).hexdigest())
    assert "leads out of it" in place.call().stdout
    assert not (tmp_path / "out.c").exists()


def test_a_relative_folder_of_programs_is_refused(place: Place) -> None:
    done = place.call(ASSAY_PROGRAMS="build/programs")
    assert done.returncode == 1
    assert "ASSAY_PROGRAMS: build/programs is relative" in done.stdout


def test_a_folder_with_a_blank_in_its_path_is_refused(place: Place) -> None:
    """Seen: `make install` of OSU, and the makefiles of HPL, take what follows for another word."""
    done = place.call("--ask", ASSAY_PROGRAMS=place.root / "of all", YES=1)
    assert done.returncode == 0
    assert "makefiles take no blank in a path: name a folder by ASSAY_PROGRAMS" in done.stdout


def test_a_list_of_programs_that_is_none_counts_as_empty(place: Place) -> None:
    place.made.mkdir()
    (place.made / "programs.json").write_text("[1]")
    assert place.call().returncode == 0


# --- git ---


@pytest.fixture
def commit(place: Place) -> str:
    """A commit of a repository in the folder, with the source below ``inside``; no archive."""
    (place.sources / "tiny-1.0.tar.gz").unlink()
    (place.root / "pins.ini").unlink()
    work = place.sources / "someone/repo"
    (work / "inside").mkdir(parents=True)
    (work / "inside/tiny.c").write_bytes(SOURCE)
    git = ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        assert run(*git, *words).returncode == 0
    return run(*git, "rev-parse", "HEAD").stdout.strip()


def test_a_commit_of_any_repository_in_the_folder_is_compiled(place: Place, commit: str) -> None:
    place.pin("tiny 1.0", commit=commit, under="inside")
    done = place.call()
    assert done.returncode == 0, done.stdout
    assert f"from commit {commit} of someone/repo" in done.stdout
    assert place.index["packages"]["tiny"]["source"] == f"commit {commit} of someone/repo"  # type: ignore[index]


def test_an_object_whose_content_has_another_name_is_refused(place: Place, commit: str) -> None:
    place.pin("tiny 1.0", commit=commit, under="inside")
    objects = place.sources / "someone/repo/.git/objects"
    git = ["git", "-C", str(place.sources / "someone/repo")]
    blob = run(*git, "rev-parse", f"{commit}:inside/tiny.c").stdout.strip()
    other = run(*git, "hash-object", "-w", "--", str(ROOT / "ci/programs.ini")).stdout.strip()
    path = objects / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes((objects / other[:2] / other[2:]).read_bytes())
    done = place.call()
    assert done.returncode == 1
    assert f"{blob} is damaged" in done.stdout or f"no blob {blob}" in done.stdout


def test_a_commit_that_no_repository_has_is_named(place: Place, commit: str) -> None:
    place.pin("tiny 1.0", commit="1" * 40)
    assert f"left out: tiny 1.0: it is not in {place.sources}" in place.call().stdout


def test_a_link_in_a_commit_is_not_made(place: Place, commit: str) -> None:
    work = place.sources / "someone/repo"
    (work / "inside/link").symlink_to("/etc/passwd")
    git = ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    assert run(*git, "add", ".").returncode == run(*git, "commit", "-qm", "2").returncode == 0
    last = run(*git, "rev-parse", "HEAD").stdout.strip()
    assert last != commit
    place.recipe("tiny", TINY + "! [ -e link ] && ! [ -L link ]\n")
    place.pin("tiny 1.0", commit=last, under="inside")
    done = place.call()
    assert done.returncode == 0, done.stdout


def test_a_copy_that_lacks_objects_runs_no_command_of_its_own(place: Place, commit: str) -> None:
    """git would fetch them from a promisor, by the program that the copy itself names."""
    work, mark = place.sources / "someone/repo", place.root / "ran"
    helper = program(place.root / "helper", "upload", f"touch {mark}; exit 1")
    git = ["git", "-C", str(work)]
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", str(place.root)),
        ("remote.origin.uploadpack", str(helper)),
    ):
        assert run(*git, "config", key, value).returncode == 0
    blob = run(*git, "rev-parse", f"{commit}:inside/tiny.c").stdout.strip()
    (work / ".git/objects" / blob[:2] / blob[2:]).unlink()
    place.pin("tiny 1.0", commit=commit, under="inside")
    assert place.call().returncode == 1
    assert not mark.exists()


# --- the net ---


def fetched(place: Place, server: str, **more: object) -> subprocess.CompletedProcess[str]:
    return place.call(ASSAY_SOURCES=server, **more)


def test_a_mirror_is_read_once(place: Place, server: str) -> None:
    (place.sources / "tiny-1.0.tar.gz").rename(place.root / "mirror/tiny-1.0.tar.gz")
    assert fetched(place, server).returncode == 0
    (place.root / "mirror/tiny-1.0.tar.gz").unlink()
    place.recipe("tiny", TINY + "# another\n")
    done = fetched(place, server)
    assert done.returncode == 0, done.stdout
    assert [path.name for path in (place.made / "sources").iterdir()] == ["tiny-1.0.tar.gz"]


def test_a_web_page_is_no_archive(place: Place, server: str) -> None:
    (place.root / "mirror/tiny-1.0.tar.gz").write_text("<html>Please log in</html>")
    done = fetched(place, server)
    assert done.returncode == 1
    assert "tiny-1.0.tar.gz of 127.0.0.1 is a web page, not an archive" in done.stdout
    assert not list((place.made / "sources").iterdir())


def test_another_archive_at_an_address_is_refused(place: Place, server: str) -> None:
    (place.root / "mirror/tiny-1.0.tar.gz").write_bytes(b"\x1f\x8bsomething else")
    assert re.search(
        r"tiny-1\.0\.tar\.gz of \S+ has sha256 \w{64}, the pin", fetched(place, server).stdout
    )


def test_a_file_that_is_not_there_is_named(place: Place, server: str) -> None:
    assert "tiny-1.0.tar.gz of 127.0.0.1: File not found" in fetched(place, server).stdout


class Cut(Quiet):
    """Says that more comes, and ends."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"800\r\n\x1f\x8bhalf")
        self.close_connection = True


def test_an_answer_that_ends_early_is_named(place: Place) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cut) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        done = fetched(place, f"http://127.0.0.1:{made.server_address[1]}")
        made.shutdown()
    assert done.returncode == 1
    assert "left out: tiny 1.0: tiny-1.0.tar.gz of 127.0.0.1: IncompleteRead" in done.stdout


class Answer(io.BytesIO):
    headers = Message()
    read1 = io.BytesIO.read


def test_an_answer_that_is_too_large_or_too_slow_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in (("LARGEST", 1000), ("LONGEST", -1)):
        with monkeypatch.context() as patch, (tmp_path / "part").open("wb") as stream:
            patch.setattr(sources, name, value)
            with pytest.raises(programs.Refused, match="x takes more than"):
                sources._copied(Answer(b"\x1f" * 2000), stream, "x")


def test_a_password_in_an_address_is_not_shown(place: Place, server: str) -> None:
    done = fetched(place, server.replace("://", "://me:secret@"))
    assert done.returncode == 1
    assert "left out: tiny 1.0: tiny-1.0.tar.gz of 127.0.0.1: " in done.stdout
    assert "secret" not in done.stdout


@pytest.mark.parametrize("address", ["ftp://host/x", "file:///etc", "http://host:abc/x"])
def test_an_address_that_is_none_of_http_is_refused(place: Place, address: str) -> None:
    done = fetched(place, address)
    assert done.returncode == 1
    assert "write an address as https://host/path" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_server_that_takes_no_connection_is_named_at_once(place: Place) -> None:
    done = place.call(ASSAY_SOURCES="http://127.0.0.1:9")
    assert done.returncode == 1
    assert "left out: tiny 1.0: 127.0.0.1 cannot be reached" in done.stdout


# --- going on ---


def test_an_interrupted_call_leaves_no_half_and_goes_on(place: Place) -> None:
    assert place.call().returncode == 0
    place.recipe("slow", SLOW)
    archive = place.archive("slow-1.tar.gz", {"slow-1/README": b"none"})
    place.pin("slow 1", sha256=hashlib.sha256(archive.read_bytes()).hexdigest())
    mark = place.root / "mark"
    variables = {k: str(v) for k, v in place.variables(MARK=mark).items()}
    # A shell starts what runs in its background with SIGINT ignored.
    call = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *place.command],
        env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (mark.exists() and mark.read_text().strip()):
        assert call.poll() is None
        time.sleep(0.02)
    call.send_signal(signal.SIGTERM)
    said, _ = call.communicate()
    assert call.returncode == 130
    assert "interrupted: type it again" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)  # the recipe ended with it
    assert not (place.made / "slow").exists()
    assert [*place.index["packages"]] == ["tiny"]  # type: ignore[misc]
    place.recipe("slow", SLOW.replace("sleep 600", ""))
    done = place.call(MARK=mark)
    assert done.returncode == 0, done.stdout
    assert "compiling 1 with" in done.stdout


def test_programs_of_another_mpi_are_compiled_again(place: Place) -> None:
    place.call()
    place.mpirun("5.0.10")
    done = place.call()
    assert "compiling 1 with mpirun (Open MPI) 5.0.10" in done.stdout
    assert place.index["mpi"]["mpirun"] == str(place.mpi / "mpirun")  # type: ignore[index]


def test_a_program_of_another_mpi_is_not_found_any_more(place: Place) -> None:
    """Each of its ranks would be a world of its own, and it would hide a good one on PATH."""
    place.recipe("other", TINY.replace("tiny", "other").replace("other.c", "tiny.c"))
    archive = place.archive("other-1.tar.gz", {"x/tiny.c": SOURCE})
    place.pin("other 1", sha256=hashlib.sha256(archive.read_bytes()).hexdigest())
    assert place.call().returncode == 0
    assert (place.made / "bin/other").exists()
    place.mpirun("5.0.10")
    place.recipe("other", "exit 3\n")
    assert place.call().returncode == 1
    assert [path.name for path in (place.made / "bin").iterdir()] == ["tiny"]


def test_after_an_interrupt_nothing_is_begun_or_installed(place: Place) -> None:
    folder = programs.Folder(place.made, place.root / "recipes")
    folder.begin({"mpirun": "/mpirun", "version": ""})
    sources = programs.Sources(place.made / "sources", str(place.sources), [])
    (pin,) = programs.pins_of(place.root / "pins.ini")
    folder.stop()
    try:
        with pytest.raises(programs.Refused, match="interrupted"):
            folder.make([pin], sources, programs.Machine(place.root / "try"), 1)
    finally:
        programs.STOPPED.clear()
    assert not (place.made / "tiny").exists()


def test_packages_are_those_of_the_mpi_that_is_there() -> None:
    packaged = {"mpirun": "/usr/bin/mpirun", "version": "mpirun (Open MPI) 4.1.4"}
    assert "libopenmpi-dev" in programs.packages_for(["mpicc"], packaged)
    hydra = {"mpirun": "/usr/bin/mpiexec.hydra", "version": "HYDRA build details:"}
    of_module = {"mpirun": "/opt/mpi/bin/mpirun", "version": "mpirun (Open MPI) 5.0.10"}
    for other in (hydra, of_module):
        assert programs.packages_for(["mpicc"], other) == []


def test_a_recipe_that_fails_shows_its_last_lines(place: Place) -> None:
    place.recipe("tiny", "echo what went wrong\nexit 3\n")
    done = place.call()
    assert done.returncode == 1
    assert "left out: tiny 1.0: its recipe ended with exit code 3: " in done.stdout
    assert "    what went wrong" in done.stdout


@pytest.mark.parametrize("need", ["mpicc", "cc", "blas"])
def test_a_compiler_that_does_not_work_is_named(place: Place, need: str) -> None:
    place.recipe("tiny", f"# needs: {need}\n" + TINY)
    for name in ("mpicc", "cc"):
        program(place.mpi, name, "echo 'error: no headers' >&2; exit 1")
    done = place.call(CI="", YES="")
    assert done.returncode == 1
    said = "no BLAS: the linker finds none of -lopenblas" if need == "blas" else "error: no headers"
    assert (
        f"left out: tiny: {said}" in done.stdout
        or f"{need} does not compile: {said}" in done.stdout
    )


def test_a_compiler_of_another_mpi_is_named(place: Place) -> None:
    place.recipe("tiny", "# needs: mpicc\n" + TINY)
    made = r'printf "#!/bin/sh\necho world of 1\n" >"$2"; chmod +x "$2"'
    program(place.mpi, "mpicc", f'while [ "$1" != -o ]; do shift; done; {made}')
    program(place.mpi, "mpirun", '[ "$1" = -n ] || exec echo "mpirun (X) 1"; "$3"; "$3"')
    done = place.call(CI="", YES="")
    assert "left out: tiny: mpicc is not of the MPI of mpirun: two ranks were two" in done.stdout


def test_a_folder_that_cannot_be_written_is_named(place: Place) -> None:
    place.made.write_text("a file")
    done = place.call()
    assert (done.returncode, done.stdout) == (1, f"programs: {place.made}: File exists\n")


def test_without_an_mpi_it_says_so(place: Place, bare: Path) -> None:
    done = run(*place.command, path=bare, ASSAY_PROGRAMS=place.made)
    assert (done.returncode, done.stdout) == (
        1,
        "programs: no MPI: mpirun is not on PATH; install openmpi-bin or load your MPI module\n",
    )


# --- asking ---


def test_nothing_is_compiled_unasked(place: Place) -> None:
    done = place.call("--ask")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "programs: not here: tiny; they can be compiled in minutes (make programs)",
        "programs: no terminal to ask on; type YES=1 make programs",
    ]
    assert not place.made.exists()
    assert place.call("--ask", YES=1).returncode == 0
    assert (place.made / "bin/tiny").exists()
    assert place.call("--ask").stdout == ""


def test_without_a_net_and_a_folder_it_goes_on(place: Place) -> None:
    (place.root / "pins.ini").unlink()
    place.pin("tiny 1.0", sha256="0" * 64, urls="http://127.0.0.1:9/tiny.tar.gz")
    done = place.call("--ask", ASSAY_SOURCES="", YES=1)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("programs: left out: no server")


# --- the pins ---


def test_the_versions_are_those_of_our_stacks_of_spack() -> None:
    required = (ROOT / "site-config/common/spack/packages.yaml").read_text()
    preferred = {}
    for section in pins().sections():
        name, version = section.split()
        preferred.setdefault(name, version)
    for name, version in preferred.items():
        assert re.search(rf'^  {name}:\n(?:    #.*\n)*    require: \["@{version}\W', required, re.M)


def test_a_pin_says_what_our_recipes_say() -> None:
    recipes = ROOT / "spack-repo/spack_repo/assay/packages"
    said = pins()
    npb, stream = said["npb-btio 3.4.3"], (recipes / "stream/package.py").read_text()
    assert (
        f'version("3.4.3", sha256="{npb["sha256"]}")'
        in (recipes / "npb_btio/package.py").read_text()
    )
    assert f'commit="{said["stream 5.10-20250217"]["commit"]}"' in stream
    assert said["mpigraph 20210824"]["commit"] in (recipes / "mpigraph/package.py").read_text()
    assert f'default="{programs.ARRAY_SIZE}"' in stream
    assert 'ntimes", default="20"' in stream
    assert "-DNTIMES=20" in (ROOT / "ci/programs/stream.sh").read_text()


def test_each_pinned_program_has_a_recipe_and_words_of_the_catalogue() -> None:
    names = {section.split()[0] for section in pins().sections()}
    assert {path.stem for path in (ROOT / "ci/programs").glob("*.sh")} == names
    assert {package(program.spack) for program in PROGRAMS.values() if program.spack} >= names
    found = programs.words_of(names, ROOT / "src/assay/catalogue.yaml")
    assert {*found} == names
    assert all(programs.lost(word, ROOT / "reframe/cases.txt") for word, _ in found.values())


def test_bt_io_is_built_for_what_the_suite_knows() -> None:
    assert {*programs.CLASSES} <= {*BTIO_CLASSES}
    assert {*programs.SUBTYPES} == {*BTIO_SUBTYPES}
    text = (ROOT / "ci/programs/npb-btio.sh").read_text()
    assert f"for subtype in {' '.join(programs.SUBTYPES)}; do" in text


def pins() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "ci/programs.ini", encoding="utf-8")
    return parser


# --- sources for the build of an image -----------------------------------------------------------


def packed(place: Place, name: str = "packed") -> subprocess.CompletedProcess[str]:
    return place.call("--pack", str(place.root / name))


def test_a_build_without_git_and_net_compiles_what_was_packed(place: Place, commit: str) -> None:
    place.pin("tiny 1.0", commit=commit, under="inside")
    place.recipe("other", TINY)
    archive = place.archive("other-upstream.tar.gz", {"other/tiny.c": SOURCE})
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    place.pin("other 2", archive=archive.name, sha256=sha256)
    done = packed(place)
    assert done.returncode == 0, done.stdout
    assert not place.made.exists()  # nothing is compiled
    folder = place.root / "packed"
    names = sorted(each.name for each in folder.iterdir())
    assert names == ["other-2.tar.gz", "programs.ini", "tiny-1.0.tar.gz"]
    (place.root / "pins.ini").write_text((folder / "programs.ini").read_text())
    program(place.mpi, "git", "exit 1")
    done = place.call(ASSAY_SOURCES=folder)
    assert done.returncode == 0, done.stdout
    assert run(place.made / "bin/tiny").stdout == "tiny 1.0\n"
    # Its record names what the builder had, not the archive that was made of it.
    packages: dict[str, dict[str, str]] = place.index["packages"]  # type: ignore[assignment]
    assert packages["tiny"]["source"] == f"commit {commit} of someone/repo"
    assert packages["other"]["source"] == f"archive other-upstream.tar.gz, checksum {sha256}"


def test_the_same_sources_are_packed_to_the_same_bytes(place: Place) -> None:
    packed(place, "one")
    time.sleep(1.1)  # archives count whole seconds
    packed(place, "two")
    one, two = place.root / "one", place.root / "two"
    assert run("diff", "-r", one, two).stdout == ""
    assert (one / "tiny-1.0.tar.gz").stat().st_size > 0


def test_what_cannot_be_packed_is_named_with_its_cost(place: Place) -> None:
    place.recipe("hpl", TINY)
    place.pin("hpl 2.3", sha256="0" * 64)
    done = packed(place)
    assert done.returncode == 1
    assert "programs: left out: hpl 2.3: it is not in " in done.stdout
    assert re.search(r"^programs: without hpl these tests do not run: \w+ \(", done.stdout, re.M)
    pins = (place.root / "packed/programs.ini").read_text()
    assert "[tiny 1.0]" in pins and "hpl" not in pins


def test_an_archive_that_changed_after_it_was_packed_is_refused(place: Place) -> None:
    packed(place)
    folder = place.root / "packed"
    (place.root / "pins.ini").write_text((folder / "programs.ini").read_text())
    (folder / "tiny-1.0.tar.gz").write_bytes(b"another")
    done = place.call(ASSAY_SOURCES=folder)
    assert done.returncode == 1
    assert "tiny-1.0.tar.gz has sha256" in done.stdout and not (place.made / "tiny").exists()
