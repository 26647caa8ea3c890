"""Scripts around Spack, without Spack: most of them on the paths that end badly."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import shell
import yaml
from archspec import cpu
from shell import ROOT, program
from tests.programs.sites.test_stacks import MANIFESTS, lock_of, nodes

PINS = yaml.safe_load((ROOT / "spack-repo/pins.yaml").read_text())


def script(
    name: str, *arguments: str, root: Path = ROOT, **variables: object
) -> subprocess.CompletedProcess[str]:
    return shell.run(root / "ci" / name, *arguments, apart=True, **variables)


def relock(root: Path = ROOT, **variables: object) -> subprocess.CompletedProcess[str]:
    return script("spack-relock.sh", root=root, SITE="debian12", **variables)


def commit(folder: Path) -> None:
    """Commits all files of a folder, which becomes a repository."""
    git = ("git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@x")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        assert shell.run(*git, *arguments).returncode == 0


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


SCRIPTS = ("spack-install.sh", "spack-relock.sh", "spack-offline-kit.sh")


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_a_site_or_with_an_unknown_one(name: str) -> None:
    for given, why in (({}, "SITE is not set"), ({"SITE": "debian13"}, "'debian13'")):
        said = one_line(script(name, **given))
        assert why in said and all(site in said for site in MANIFESTS)


def test_make_takes_no_default_site_for_spack() -> None:
    made = shell.run("make", "-n", "spack", "lock", cwd=ROOT)
    lines = [line.rstrip() for line in made.stdout.splitlines()]
    assert lines == [
        "SITE='' ci/words.sh SPACK_ARGS ci/spack-install.sh",
        "SITE='' ci/spack-relock.sh",
    ]


def test_without_spack_where_it_says(tmp_path: Path) -> None:
    said = one_line(relock(SPACK_ROOT=tmp_path, ASSAY_SPACK_HOME=tmp_path))
    assert "has no bin/spack" in said


def test_with_another_spack(tmp_path: Path) -> None:
    program(tmp_path / "spack", "bin/spack")
    commit(tmp_path / "spack")
    said = one_line(relock(SPACK_ROOT=tmp_path / "spack", ASSAY_SPACK_HOME=tmp_path / "home"))
    wanted = PINS["spack"]["commit"]
    assert re.search(rf"is at commit [0-9a-f]{{40}}, the locks need {wanted}", said)


def kit(folder: Path) -> Path:
    """A kit that holds none of the needed files but passes the check of its sums."""
    (folder / "spack.git").mkdir(parents=True)
    (folder / "readme").write_text("a kit\n")
    digest = hashlib.sha256(b"a kit\n").hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  ./readme\n")
    return folder


def test_without_spack_and_without_a_source_of_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    said = one_line(relock(ASSAY_SPACK_KIT=kit(tmp_path / "kit"), ASSAY_SPACK_HOME=home))
    assert "could not be fetched" in said and "set SPACK_ROOT" in said
    assert not (home / "spack").exists(), "half a clone would be taken for one"


def test_with_a_damaged_kit(tmp_path: Path) -> None:
    (kit(tmp_path / "kit") / "readme").write_text("something else\n")
    said = one_line(relock(ASSAY_SPACK_KIT=tmp_path / "kit", ASSAY_SPACK_HOME=tmp_path / "home"))
    assert "is damaged: ./readme" in said


PINNED = ("SPACK_ROOT", "ASSAY_SPACK_PACKAGES")


@pytest.fixture
def pinned(tmp_path: Path) -> dict[str, object]:
    """Variables of a false Spack whose checkouts, as git says, are at the pinned commits.

    Instead of solving it writes the lock that a failed solution leaves, and ends with an error.
    """
    git = f"""case "$*" in
        *packages*rev-parse*) echo {PINS["packages"]["commit"]} ;;
        *rev-parse*) echo {PINS["spack"]["commit"]} ;;
        *) exec {shutil.which("git")} "$@" ;;
        esac"""
    unsolved = """echo '{"concrete_specs": {}}' >"$4/spack.lock"
        echo '==> Error: no solution'
        exit 1"""
    program(tmp_path, "spack/bin/spack", unsolved)
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/repo.yaml").touch()
    for name in ("spack", "packages"):
        (tmp_path / name / ".gitignore").write_text("/etc/spack/*\n")
        commit(tmp_path / name)
    program(tmp_path / "shims", "python")
    program(tmp_path / "shims", "git", git)
    return {
        "PATH": f"{tmp_path / 'shims'}:{os.environ['PATH']}",
        "SPACK_ROOT": tmp_path / "spack",
        "ASSAY_SPACK_PACKAGES": tmp_path / "packages",
        "SPACK_PYTHON": tmp_path / "shims/python",
        "ASSAY_SPACK_HOME": tmp_path / "home",
    }


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of what the scripts read; nothing is wrong with any lock in it."""
    for name in ("ci", "site-config", "spack-repo"):
        ignored = shutil.ignore_patterns(".spack-env", "__pycache__")
        shutil.copytree(ROOT / name, tmp_path / "copy" / name, ignore=ignored)
    for file in ROOT.glob("spack.*"):
        shutil.copy(file, tmp_path / "copy")
    program(tmp_path / "copy/.venv/bin", "python")
    return tmp_path / "copy"


