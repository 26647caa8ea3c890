"""Tests of the Spack stack that do not need Spack: files, recipes, scripts, stacks."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from reframe.core.exceptions import ConfigError

from assay.catalogue import BTIO_CLASSES, BTIO_SUBTYPES, PROGRAMS
from assay.locks import views
from assay.locks.lockfile import Lock, LockError
from assay.sites import stacks

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "spack-repo/spack_repo/assay/packages").glob("*/package.py"))
MANIFESTS = {
    "ibisco": ROOT / "spack.yaml",
    **{path.parents[2].name: path for path in ROOT.glob("site-config/*/spack/env/spack.yaml")},
}
CUDA_SITES = ("ibisco", "h100")


def manifest(site: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(MANIFESTS[site].read_text())["spack"]
    return document


def nodes(lock: Path) -> list[dict[str, Any]]:
    return list(json.loads(lock.read_text())["concrete_specs"].values())


def lock_of(site: str) -> Path:
    return MANIFESTS[site].with_name("spack.lock")


# --- manifests and recipes ------------------------------------------------------------------------


def test_the_pins_are_commits() -> None:
    pins = yaml.safe_load((ROOT / "spack-repo/pins.yaml").read_text())
    assert set(pins) == {"spack", "packages"}
    for pin in pins.values():
        assert re.fullmatch(r"[0-9a-f]{40}", pin["commit"])
    for site in MANIFESTS:
        made = json.loads(lock_of(site).read_text())["spack"]
        assert made["commit"] == pins["spack"]["commit"], site


@pytest.mark.parametrize("site", sorted(MANIFESTS))
def test_a_manifest_takes_what_is_shared_from_one_place(site: str) -> None:
    document = manifest(site)
    # Versions, requirements and repositories in a manifest would apply to one site only.
    assert set(document) == {"include", "specs", "view"}
    folders = [(MANIFESTS[site].parent / each).resolve() for each in document["include"]]
    assert folders[0] == ROOT / "site-config" / site / "spack", "the site must win"
    assert folders[-1] == ROOT / "site-config/common/spack"
    assert all(any(folder.glob("*.yaml")) for folder in folders)


@pytest.mark.parametrize("site", sorted(MANIFESTS))
def test_no_require_below_all(site: str) -> None:
    # A `require` of a single package would silently replace it.
    packages = yaml.safe_load((ROOT / f"site-config/{site}/spack/packages.yaml").read_text())
    assert "require" not in packages["packages"]["all"]
    assert packages["packages"]["all"]["target"]


@pytest.mark.parametrize("site", CUDA_SITES)
def test_osu_is_there_with_and_without_cuda_on_one_mpi(site: str) -> None:
    found = nodes(lock_of(site))
    osu = [node for node in found if node["name"] == "osu-micro-benchmarks"]
    assert sorted(node["parameters"]["cuda"] for node in osu) == [False, True]
    mpi = [
        dependency["hash"]
        for node in osu
        for dependency in node["dependencies"]
        if dependency["name"] == "openmpi"
    ]
    assert len(mpi) == 2 and len(set(mpi)) == 1


@pytest.mark.parametrize("site", CUDA_SITES)
def test_nobody_measures_with_the_ucx_that_counts(site: str) -> None:
    found = nodes(lock_of(site))
    counting = {n["hash"] for n in found if n["name"] == "ucx" and n["parameters"]["stats"]}
    assert len(counting) == 1
    users = [n["name"] for n in found for d in n.get("dependencies", ()) if d["hash"] in counting]
    assert users == []


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.parent.name)
def test_every_version_of_a_recipe_is_pinned(recipe: Path) -> None:
    tree = ast.parse(recipe.read_text())
    (package,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    words = recipe.parent.name.split("_")
    assert package.name == "".join(word.capitalize() for word in words)
    assert ast.get_docstring(package)
    if {base.id for base in package.bases if isinstance(base, ast.Name)} == {"BundlePackage"}:
        return  # nothing is fetched
    for call in ast.walk(package):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "version":
            named = {word.arg: word.value for word in call.keywords}
            assert "branch" not in named and named.keys() & {"sha256", "commit"}


def test_every_recipe_that_a_lock_used_is_of_this_tree() -> None:
    ours = {path.parent.name.replace("_", "-") for path in RECIPES}
    used = {n["name"] for s in MANIFESTS for n in nodes(lock_of(s)) if n["namespace"] == "assay"}
    assert used <= ours
    # A lock with the builtin recipe would lack the corrections of our recipe.
    builtin = {
        n["name"]
        for s in MANIFESTS
        for n in nodes(lock_of(s))
        if n["namespace"] == "builtin" and not n.get("external")
    }
    assert not builtin & ours


# --- the stack of a site --------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the site debian12 with nothing installed; returns its reframe.py."""
    folder = tmp_path / "site-config/debian12"
    (folder / "spack/env").mkdir(parents=True)
    for file in (lock_of("debian12"), MANIFESTS["debian12"]):
        shutil.copy(file, folder / "spack/env")
    monkeypatch.delenv("ASSAY_SPACK_HOME", raising=False)
    return folder / "reframe.py"


