"""Tests of the Spack stack that do not need Spack: files, recipes, stacks."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import shell
import yaml
from reframe.core.exceptions import ConfigError
from shell import ROOT, program, run

from assay.catalogue import BTIO_CLASSES, BTIO_SUBTYPES, PROGRAMS
from assay.describe import machine
from assay.prove import launch
from assay.sites import site_yaml, stacks

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
    packages = yaml.safe_load((folders[0] / "packages.yaml").read_text())
    assert packages["packages"]["all"]["target"]


@pytest.mark.parametrize("site", sorted({*MANIFESTS} - {"debian12-cuda"}))
def test_activating_an_environment_gives_what_starts_on_every_node(site: str) -> None:
    # `spack env activate` sets PATH for a view of this name alone.
    assert next(iter(manifest(site)["view"])) == "default"


def test_only_make_fixes_where_spack_installs_and_what_it_reads() -> None:
    files = [*(ROOT / "site-config").glob("**/spack*/**/*.yaml"), ROOT / "spack.yaml"]
    ours = ROOT / "site-config/common/spack-make"
    theirs = [path for path in files if path.parent != ours and "seal" not in path.name]
    theirs = [path for path in theirs if ".spack-env" not in path.parts]
    assert len(theirs) > 10
    for path in theirs:
        document = yaml.safe_load(path.read_text())
        document = document.get("spack", document)
        kept = {"packages", "definitions", "repos", "concretizer", "include", "specs", "view"}
        assert set(document) <= kept, f"plain Spack would lose the site's own settings: {path}"
        assert document.get("concretizer", {}).keys() <= {"unify"}
        assert not re.search(r"[$][{]?[A-Z]", path.read_text()), path
    outranking = {path.stem: yaml.safe_load(path.read_text()) for path in ours.iterdir()}
    assert outranking["concretizer"] == {"concretizer": {"reuse": False}}
    assert outranking["config"]["config"]["checksum"] is True
    # Spack looks for a recipe in their order.
    assert [*outranking["repos"]["repos"]] == ["assay", "builtin"]


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


def test_what_debian_compiles_with_cuda_is_what_the_reference_site_runs() -> None:
    def built(site: str) -> dict[str, Any]:
        return {
            node["name"]: (node["version"], node["parameters"])
            for node in nodes(lock_of(site))
            if "external" not in node
            and node["parameters"].get("cuda") is True
            and not node["parameters"].get("stats")
        }

    compiled, reference = built("debian12-cuda"), built("ibisco")
    assert {"openmpi", "ucx", "gdrcopy", "osu-micro-benchmarks", "nccl-tests"} <= set(compiled)
    for stack in (compiled, reference):
        for key in ("romio", "romio-filesystem"):  # a choice of each site
            stack["openmpi"][1].pop(key, None)
    assert compiled == {name: reference[name] for name in compiled}


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
    for name in ("spack.lock", "spack.lock.seal.yaml"):
        shutil.copy(MANIFESTS["debian12"].with_name(name), folder / "spack/env")
    (tmp_path / "site-config/vocabulary.yaml").touch()  # by it, the suite knows a repository
    monkeypatch.delenv("ASSAY_SPACK_HOME", raising=False)
    return folder / "reframe.py"


def lock_beside(site: Path) -> Path:
    return site.parent / "spack/env/spack.lock"


def install(site: Path, *directories: str, lock_sha256: str | None = None) -> None:
    digest = lock_sha256 or hashlib.sha256(lock_beside(site).read_bytes()).hexdigest()
    file = stacks.home(site) / "env/debian12.default.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"lock_sha256": digest, "path": list(directories)}))


def test_a_stack_has_what_its_lock_has(site: Path) -> None:
    install(site, "/a view/bin", "/b")
    stack = stacks.spack(site, lock_beside(site))
    locked = {node["name"]: node for node in nodes(lock_beside(site))}
    assert stack["env_vars"] == [["PATH", "'/a view/bin':/b:$PATH"]]
    assert "prepare_cmds" not in stack
    assert set(stack["features"]) == {
        "mpi", "mpicc", "ucx", "ucx-perftest", "osu", "hpcc", "hpcg", "hpl", "btio",
        "mpigraph", "stream",
    }  # fmt: skip
    assert stack["extras"]["osu_version"] == locked["osu-micro-benchmarks"]["version"]
    # The order is by size and not by letter, because the tests take the first class.
    built = stack["extras"]["btio_built"]
    assert built["classes"] == ["S", "W", "A"]
    assert set(built["subtypes"]) == {"simple", "full", "epio"}


def test_jobs_of_a_stack_that_is_not_installed_say_so(site: Path) -> None:
    stack = stacks.spack(site, lock_beside(site))
    done = shell.run("bash", "-c", "\n".join([*stack["prepare_cmds"], "echo ran"]), apart=True)
    assert done.returncode == 1 and done.stdout == ""
    assert "is not installed" in done.stderr and "make spack SITE=debian12" in done.stderr


def test_jobs_of_a_stack_of_another_lock_say_so(site: Path) -> None:
    install(site, "/b", lock_sha256="0" * 64)
    stack = stacks.spack(site, lock_beside(site))
    assert "env_vars" not in stack
    assert "from another lock" in stack["prepare_cmds"][0]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("spack.lock", "{}", "not a lock of Spack: .*"),
        ("spack.lock", None, "No such file or directory"),
        ("spack.lock", "another", "lock: was written for another lock"),
        ("spack.lock.seal.yaml", "{}", r"seal.yaml: \(top level\): `site` is missing .*"),
    ],
)
def test_a_lock_without_its_seal_is_refused(
    site: Path, name: str, content: str | None, said: str
) -> None:
    file = lock_beside(site).with_name(name)
    if content == "another":
        file.write_text(file.read_text() + "\n")
    elif content:
        file.write_text(content)
    else:
        file.unlink()
    with pytest.raises(ConfigError, match=f"{said}; make lock SITE=debian12"):
        stacks.spack(site, lock_beside(site))


def stack_of(site: str, view: str) -> dict[str, Any]:
    return stacks.spack(ROOT / "site-config" / site / "reframe.py", lock_of(site), view)


@pytest.mark.parametrize("site", CUDA_SITES)
def test_no_program_that_the_tests_name_lacks_a_package(site: str) -> None:
    stack = stack_of(site, "default")
    gpu = stack_of(site, "gpu")
    # NetPIPE has no recipe, others are not locked.
    wanted = {w for w, p in PROGRAMS.items() if p.detected and not p.variant_of} | {"btio"}
    assert wanted - {*stack["features"], *gpu["features"]} == {
        word for word in wanted if not PROGRAMS[word].spack
    }
    built = {"classes": list(BTIO_CLASSES), "subtypes": list(BTIO_SUBTYPES)}
    assert stack["extras"]["btio_built"] == built


@pytest.mark.parametrize("site", CUDA_SITES)
def test_what_needs_libcuda_or_counts_is_a_stack_of_its_own(site: str) -> None:
    host, gpu, diagnosis = (stack_of(site, view) for view in ("default", "gpu", "diagnosis"))
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


def test_a_view_that_is_not_there_is_refused(site: Path) -> None:
    with pytest.raises(ConfigError, match=r"seal.yaml: views: no 'gpu'; there are default$"):
        stacks.spack(site, lock_beside(site), "gpu")


# --- a view that any Spack installed --------------------------------------------------------------


def view_of(folder: Path, *names: str, **changes: Any) -> Path:
    """A view, and below `opt` what it links to: packages of the lock of debian12.

    :param changes: package -> what its node says of itself as an external.
    """
    found = nodes(lock_of("debian12"))
    for each in found:
        if each["name"] in changes:
            each["external"] = changes[each["name"]]
    for each in (each for each in found if each["name"] in names):
        prefix = folder / "opt/linux" / each["name"]
        file = prefix / ".spack/spec.json"
        file.parent.mkdir(parents=True)
        others = [other for other in found if other is not each]
        file.write_text(json.dumps({"spec": {"nodes": [each, *others]}}))
        linked = folder / "a view/.spack" / each["name"] / "spec.json"
        linked.parent.mkdir(parents=True)
        linked.symlink_to(file)
    (folder / "opt/.spack-db").mkdir(parents=True)
    program = folder / "a view/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency"
    program.parent.mkdir(parents=True)
    program.touch()
    return folder / "a view"


BUILT = ("osu-micro-benchmarks", "npb-btio", "hpcc", "hpcg", "hpl", "mpigraph", "stream")


def test_a_view_says_the_same_as_the_lock_that_it_was_installed_from(
    site: Path, tmp_path: Path
) -> None:
    view = view_of(tmp_path, *BUILT)
    stack, locked = stacks.spack(site, view), stacks.spack(site, lock_beside(site))
    assert stack["name"] == locked["name"] == "spack"
    assert stack["features"] == locked["features"]
    told = ("provenance", "libraries")
    said, sealed = ({**each["extras"], **dict.fromkeys(told)} for each in (stack, locked))
    assert said == sealed
    assert stack["extras"]["libraries"] == [str(tmp_path / "opt")]
    assert str(view) in stack["extras"]["provenance"]
    path = f"'{view}/bin':'{view}/libexec/osu-micro-benchmarks/mpi/pt2pt':$PATH"
    assert stack["env_vars"] == [["PATH", path]]
    assert not {"modules", "prepare_cmds"} & stack.keys()


@pytest.mark.parametrize(
    ("module", "added"), [(None, ":/opt/mpi/bin:$PATH"), (["openmpi/5"], "/pt2pt':$PATH")]
)
def test_an_mpi_of_the_site_comes_from_its_module_or_its_prefix(
    site: Path, tmp_path: Path, module: list[str] | None, added: str
) -> None:
    mpi = {"path": "/opt/mpi", "module": module}
    stack = stacks.spack(site, view_of(tmp_path, *BUILT, openmpi=mpi), "gpu")
    assert stack["name"] == "spack-gpu" and "mpi" in stack["features"]
    assert stack.get("modules") == module
    assert stack["env_vars"][0][1].endswith(added)
    assert stack["extras"]["libraries"] == ["/opt/mpi", str(tmp_path / "opt")]


def test_an_mpi_may_be_known_by_its_module_alone(site: Path, tmp_path: Path) -> None:
    mpi = {"path": None, "module": ["openmpi/5"]}
    stack = stacks.spack(site, view_of(tmp_path, *BUILT, openmpi=mpi))
    assert stack["modules"] == ["openmpi/5"]
    assert stack["extras"]["libraries"] == [str(tmp_path / "opt")]


def test_a_program_that_the_view_does_not_hold_is_not_promised(site: Path, tmp_path: Path) -> None:
    stack = stacks.spack(site, view_of(tmp_path, "hpl"))
    assert "hpl" in stack["features"]
    assert not {"osu", "btio", "hpcc"} & set(stack["features"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no view of Spack; give the folder of a view, or a spack.lock"),
        ("{}", "not a view that Spack wrote: KeyError"),
        ('{"spec": {"nodes": []}}', "not a view that Spack wrote: IndexError"),
    ],
)
def test_a_folder_that_is_no_view_is_refused(
    site: Path, tmp_path: Path, content: str | None, said: str
) -> None:
    if content:
        (tmp_path / "view/.spack/hpl").mkdir(parents=True)
        (tmp_path / "view/.spack/hpl/spec.json").write_text(content)
    with pytest.raises(ConfigError, match=f"/view: {said}"):
        stacks.spack(site, tmp_path / "view")


# --- what make programs compiled ---


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder as ci/programs.py leaves it, with an mpirun beside it."""
    parameters = {"cuda": False, "rocm": False}
    packages = {
        "osu-micro-benchmarks": {"version": "7.2", "parameters": parameters},
        "npb-btio": {
            "version": "3.4.3",
            "parameters": {"classes": ["S", "A"], "subtypes": ["full", "epio"]},
        },
    }
    for each in packages.values():
        each["source"] = "commit abc of someone/repo"
    (tmp_path / "made/bin").mkdir(parents=True)
    mpirun = program(tmp_path, "mpirun")
    said = {"mpi": {"mpirun": str(mpirun)}, "packages": packages}
    (tmp_path / "made/programs.json").write_text(json.dumps(said))
    return tmp_path / "made"


