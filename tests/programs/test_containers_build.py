"""The scripts that run inside a build or an image, run outside of one; and who builds."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import shell
from shell import ROOT, program, run

# --- labels --------------------------------------------------------------------------------------

SAID = {
    "ompi_info": "Open MPI v4.1.4\\n\\nhttps://www.open-mpi.org/",
    "ucx_info": "# Library version: 1.18.1\\n# Library path: /usr/lib",
    "python3": "4.2.2",
}


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A suite with programs that print the texts of :data:`SAID`."""
    shutil.copytree(ROOT / "containers", tmp_path / "containers")
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/run.lock").write_text("lock\n")
    project = '[project]\nversion = "1.2.3"\nlicense = "A OR B"\n[tool.x]\nversion = "9"\n'
    (tmp_path / "pyproject.toml").write_text(project)
    (tmp_path / ".git_archival.txt").write_text(f"node: {'a1' * 20}\n")
    for name, text in SAID.items():
        program(tmp_path / "bin", name, f"printf '{text}\\n'")
    # The version of PMIx comes from a library, by Python.
    own = f'[ "$1" = -c ] || exec {sys.executable} "$@"\nprintf "{SAID["python3"]}\\n"'
    program(tmp_path / "bin", "python3", own)
    return tmp_path


def stated(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The labels that were printed: name and value."""
    assert done.returncode == 0, done.stdout
    return dict(re.findall(r"(?m)^(\S+) (.+)$", done.stdout))


def labels(suite: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{suite / 'bin'}:{os.environ['PATH']}"
    return run("sh", suite / "containers/labels.sh", PATH=path, **variables)


def test_labels_are_what_programs_and_files_say(labelled: Path) -> None:
    assert stated(labels(labelled)) == {
        "org.opencontainers.image.revision": "a1" * 20,
        "org.opencontainers.image.version": "1.2.3",
        "org.opencontainers.image.licenses": "A OR B",
        "assay.programs": "none",
        "assay.lock.requirements": hashlib.sha256(b"lock\n").hexdigest(),
        "openmpi.version": "4.1.4",
        "pmix.version": "4.2.2",
        "ucx.version": "1.18.1",
    }


def test_the_programs_that_were_compiled_are_a_label(labelled: Path) -> None:
    folder = labelled / ".cache/programs"
    folder.mkdir(parents=True)
    packages = {"osu-micro-benchmarks": {"version": "7.4"}, "hpl": {"version": "2.3"}}
    (folder / "programs.json").write_text(json.dumps({"mpi": {}, "packages": packages}))
    assert stated(labels(labelled))["assay.programs"] == "hpl-2.3,osu-micro-benchmarks-7.4"


@pytest.mark.parametrize("base", ["debian@sha256:" + "b2" * 32, "debian:12", "scratch", ""])
def test_the_digest_of_the_base_is_a_label_where_it_is_known(labelled: Path, base: str) -> None:
    found = stated(labels(labelled, BASE=base)).get("org.opencontainers.image.base.digest")
    assert found == ("sha256:" + "b2" * 32 if "@" in base else None)


@pytest.mark.parametrize("lost", ["version", "license"])
def test_a_project_that_says_less_fails_the_build(labelled: Path, lost: str) -> None:
    file = labelled / "pyproject.toml"
    file.write_text(re.sub(rf"(?m)^{lost} = .*$", "", file.read_text()))
    done = labels(labelled)
    assert done.returncode != 0
    assert f"labels: org.opencontainers.image.{lost}" in done.stdout.splitlines()[-1]


def locked(suite: Path, *nodes: tuple[str, str], at: str = "site-config/one/spack/env") -> Path:
    """Writes a lock with these packages and versions, and lets no program of the stack start."""
    lock = suite / at / "spack.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    specs = {str(n): {"name": name, "version": of} for n, (name, of) in enumerate(nodes)}
    lock.write_text(json.dumps({"concrete_specs": specs}))
    for name in ("ompi_info", "ucx_info"):
        program(suite / "bin", name, "echo libcuda.so.1: cannot open shared object file; exit 127")
    (suite / "bin/python3").unlink()
    return lock


STACK = (("openmpi", "5.0.10"), ("pmix", "5.0.1"), ("ucx", "1.18.1"), ("ucx", "1.18.1"))


@pytest.mark.parametrize("at", ["site-config/one/spack/env", "."])
def test_labels_of_a_spack_stack_come_from_its_lock(labelled: Path, at: str) -> None:
    lock = locked(labelled, *STACK, at=at)
    done = labels(labelled, SPACK_SITE="one")
    said = stated(done)
    assert said["assay.lock.spack"] == run("sha256sum", lock).stdout.split()[0]
    versions = {name: said[f"{name}.version"] for name, _ in STACK}
    assert versions == dict(STACK)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (STACK[:1], "has 0 versions of pmix, not one"),
        ((*STACK, ("ucx", "1.16.0")), "has 2 versions of ucx, not one"),
    ],
)
def test_a_lock_without_one_version_fails_the_build(
    labelled: Path, nodes: tuple[tuple[str, str], ...], said: str
) -> None:
    locked(labelled, *nodes)
    done = labels(labelled, SPACK_SITE="one")
    assert done.returncode != 0 and said in done.stdout


def test_programs_of_an_image_come_from_its_views(labelled: Path) -> None:
    folder = labelled / ".cache/spack/env"
    folder.mkdir(parents=True)
    for view in ("gpu", "default"):
        (folder / f"one.{view}.json").write_text(json.dumps({"path": [f"/{view}/bin"]}))
    done = run(sys.executable, labelled / "containers/view.py", "path", "one", "gpu,default")
    assert done.stdout == "/gpu/bin:/default/bin\n"


def sections(name: str, *kinds: str, of: str = "cuda") -> str:
    """The scripts of these sections of a definition's last stage, with its arguments filled in."""
    lint = shell.module("ci/image-lint.py")
    text = (ROOT / f"containers/{of}.def").read_text()
    for key, value in {"site": "one", "views": name}.items():
        text = text.replace(f"{{{{ {key} }}}}", value)
    return "".join(each.script for each in lint.stages(text)[-1].all(*kinds))


OF_THE_IMAGE = ("mpirun", "ompi_info", "ucx_info", "ucx_perftest", "osu_latency")
GPU = """\
case "${0##*/} $1 $LD_LIBRARY_PATH" in
"ucx_info -d /opt/assay/.cache/spack/vgpu/lib")
    for each in posix cuda_copy cuda_ipc gdr_copy; do echo "#      Transport: $each"; done ;;
"ompi_info --parsable /opt/assay/.cache/spack/vgpu/lib")
    echo mca:accelerator:cuda:version:mca:2.1.0 ;;
esac"""


@pytest.mark.parametrize(
    ("lost", "views", "said"),
    [
        (None, "gpu", ""),
        ("xhpl", "gpu", ""),
        ("xhpl", "gpu,default", "missing: xhpl"),
        ("osu_latency", "gpu", "missing: osu_latency"),
        ("cuda_ipc", "gpu", "ucx_info -d lacks cuda_ipc on an emulated GPU"),
        ("gdr_copy", "gpu", "ucx_info -d lacks gdr_copy on an emulated GPU"),
        ("accelerator", "gpu", "Open MPI has no component accelerator cuda"),
    ],
)
def test_the_test_of_the_cuda_image_can_fail(
    tmp_path: Path, lost: str | None, views: str, said: str
) -> None:
    path = shell.tools(tmp_path / "bin", "sh grep env")
    for name in (*OF_THE_IMAGE, "hpcc", "xhpl", "iozone"):
        if name != lost:
            program(path, name, GPU.replace(lost or "nothing", "x") if "_info" in name else "")
    script = sections(views, "test").replace("/opt/assay/.venv/bin/reframe", "true")
    done = run("sh", "-c", script, path=path)
    assert (done.returncode == 0) is (not said), done.stdout
    assert said in done.stdout


OF_DEBIAN = "mpirun ompi_info ucx_info ucx_perftest hpcc NPopenmpi fio reframe assay"


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (None, ""),
        ("xhpl", "missing: xhpl"),
        ("shadowed", "missing: osu_latency"),
        ("library", "xhpl: \tlibopenblas.so.0 => not found"),
        ("programs", ""),
        ("fio", "missing: fio"),
    ],
)
def test_the_test_of_the_image_names_what_a_compiled_program_lacks(
    tmp_path: Path, lost: str | None, said: str
) -> None:
    path = shell.tools(tmp_path / "bin", "sh grep env test")
    made = tmp_path / "programs"
    (made / "bin").mkdir(parents=True)
    for name in OF_DEBIAN.split():
        if name != lost:
            program(path, name, "")
    for name in ("osu_latency", "xhpl") if lost != "programs" else ():
        program(made / "of", name, "")
        (made / "bin" / name).symlink_to(f"../of/{name}")
    if lost == "xhpl":  # a link that leads nowhere
        (made / "of/xhpl").unlink()
    if lost == "shadowed":
        program(path, "osu_latency", "")
    lacks = "/xhpl" if lost == "library" else "/none"
    answer = f'case $1 in *{lacks}) printf "\\tlibopenblas.so.0 => not found\\n" ;; esac'
    program(path, "ldd", answer)
    script = sections("", "test", of="debian").replace("/opt/assay/.cache/programs", str(made))
    script = re.sub(r"test -s /opt/assay\S+", "true", script)
    done = run("sh", "-c", script, path=f"{path}:{made}/bin")
    assert (done.returncode == 0) is (not said), done.stdout
    assert said in done.stdout