@pytest.mark.parametrize("new", [False, True])
def test_a_failed_solution_leaves_no_lock_of_its_own(
    copied: Path, pinned: dict[str, object], new: bool
) -> None:
    folder = copied / "site-config/debian12/spack/env"
    if new:
        for file in folder.glob("spack.lock*"):
            file.unlink()
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for _ in range(2):
        done = relock(copied, **pinned)
        assert done.returncode == 1
        assert done.stderr.splitlines() == [
            "==> Error: no solution",
            "spack-relock: no solution; the lock is as it was",
        ]
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_lock_with_faults_is_not_taken(copied: Path, pinned: dict[str, object]) -> None:
    program(copied / ".venv/bin", "python", "echo a fault >&2; exit 1")
    spack = Path(str(pinned["SPACK_ROOT"]))
    program(spack, "bin/spack", 'echo "{}" >"$4/spack.lock"')
    commit(spack)
    done = relock(copied, **pinned)
    assert done.returncode == 1
    assert "a fault" in done.stderr and "the lock is as it was" in done.stderr
    lock = copied / "site-config/debian12/spack/env/spack.lock"
    assert lock.read_bytes() == lock_of("debian12").read_bytes()


def test_what_make_fixes_outranks_the_settings_of_a_site(
    copied: Path, pinned: dict[str, object], tmp_path: Path
) -> None:
    spack = Path(str(pinned["SPACK_ROOT"]))
    program(spack, "bin/spack", f'echo "$@" >{tmp_path}/asked')
    commit(spack)
    relock(copied, **pinned)
    assert f" -C {copied}/site-config/common/spack-make python " in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("variable", PINNED)
@pytest.mark.parametrize("name", ["bin/spack", "new/package.py", "etc/spack/config.yaml"])
def test_a_checkout_with_changes_is_refused(
    pinned: dict[str, object], variable: str, name: str
) -> None:
    if variable == "ASSAY_SPACK_PACKAGES" and name == "bin/spack":
        name = "repo.yaml"
    path = Path(str(pinned[variable])) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("config: {checksum: false}\n")
    said = one_line(script("spack-install.sh", SITE="debian12", **pinned))
    assert f"{variable}={pinned[variable]} has {name}, which is not of its commit" in said


@pytest.mark.parametrize("option", ["--no-checksum", "--no-checksu", "-n", "--fak", "--add", "ucx"])
def test_only_known_options_of_spack_install_pass(option: str) -> None:
    said = one_line(script("spack-install.sh", option, SITE="debian12"))
    assert f"{option} is not for acceptance; the options of spack install here are:" in said


lock_tool = shell.module("ci/spack-lock.py")


def node(name: str, **external: Any) -> dict[str, Any]:
    (found,) = (each for each in nodes(lock_of("debian12")) if each["name"] == name)
    return {**found, "external": external}


def test_a_compiler_that_is_not_there_is_named() -> None:
    compilers = {"c": "/usr/bin/true", "fortran": "/opt/lost/gfortran"}
    gcc = node("gcc", path="/usr", extra_attributes={"compilers": compilers})
    assert lock_tool.missing("gcc", gcc) == [" (fortran): /opt/lost/gfortran does not exist here"]