def test_what_was_compiled_is_a_stack_with_its_sources(built: Path) -> None:
    made = stacks.compiled(built)
    assert made["features"] == ["osu", "btio"]
    extras = made["extras"]
    assert extras["osu_version"] == "7.2"
    assert extras["btio_built"] == {"classes": ["S", "A"], "subtypes": ["full", "epio"]}
    assert extras["compiled_with"] == str(built.with_name("mpirun"))
    assert "npb-btio 3.4.3 (commit abc of someone/repo)" in extras["provenance"]
    assert made["env_vars"] == [["PATH", f"{built}/bin:$PATH"]]


def test_a_stack_names_the_folder_by_one_word(site: Path, built: Path) -> None:
    said = site_yaml.SiteFile(stacks={"own": site_yaml.Stack(programs=str(built))})
    (made,) = site_yaml.environments(site, said)
    assert (made["name"], made["features"]) == ("own", ["osu", "btio"])
    (built / "programs.json").unlink()
    with pytest.raises(ConfigError, match=r"no programs .*: type make programs"):
        site_yaml.environments(site, said)


def test_a_machine_uses_them_only_with_their_mpi(
    site: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = site_yaml.SiteFile(stacks={"system": site_yaml.Stack(programs=str(built))})
    monkeypatch.setenv("PATH", str(built.parent), prepend=os.pathsep)
    made, why = machine.compiled(site, said)
    assert (made or {})["features"] == ["osu", "btio"]
    assert why == []
    other = program(built.parent / "other", "mpirun")
    monkeypatch.setenv("PATH", str(other.parent), prepend=os.pathsep)
    made, (line,) = machine.compiled(site, said)
    assert made is None
    assert line.endswith(f"and mpirun is {other}: its programs are not used; type make programs")
    monkeypatch.setenv("ASSAY_STACK", "spack")
    assert machine.compiled(site, said) == (None, []), "nobody asked for them"


def test_a_job_that_finds_another_mpi_ends_with_a_line(built: Path, tmp_path: Path) -> None:
    line = launch.same_mpi(str(built.with_name("mpirun")))
    there = run("bash", "-c", f"{line}; echo on", PATH=f"{built.parent}:{os.environ['PATH']}")
    assert there.stdout == "on\n"
    other = program(built.parent / "other", "mpirun")
    path = f"{other.parent}:{os.environ['PATH']}"
    done = run("bash", "-c", f"{line}; echo on", cwd=tmp_path, PATH=path)
    assert done.returncode == 1
    assert "mpirun is another: type make programs" in done.stdout
    assert (tmp_path / launch.REFUSED_FILE).read_text() == done.stdout, "the reason of the case"