@pytest.mark.parametrize(
    ("name", "label"),
    [("ompi_info", "openmpi.version"), ("ucx_info", "ucx.version"), ("python3", "pmix.version")],
)
def test_a_program_that_says_nothing_fails_the_build(labelled: Path, name: str, label: str) -> None:
    fails = (
        f'[ "$1" = -c ] || exec {sys.executable} "$@"\nexit 1' if name == "python3" else "exit 1"
    )
    program(labelled / "bin", name, fails)
    done = labels(labelled)
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1] == f"labels: {label} is not known"


def test_an_archive_knows_its_commit(tmp_path: Path) -> None:
    head = run("git", "-C", ROOT, "rev-parse", "HEAD").stdout.strip()
    if not re.fullmatch("[0-9a-f]{40}", head):
        pytest.skip("not a checkout of git")
    archive = tmp_path / "assay.tar"
    run("git", "-C", ROOT, "archive", "--output", archive, head, ".git_archival.txt")
    assert run("tar", "-xOf", archive, ".git_archival.txt").stdout == f"node: {head}\n"


# --- the trial of each program -------------------------------------------------------------------


def attempt(name: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs containers/try.sh on the programs of this machine. Those in `path` come first."""
    own = Path(sys.executable).parent
    found = f"{path}:{own}" if path else str(own)
    # On a busy machine, a sound program takes any time.
    variables = {**os.environ, "PATH": f"{found}:{os.environ['PATH']}", "TRY_LIMIT": "0"}
    return run("bash", ROOT / "containers/try.sh", name, **variables)


def needs(*names: str) -> None:
    absent = [name for name in names if not shutil.which(name)]
    if absent:
        pytest.skip(f"needs {', '.join(absent)} on this machine")


@pytest.mark.parametrize("name", ["osu_c", "hpl"])
def test_a_program_that_the_image_was_built_without_is_not_tried(tmp_path: Path, name: str) -> None:
    (tmp_path / "containers").mkdir()
    shutil.copy(ROOT / "containers/try.sh", tmp_path / "containers")
    done = run("bash", tmp_path / "containers/try.sh", name)
    assert (done.returncode, "built without its source" in done.stdout) == (0, True)


@pytest.mark.parametrize(("name", "package"), [("osu_c", "osu-micro-benchmarks"), ("hpl", "hpl")])
def test_a_compiled_program_that_does_not_start_does_not_pass(
    tmp_path: Path, name: str, package: str
) -> None:
    (tmp_path / "containers").mkdir()
    shutil.copy(ROOT / "containers/try.sh", tmp_path / "containers")
    (tmp_path / ".cache/programs" / package).mkdir(parents=True)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    program(tmp_path / ".venv/bin", "python", f'exec {sys.executable} "$@"')
    program(tmp_path / "bin", "mpirun", "echo cannot open shared object file >&2; exit 127")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run("bash", tmp_path / "containers/try.sh", name, PATH=path)
    assert done.returncode == 1
    assert "ended with exit code 127" in done.stdout
    assert "cannot open shared object file" in done.stdout


PROGRAMS = {"hpcc": "hpcc", "netpipe": "NPopenmpi", "ucx_perftest": "ucx_perftest"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sound_program_passes(name: str) -> None:
    needs("mpirun", "ucx_info", PROGRAMS[name])
    done = attempt(name)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("hpcc", marks=pytest.mark.long), "netpipe"])
def test_worlds_of_one_do_not_pass(name: str, tmp_path: Path) -> None:
    needs("mpirun", PROGRAMS[name])
    # The launcher of another MPI behaves like this: no rank learns of the others.
    alone = 'while [ "$1" != none ]; do shift; done; shift; exec "$@"'
    program(tmp_path / "bin", "mpirun", alone)
    done = attempt(name, tmp_path / "bin")
    assert done.returncode != 0
    assert "try: " in done.stdout


@pytest.mark.parametrize("name", ["hpcc", "netpipe", "osu"])
def test_a_launch_that_fails_does_not_pass(name: str, tmp_path: Path) -> None:
    program(tmp_path / "bin", "mpirun", "echo no such program >&2; exit 134")
    done = attempt(name, tmp_path / "bin")
    assert done.returncode == 1
    assert "ended with exit code 134" in done.stdout
    assert "no such program" in done.stdout


def test_an_unknown_program_is_one_line() -> None:
    done = attempt("iozone")
    assert done.returncode == 1
    assert done.stdout.startswith("try: no program 'iozone'")


# --- who builds ----------------------------------------------------------------------------------


@pytest.fixture
def work() -> Iterator[Path]:
    """A folder that other users may enter, with the script in it."""
    folder = Path(run("mktemp", "-d", "/var/tmp/assay-test.XXXXXX").stdout.strip())
    shutil.copy(ROOT / "ci/image-user.sh", folder)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes another user; nobody else may")
def test_root_builds_as_a_user_that_nobody_else_sees(work: Path) -> None:
    needs("newuidmap", "unshare", "setpriv")
    before = Path("/etc/passwd").read_bytes()
    script = 'id -u; id -un; grep "^$(id -un):" /etc/subuid; pwd; touch mine; umount /etc/passwd'
    done = run(work / "image-user.sh", work, "sh", "-c", script)
    if "unshare" in done.stdout:
        pytest.skip(f"no mount namespaces here: {done.stdout.strip()}")
    uid, name, subordinate, where, refused = done.stdout.splitlines()
    assert int(uid) != 0
    assert re.fullmatch(rf"{name}:\d+:65536", subordinate)
    assert where == str(work)
    assert (work / "mine").stat().st_uid == int(uid)
    assert "umount" in refused, "the user has no rights over the machine"
    assert run("getent", "passwd", name).returncode != 0
    assert Path("/etc/passwd").read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a user with subordinate ids, as root")
def test_a_user_with_subordinate_ids_builds_as_himself(work: Path) -> None:
    needs("newuidmap", "unshare", "setpriv")
    own = work / "image-user.sh"
    done = run(own, work, "sh", "-c", f"id -u; {own} {work} id -u")
    if "unshare" in done.stdout:
        pytest.skip(f"no mount namespaces here: {done.stdout.strip()}")
    assert done.returncode == 0, done.stdout
    outer, inner = done.stdout.split()
    assert outer == inner != "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="sees what an ordinary user is told, as root")
def test_a_user_without_subordinate_ids_is_told_what_to_type(work: Path) -> None:
    needs("newuidmap", "setpriv")
    work.chmod(0o755)
    anybody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    done = run(*anybody, work / "image-user.sh", work, "true")
    assert done.returncode == 1
    assert "has no range of ids in /etc/subuid" in done.stdout
    assert "usermod --add-subuids" in done.stdout