@pytest.mark.parametrize(("host", "able"), [("haswell", False), ("skylake_avx512", True)])
def test_a_processor_that_cannot_run_what_is_built_is_named(host: str, able: bool) -> None:
    said = lock_tool.unfit(nodes(lock_of("h100")), cpu.TARGETS[host], cpu.TARGETS)
    assert len(said) == (not able)
    assert all("haswell, cannot run programs for x86_64_v4" in each for each in said)


@pytest.mark.parametrize(
    ("path", "found", "said"),
    [
        ("/opt/lost/openmpi", (set(), True), [": /opt/lost/openmpi does not exist here"]),
        ("/usr", ({"4.1.4"}, True), []),
        ("/usr", ({"4.1.4", "5.0.10"}, True), []),
        ("/usr", ({"4.1.5"}, True), [": below /usr is 4.1.5"]),
        ("/usr", (set(), True), [": nothing of it was found below /usr"]),
        ("/usr", (set(), False), []),
    ],
)
def test_an_external_of_another_version_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    path: str,
    found: Any,
    said: list[str],
) -> None:
    monkeypatch.setattr(lock_tool, "versions", lambda name, prefix: found)
    assert lock_tool.missing("openmpi", node("openmpi", path=path)) == said
    assert ("not tested" in capsys.readouterr().err) == (not found[1])


@pytest.mark.parametrize(
    ("name", "here", "lock", "equal"),
    [
        ("slurm", "23.11.1", "23-11-1-1", True),
        ("slurm", "22.05.8", "23-11-1-1", False),
        ("rdma-core", "52.0", "52.0", True),
        ("rdma-core", "44.0", "52.0", False),
        ("cuda", "12.4.131", "12.4.1", True),
        ("cuda", "12.8.93", "12.4.1", False),
    ],
)
def test_versions_are_compared_number_by_number(
    name: str, here: str, lock: str, equal: bool
) -> None:
    assert lock_tool.same(name, here, lock) is equal


class Built:
    """An installed package: its prefix, its version, its variants."""

    def __init__(self, prefix: Path, version: str, *variants: str) -> None:
        self.prefix, self.version, self.variants = prefix, version, variants

    def satisfies(self, variant: str) -> bool:
        return variant in self.variants


#: The variables of a node with an emulated GPU that has a gdrdrv.
EMULATED = {"LD_LIBRARY_PATH": "/vgpu/lib", "LD_PRELOAD": ""}

CUDA_AWARE = """\
mca:accelerator:cuda:version:mca:2.1.0
mca:accelerator:null:version:mca:2.1.0
mca:pml:ob1:version:mca:2.1.0
mca:pml:ucx:version:mca:2.1.0
mca:io:romio341:version:mca:2.1.0
"""


@pytest.mark.parametrize(
    ("lost", "library", "said"),
    [
        ("", "ADIOI_LUSTRE_Open", []),
        ("", "ADIOI_UFS_Open", ["its ROMIO has no driver for Lustre; .*lustre/lustre_user.h"]),
        ("romio341", "", ["no component io romio, .*has [+]romio; .*lustre_user.h", "no driver"]),
        ("accelerator:cuda", "ADIOI_LUSTRE_Open", ["no component accelerator cuda.*cuda.h"]),
        ("pml:ucx", "ADIOI_LUSTRE_Open", ["no component pml ucx, the lock has fabrics=ucx"]),
    ],
)
def test_what_open_mpi_left_out_is_named(
    tmp_path: Path, lost: str, library: str, said: list[str]
) -> None:
    lines = [line for line in CUDA_AWARE.splitlines() if not lost or lost not in line]
    program(tmp_path / "bin", "ompi_info", f"cat <<'END'\n{chr(10).join(lines)}\nEND")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libmpi.so.40").write_text(library)
    spec = Built(tmp_path, "5.0.10", "+romio", "romio-filesystem=lustre", "+cuda", "fabrics=ucx")
    faults = lock_tool.openmpi_of(spec, EMULATED)
    assert len(faults) == len(said)
    for fault, text in zip(faults, said):
        assert re.search(f"^openmpi@5.0.10.*{text}", fault) and "build again" in fault


def test_an_open_mpi_without_cuda_is_not_asked_for_it(tmp_path: Path) -> None:
    program(tmp_path / "bin", "ompi_info", "echo mca:pml:ucx:version:mca:2.1.0")
    assert lock_tool.openmpi_of(Built(tmp_path, "5.0.10", "~cuda", "fabrics=ucx"), {}) == []