def lock_beside(site: Path) -> Path:
    return site.parent / "spack/env/spack.lock"


def install(site: Path, *directories: str, lock_sha256: str | None = None) -> None:
    digest = lock_sha256 or hashlib.sha256(lock_beside(site).read_bytes()).hexdigest()
    file = stacks.home(site) / "env/debian12.host.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"lock_sha256": digest, "path": list(directories)}))


def test_a_stack_has_what_its_lock_has(site: Path) -> None:
    install(site, "/a view/bin", "/b")
    stack = stacks.spack(site, lock_beside(site))
    locked = {node["name"]: node for node in nodes(lock_beside(site))}
    assert stack["env_vars"] == [["PATH", "'/a view/bin':/b:$PATH"]]
    assert "prepare_cmds" not in stack
    assert set(stack["features"]) == {"mpi", "ucx", "ucx-perftest", "osu", "hpcc", "hpl", "btio"}
    assert stack["extras"]["osu_version"] == locked["osu-micro-benchmarks"]["version"]
    # The order is by size and not by letter, because the tests take the first class.
    assert stack["extras"]["btio_classes"] == ["S", "W", "A"]
    assert set(stack["extras"]["btio_subtypes"]) == {"simple", "full", "epio"}


def test_jobs_of_a_stack_that_is_not_installed_say_so(site: Path) -> None:
    stack = stacks.spack(site, lock_beside(site))
    done = subprocess.run(
        ["bash", "-c", "\n".join([*stack["prepare_cmds"], "echo ran"])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert "is not installed" in done.stderr and "make spack SITE=debian12" in done.stderr


def test_jobs_of_a_stack_of_another_lock_say_so(site: Path) -> None:
    install(site, "/b", lock_sha256="0" * 64)
    stack = stacks.spack(site, lock_beside(site))
    assert "env_vars" not in stack
    assert "from another lock" in stack["prepare_cmds"][0]


def test_a_file_that_is_no_lock_is_refused(site: Path) -> None:
    lock_beside(site).write_text("{}")
    with pytest.raises(ConfigError, match="required property; make lock SITE=debian12"):
        stacks.spack(site, lock_beside(site))
    lock_beside(site).unlink()
    with pytest.raises(ConfigError, match="No such file or directory; make lock SITE=debian12"):
        stacks.spack(site, lock_beside(site))


def stack_of(site: str, view: str) -> dict[str, Any]:
    return stacks.spack(ROOT / "site-config" / site / "reframe.py", lock_of(site), view)


@pytest.mark.parametrize("site", CUDA_SITES)
def test_no_program_that_the_tests_name_lacks_a_package(site: str) -> None:
    stack = stack_of(site, "host")
    gpu = stack_of(site, "gpu")
    # NetPIPE has no recipe.
    wanted = {w for w, p in PROGRAMS.items() if p.detected and not p.variant_of} | {"btio"}
    assert wanted - {*stack["features"], *gpu["features"]} == {"netpipe"}
    assert stack["extras"]["btio_classes"] == list(BTIO_CLASSES)
    assert stack["extras"]["btio_subtypes"] == list(BTIO_SUBTYPES)


@pytest.mark.parametrize("site", CUDA_SITES)
def test_what_needs_libcuda_or_counts_is_a_stack_of_its_own(site: str) -> None:
    host, gpu, diagnosis = (stack_of(site, view) for view in ("host", "gpu", "diagnosis"))
    assert [stack["name"] for stack in (host, gpu, diagnosis)] == [
        "spack", "spack-gpu", "spack-diagnosis",
    ]  # fmt: skip
    assert not {"osu-cuda", "ucx-stats"} & set(host["features"])
    assert {"mpi", "ucx", "osu-cuda"} <= set(gpu["features"])
    # Tests that need no GPU run once, with the stack for all nodes.
    assert not {"osu", "hpl", "hpcc", "btio", "iozone"} & set(gpu["features"])
    assert gpu["extras"]["osu_version"] == host["extras"]["osu_version"]
    # No test that measures may select the UCX with statistics.
    assert diagnosis["features"] == ["ucx-stats", "ucx-cuda"]


@pytest.mark.parametrize("site", sorted(MANIFESTS))
def test_no_view_holds_two_packages_of_one_name(site: str) -> None:
    lock = Lock.load(lock_of(site), "spack.lock")
    for view in manifest(site)["view"]:
        names = [node["name"] for node in views.packages(lock, MANIFESTS[site], view)]
        assert names and len(names) == len(set(names)), view


def test_a_view_that_is_not_there_is_refused(site: Path) -> None:
    with pytest.raises(ConfigError, match=r"spack.yaml: view: no 'gpu'; there are host$"):
        stacks.spack(site, lock_beside(site), "gpu")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spack: {view: [host]}", r"spack/view: \['host'\] is not of type 'object'"),
        ("spack: {view: {host: {link: some}}}", "spack/view/host/link: 'some' is not one of"),
        ("spack: {view: {host: {select: ['ucx@@']}}}", "view:host:select: 'ucx@@': not understood"),
    ],
)
def test_a_view_that_is_not_understood_is_refused(site: Path, text: str, said: str) -> None:
    path = lock_beside(site).with_name("spack.yaml")
    path.write_text(text)
    with pytest.raises(LockError, match=said):
        views.packages(Lock.load(lock_beside(site), "spack.lock"), path, "host")