@pytest.mark.parametrize(("node", "lacks"), [("gpu", 0), ("none", 1)])
def test_the_cuda_component_of_open_mpi_needs_a_driver_to_be_listed(
    tmp_path: Path, node: str, lacks: int
) -> None:
    listing = ROOT / f"tests/data/spack/ompi_info-{node}.txt"
    program(tmp_path / "bin", "ompi_info", f'cat "{listing}"')
    faults = lock_tool.openmpi_of(Built(tmp_path, "5.0.7", "+cuda", "fabrics=ucx"), EMULATED)
    assert ["accelerator cuda" in each for each in faults] == [True] * lacks


#: What the UCX of site debian12-cuda said, on an emulated GPU with a gdrdrv.
SAID = {
    option: (ROOT / f"tests/data/spack/ucx_info{option}.txt").read_text() for option in ("-b", "-d")
}
VARIANTS = ("+cma", "+verbs", "+mlx5_dv", "+rdmacm", "+cuda", "+gdrcopy")


def ucx_info(folder: Path, old: str = "", new: str = "") -> Path:
    """A UCX that says so, with a text replaced. It opens nothing for GPUs without a driver."""
    for option, text in SAID.items():
        (folder / option).write_text(text.replace(old, new) if old else text)
    said = (
        f"""cat "{folder}/$1" | if [ "$1$LD_LIBRARY_PATH" = -d ]; then grep -v cuda; else cat; fi"""
    )
    program(folder / "bin", "ucx_info", said)
    (folder / "lib/ucx").mkdir(parents=True)
    return folder


def test_a_ucx_with_all_its_modules_has_no_fault(tmp_path: Path) -> None:
    spec = Built(ucx_info(tmp_path), "1.18.1", *VARIANTS)
    assert lock_tool.ucx_of(spec, EMULATED) == []
    assert lock_tool.ucx_of(spec, {}) == [], "without an emulated GPU, nothing is known"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (":cuda:ib", ":ib", "was built without [+]cuda, which the lock has"),
        (":gdrcopy", "", "was built without [+]gdrcopy,"),
        (":mlx5", "", "was built without [+]mlx5_dv,"),
        (":ib:rdmacm", "", "was built without [+]verbs [+]rdmacm,"),
        (
            "_MODULES",
            "_NOTHING",
            "was built without [+]cma [+]verbs [+]mlx5_dv [+]rdmacm [+]cuda [+]gdrcopy",
        ),
    ],
)
def test_a_module_that_ucx_left_out_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    spec = Built(ucx_info(tmp_path, old, new), "1.18.1", *VARIANTS)
    (fault,) = lock_tool.ucx_of(spec, EMULATED)
    assert re.search(f"^ucx@1.18.1 {said}", fault)


def test_a_transport_that_ucx_does_not_open_is_named(tmp_path: Path) -> None:
    spec = Built(ucx_info(tmp_path, "Transport: cuda_ipc", "Transport: tcp"), "1.18.1", *VARIANTS)
    (fault,) = lock_tool.ucx_of(spec, EMULATED)
    assert "ucx_info -d lacks cuda_ipc on an emulated GPU" in fault


def test_gdr_copy_is_asked_for_where_there_is_a_gdrdrv(tmp_path: Path) -> None:
    spec = Built(ucx_info(tmp_path, "Transport: gdr_copy", "Transport: x"), "1.18.1", *VARIANTS)
    (fault,) = lock_tool.ucx_of(spec, EMULATED)
    assert "lacks gdr_copy on" in fault
    assert lock_tool.ucx_of(spec, {"LD_LIBRARY_PATH": EMULATED["LD_LIBRARY_PATH"]}) == []


def test_a_module_that_does_not_find_its_library_is_named(tmp_path: Path) -> None:
    prefix = ucx_info(tmp_path, "Transport: cuda", "Transport: x")
    (prefix / "lib/ucx/libuct_cuda.so").touch()
    program(tmp_path / "tools", "ldd", "echo '  libcuda.so.1 => not found'")
    node = {**EMULATED, "PATH": f"{tmp_path / 'tools'}:{os.environ['PATH']}"}
    (fault,) = lock_tool.ucx_of(Built(prefix, "1.18.1", *VARIANTS), node)
    assert fault.endswith("its modules do not find libcuda.so.1")