# --- scripts, on the paths that end badly ---------------------------------------------------------


def script(name: str, *arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
    keep = {k: os.environ[k] for k in ("PATH", "HOME") if k in os.environ}
    return subprocess.run(
        [ROOT / "ci" / name, *arguments],
        env={**keep, **{k: str(v) for k, v in variables.items()}},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


SCRIPTS = ("spack-install.sh", "spack-relock.sh", "spack-offline-kit.sh")


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_a_site(name: str) -> None:
    said = one_line(script(name))
    assert "SITE is not set" in said and all(site in said for site in MANIFESTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_with_an_unknown_site(name: str) -> None:
    said = one_line(script(name, SITE="debian13"))
    assert "'debian13'" in said and all(site in said for site in MANIFESTS)


def test_make_takes_no_default_site_for_spack() -> None:
    made = subprocess.run(
        ["make", "-n", "spack", "lock", "offline-kit"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.rstrip() for line in made.stdout.splitlines()]
    assert lines == [f"SITE='' ci/{name}" for name in SCRIPTS]


def test_without_spack_where_it_says(tmp_path: Path) -> None:
    said = one_line(
        script("spack-relock.sh", SITE="debian12", SPACK_ROOT=tmp_path, ASSAY_SPACK_HOME=tmp_path)
    )
    assert "has no bin/spack" in said


def test_with_another_spack(tmp_path: Path) -> None:
    spack = tmp_path / "spack/bin/spack"
    spack.parent.mkdir(parents=True)
    spack.write_text("#!/bin/sh\n")
    spack.chmod(0o755)
    git = ["git", "-C", str(tmp_path / "spack"), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "another"], check=True)
    said = one_line(
        script(
            "spack-relock.sh",
            SITE="debian12",
            SPACK_ROOT=tmp_path / "spack",
            ASSAY_SPACK_HOME=tmp_path / "home",
        )
    )
    wanted = yaml.safe_load((ROOT / "spack-repo/pins.yaml").read_text())["spack"]["commit"]
    assert re.search(rf"is at commit [0-9a-f]{{40}}, the locks need {wanted}", said)


def kit(folder: Path) -> Path:
    """A kit that holds none of the needed files but passes the check of its sums."""
    (folder / "spack.git").mkdir(parents=True)
    (folder / "readme").write_text("a kit\n")
    digest = hashlib.sha256(b"a kit\n").hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  ./readme\n")
    return folder


def test_without_spack_and_without_a_source_of_it(tmp_path: Path) -> None:
    done = script(
        "spack-relock.sh",
        SITE="debian12",
        ASSAY_SPACK_KIT=kit(tmp_path / "kit"),
        ASSAY_SPACK_HOME=tmp_path / "home",
    )
    said = one_line(done)
    assert "could not be fetched" in said and "set SPACK_ROOT" in said
    assert not (tmp_path / "home/spack").exists(), "half a clone would be taken for one"


def test_with_a_damaged_kit(tmp_path: Path) -> None:
    (kit(tmp_path / "kit") / "readme").write_text("something else\n")
    done = script(
        "spack-relock.sh",
        SITE="debian12",
        ASSAY_SPACK_KIT=tmp_path / "kit",
        ASSAY_SPACK_HOME=tmp_path / "home",
    )
    said = one_line(done)
    assert "is damaged: ./readme" in said


def test_sources_are_always_verified() -> None:
    said = one_line(script("spack-install.sh", "--no-checksum", SITE="debian12"))
    assert "--no-checksum is not for acceptance" in said


def tool(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "ci/spack-lock.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def edited(tmp_path: Path, name: str, **changes: Any) -> Path:
    """The lock of debian12 with some keys of one node replaced."""
    lock = json.loads(lock_of("debian12").read_text())
    (node,) = (n for n in lock["concrete_specs"].values() if n["name"] == name)
    for key, value in changes.items():
        node[key] = {**node[key], **value} if isinstance(value, dict) else value
    path = tmp_path / "edited.lock"
    path.write_text(json.dumps(lock))
    return path


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path) -> None:
    compilers = {"c": "/usr/bin/true", "fortran": "/opt/lost/gfortran"}
    external = {"path": "/usr", "extra_attributes": {"compilers": compilers}}
    done = tool("here", edited(tmp_path, "gcc", external=external))
    assert done.returncode == 1
    assert "(fortran): /opt/lost/gfortran does not exist here" in done.stdout
    assert "/usr/bin/true" not in done.stdout


def test_an_external_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = tool("here", edited(tmp_path, "openmpi", external={"path": "/opt/lost/openmpi"}))
    assert done.returncode == 1
    assert "openmpi@4.1.4: /opt/lost/openmpi does not exist here" in done.stdout


def test_the_difference_of_two_locks_names_versions_and_variants(tmp_path: Path) -> None:
    lock = lock_of("debian12")
    assert tool("diff", lock, lock).stdout == "  nothing\n"
    other = edited(
        tmp_path, "npb-btio", version="3.4.2", hash="x" * 32, parameters={"classes": ["S"]}
    )
    assert tool("diff", lock, other).stdout.splitlines() == [
        "  npb-btio: classes: A,S,W -> S",
        "  npb-btio: version: 3.4.3 -> 3.4.2",
    ]


def test_the_difference_names_what_came_and_went(tmp_path: Path) -> None:
    lock = lock_of("debian12")
    empty = tmp_path / "empty.lock"
    empty.write_text('{"concrete_specs": {}}')
    assert "+ hpcc@1.5.0" in tool("diff", empty, lock).stdout.splitlines()
    assert "- hpcc@1.5.0" in tool("diff", lock, empty).stdout.splitlines()
