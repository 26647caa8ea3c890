"""``assay lock``: the real locks of the repository, whole and with one fault each.

A fault that an edit leaves in the hashes is caught by them; to see another rule at work the test
gives the edited lock fresh hashes and a fresh seal, as somebody who cheats would.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.cli import main
from assay.locks import command, manifest, seal
from assay.locks.lockfile import Lock

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = command.environments(ROOT)
#: The environment at the top, with GPUs, and one without.
REFERENCE = next(site for site, each in ENVIRONMENTS.items() if each.folder == Path())
HOST = next(
    site
    for site, each in ENVIRONMENTS.items()
    if (path := each.file("spack.lock")[0]).exists() and not Lock.load(path, site).named("cuda")
)

Document = dict[str, Any]


class Copy:
    """A copy of what ``assay lock`` reads, to spoil."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        self.root = root
        self._capsys = capsys
        for site in {folder.parent for folder in ROOT.glob("site-config/*/spack*")}:
            for folder in site.glob("spack*"):
                shutil.copytree(
                    folder,
                    root / folder.relative_to(ROOT),
                    ignore=shutil.ignore_patterns(".spack-env", "__pycache__"),
                )
        shutil.copytree(
            ROOT / "spack-repo", root / "spack-repo", ignore=shutil.ignore_patterns("__pycache__")
        )
        for file in ROOT.glob("spack.*"):
            shutil.copy(file, root)

    def path(self, name: str, site: str = REFERENCE) -> Path:
        return self.root / ENVIRONMENTS[site].folder / name

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        """Exit code and lines of stderr of ``assay lock``."""
        assert self._capsys is not None
        self._capsys.readouterr()
        code = main(["lock", *arguments, "--root", str(self.root)])
        return code, self._capsys.readouterr().err.splitlines()

    def faults(self, site: str = REFERENCE) -> list[str]:
        """Lines about one site, without their common beginning; there must be some."""
        code, lines = self.run("check", "--site", site)
        assert code == 1
        assert lines
        assert all(line.startswith("assay lock: ") for line in lines)
        return [line[len("assay lock: ") :] for line in lines]

    def lock(self, site: str = REFERENCE) -> Document:
        return json.loads(self.path("spack.lock", site).read_text())

    def relock(self, document: Document, site: str = REFERENCE) -> None:
        """Write a lock and a seal that fits it, and all else as it is now."""
        self.path("spack.lock", site).write_text(json.dumps(document))
        files = manifest.Manifest(self.root, self.path("spack.yaml", site)).files
        pins = seal.load_pins(self.root / "spack-repo/pins.yaml", "pins")
        sealed = seal.of(self.root, site, self.path("spack.lock", site), files, pins)
        self.path("spack.lock.seal.yaml", site).write_text(yaml.safe_dump(sealed))

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that must be there, in a file of the copy."""
        path = self.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def set(self, package: str, key: str, value: Any, site: str = REFERENCE) -> None:
        """Change what the site says of a package; key may be one of its first external."""
        path = self.root / f"site-config/{site}/spack/packages.yaml"
        document = yaml.safe_load(path.read_text())
        holder = document["packages"].setdefault(package, {})
        if key in ("spec", "prefix", "modules", "extra_attributes"):
            holder = holder["externals"][0]
        holder[key] = value
        path.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture
def copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Copy:
    return Copy(tmp_path, capsys)


def node_of(document: Document, name: str) -> Document:
    return next(node for node in document["concrete_specs"].values() if node["name"] == name)


def ordinary(document: Document, copy: Copy) -> Document:
    """A node that is built, has dependencies and a switch, and of which no manifest says a word."""
    spoken = manifest.Manifest(copy.root, copy.path("spack.yaml")).packages()
    roots = {root["hash"] for root in document["roots"]}
    return next(
        node
        for key, node in document["concrete_specs"].items()
        if key not in roots
        and node["name"] not in spoken
        and "external" not in node
        and node.get("dependencies")
        and any(isinstance(value, bool) for value in node["parameters"].values())
    )


def rehash(document: Document) -> None:
    """Give each node, and each mention of it, the hash of its content: dependencies first.

    For locks of Spack 1.1.0, which leaves the namespace of an external out.
    """
    assert document["spack"]["version"] == "1.1.0"
    old, new = document["concrete_specs"], {}

    def settle(key: str) -> str:
        if key not in new:
            node = old[key]
            for edge in node.get("dependencies", []):
                edge["hash"] = settle(edge["hash"])
            left_out = ("hash", "namespace") if "external" in node else ("hash",)
            content = {name: value for name, value in node.items() if name not in left_out}
            text = json.dumps(content, separators=(",", ":"))
            node["hash"] = base64.b32encode(hashlib.sha1(text.encode()).digest()).decode().lower()
            new[key] = node["hash"]
        return new[key]

    for root in document["roots"]:
        root["hash"] = settle(root["hash"])
    # What no root needs any more goes, as it would when solving.
    document["concrete_specs"] = {new[key]: node for key, node in old.items() if key in new}


# The real ones.


@pytest.mark.parametrize("site", ENVIRONMENTS)
def test_the_lock_of_each_site_is_sound(site: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lock", "check", "--site", site, "--root", str(ROOT)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert out == f"{site}: {ENVIRONMENTS[site].file('spack.lock')[1]} is sound\n"


def test_all_sites_are_checked_when_none_is_named(copy: Copy) -> None:
    assert copy.run("check") == (0, [])
    for site in ENVIRONMENTS:
        copy.path("spack.lock", site).write_text("")
    code, lines = copy.run("check")
    assert code == 1
    assert len(lines) == len(ENVIRONMENTS)


def test_fresh_hashes_are_those_of_spack() -> None:
    """What the other tests rely on: `rehash` changes nothing in a sound lock."""
    for environment in ENVIRONMENTS.values():
        document = json.loads(environment.file("spack.lock")[0].read_text())
        before = json.dumps(document)
        rehash(document)
        assert json.dumps(document) == before


def test_both_ways_to_hash_externals() -> None:
    lock = Lock.load(ROOT / "tests/data/locks/spack-1.1.1.lock", "lock")
    assert all(lock.hash_of(node) == key for key, node in lock.nodes.items())
    lock.spack = {**lock.spack, "version": "1.1.0"}
    for key, node in lock.nodes.items():
        assert (lock.hash_of(node) == key) == ("external" not in node)


# Edits that leave the hashes behind.


def edited_version(node: Document) -> str:
    node["version"] += ".1"
    return "it was edited after solving"


def edited_variant(node: Document) -> str:
    name = next(name for name, value in node["parameters"].items() if isinstance(value, bool))
    node["parameters"][name] = not node["parameters"][name]
    return "it was edited after solving"


def dropped_dependency(node: Document) -> str:
    node["dependencies"].pop()
    return "it was edited after solving"


def edited_package_hash(node: Document) -> str:
    node["package_hash"] = node["package_hash"].translate(str.maketrans("abc", "bca"))
    return "it was edited after solving"


def edited_hash(node: Document) -> str:
    node["hash"] = node["hash"][::-1]
    return "it was edited after solving"


@pytest.mark.parametrize(
    "edit",
    [edited_version, edited_variant, dropped_dependency, edited_package_hash, edited_hash],
)
def test_an_edited_node(copy: Copy, edit: Callable[[Document], str]) -> None:
    document = copy.lock()
    node = ordinary(document, copy)
    key = node["hash"]
    said = edit(node)
    copy.relock(document)
    faults = copy.faults()
    assert any(said in fault for fault in faults)
    # An edge that was dropped may have been the only one to something.
    about = [fault for fault in faults if "no root needs" not in fault]
    assert all(fault.startswith(f"spack.lock: concrete_specs:{key}: ") for fault in about)
    assert all(fault.endswith(f"; make lock SITE={REFERENCE}") for fault in faults)


def test_a_node_under_another_key(copy: Copy) -> None:
    document = copy.lock()
    nodes = document["concrete_specs"]
    key = ordinary(document, copy)["hash"]
    nodes["a" * 32] = nodes.pop(key)
    copy.relock(document)
    faults = copy.faults()
    assert any(f"concrete_specs:{'a' * 32}: hash: is {key} in" in fault for fault in faults)
    assert any("dependencies:" in fault and "is not in the lock" in fault for fault in faults)


def test_an_edge_to_another_package(copy: Copy) -> None:
    document = copy.lock()
    node = ordinary(document, copy)
    edge = node["dependencies"][0]
    assert edge["name"] != "glibc"
    edge["hash"] = node_of(document, "glibc")["hash"]
    rehash(document)
    copy.relock(document)
    (fault, *_) = [fault for fault in copy.faults() if "dependencies:" in fault]
    assert f"{edge['name']} of {node['name']} is glibc@" in fault


def test_a_root_that_is_not_there(copy: Copy) -> None:
    document = copy.lock()
    document["roots"][0]["hash"] = "b" * 32
    copy.relock(document)
    assert any(f"roots: {document['roots'][0]['spec']!r}: bbb" in each for each in copy.faults())


def test_a_lock_edited_after_sealing(copy: Copy) -> None:
    """A change that means nothing still is a change: the bytes are sealed."""
    path = copy.path("spack.lock")
    path.write_text(path.read_text() + "\n")
    assert copy.faults() == [
        "spack.lock.seal.yaml: lock: spack.lock is not the one that was sealed; "
        f"make lock SITE={REFERENCE}"
    ]


# Manifest and lock against one another, with hashes and seal as they should be.


def test_a_version_that_is_not_the_required_one(copy: Copy) -> None:
    document = copy.lock()
    node = node_of(document, "hpl")
    node["version"] = "2.2"
    rehash(document)
    copy.relock(document)
    (fault,) = copy.faults()
    assert "packages:hpl:require: @" in fault
    assert "does not hold in spack.lock: hpl@2.2/" in fault


def test_a_variant_that_is_not_the_required_one(copy: Copy) -> None:
    document = copy.lock()
    node_of(document, "nccl-tests")["parameters"]["mpi"] = False
    rehash(document)
    copy.relock(document)
    (fault,) = copy.faults()
    assert "packages:nccl-tests:require: " in fault
    assert fault.endswith(f"lacks +mpi; make lock SITE={REFERENCE}")


def test_a_root_is_what_it_says(copy: Copy) -> None:
    document = copy.lock()
    for root in document["roots"]:
        if root["spec"] == "ucx+stats":
            document["concrete_specs"][root["hash"]]["parameters"]["stats"] = False
    rehash(document)
    copy.relock(document)
    (fault,) = copy.faults()
    assert fault.startswith("spack.lock: roots: 'ucx+stats': ucx@")
    assert "lacks +stats;" in fault


def test_a_spec_that_the_lock_lacks(copy: Copy) -> None:
    copy.edit("spack.yaml", "  specs:\n", "  specs:\n  - numactl@2\n")
    copy.relock(copy.lock())
    assert copy.faults() == [
        f"spack.yaml: specs: 'numactl@2' is no root of spack.lock; make lock SITE={REFERENCE}"
    ]


def test_a_spec_of_a_definition_that_the_lock_lacks(copy: Copy) -> None:
    name = "site-config/common/spack/definitions.yaml"
    copy.edit(name, "  - npb-btio\n", "  - npb-btio\n  - matrix: [[numactl], ['@2', '@3']]\n")
    copy.relock(copy.lock())
    said = [f"{name}: definitions:host: 'numactl @{n}' is no root of spack.lock" for n in (2, 3)]
    assert copy.faults() == [f"{each}; make lock SITE={REFERENCE}" for each in said]


def test_a_root_that_no_spec_asks_for(copy: Copy) -> None:
    document = copy.lock()
    document["roots"].append({"spec": "openmpi+cuda", "hash": node_of(document, "openmpi")["hash"]})
    copy.relock(document)
    (fault,) = copy.faults()
    assert fault.startswith("spack.lock: roots: 'openmpi+cuda' is not in spack.yaml;")


def test_a_node_that_no_root_needs(copy: Copy) -> None:
    document = copy.lock()
    node = json.loads(json.dumps(node_of(document, "numactl")))
    node["version"] = "1"
    content = {name: value for name, value in node.items() if name != "hash"}
    text = json.dumps(content, separators=(",", ":"))
    node["hash"] = base64.b32encode(hashlib.sha1(text.encode()).digest()).decode().lower()
    document["concrete_specs"][node["hash"]] = node
    copy.relock(document)
    (fault,) = copy.faults()
    assert f"concrete_specs:{node['hash']}: no root needs numactl@1/" in fault


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        ("'@2.3'", True),
        ("'@:2.2'", False),
        ("{one_of: ['@2.2', '@2.3']}", True),
        ("{any_of: ['@2.1', '@2.2']}", False),
        ("{spec: '@2.2', when: '+openmp'}", True),
        ("{spec: '@2.2', when: '~openmp'}", False),
        ("'^openmpi@5'", True),
        ("'^openmpi@4'", False),
        ("'%gcc'", True),
        ("'%clang'", False),
        ("'%c=gcc'", True),
        ("'%fortran=gcc ^mpi'", False),
    ],
)
def test_forms_of_requirements(copy: Copy, requirement: str, holds: bool) -> None:
    copy.edit(
        "site-config/common/spack/packages.yaml", 'require: ["@2.3"]', f"require: [{requirement}]"
    )
    copy.relock(copy.lock())
    code, lines = copy.run("check", "--site", REFERENCE)
    assert code == (0 if holds else 1)
    assert all("packages:hpl:require: " in line for line in lines)


def test_requirements_of_virtual_packages(copy: Copy) -> None:
    copy.edit("site-config/common/spack/packages.yaml", "require: [openmpi]", "require: [mpich]")
    copy.relock(copy.lock())
    (fault,) = copy.faults()
    assert "packages:mpi:require: mpich does not hold in spack.lock: openmpi@" in fault


def test_a_requirement_for_all_is_refused(copy: Copy) -> None:
    copy.set("all", "require", ["@1:"])
    copy.relock(copy.lock())
    (fault,) = copy.faults()
    assert "packages:all:require: any package's own require replaces it" in fault


# Sites.


def test_the_lock_of_another_site(copy: Copy) -> None:
    shutil.copy(copy.path("spack.lock", HOST), copy.path("spack.lock"))
    copy.relock(copy.lock())
    faults = copy.faults()
    assert any("is no root of spack.lock" in fault for fault in faults)
    assert any(": external " in fault for fault in faults)


def test_lock_and_seal_of_another_site(copy: Copy) -> None:
    for name in ("spack.lock", "spack.lock.seal.yaml"):
        shutil.copy(copy.path(name, HOST), copy.path(name))
    assert any(
        f"spack.lock.seal.yaml: site: is {HOST!r}, this is {REFERENCE!r}" in fault
        for fault in copy.faults()
    )


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("spec", "cuda@{version}.1", "the site has @={version}.1"),
        ("spec", "cuda@12", "the site has @=12"),
        ("spec", "cuda@{version} +dev", "the site has +dev"),
        ("prefix", "/opt/cuda", "prefix is {prefix}, the site has /opt/cuda"),
        ("modules", "cuda", "modules are None, the site has ['cuda']"),
        ("extra_attributes", "a", "extra_attributes (compilers, flags) differ"),
    ],
)
def test_another_external(copy: Copy, key: str, value: str, said: str) -> None:
    node = node_of(copy.lock(), "cuda")
    known = {"version": node["version"], "prefix": node["external"]["path"]}
    typed = {"modules": [value], "extra_attributes": {value: value}}
    copy.set("cuda", key, typed.get(key, value.format(**known)))
    copy.relock(copy.lock())
    (fault,) = copy.faults()
    where = f"site-config/{REFERENCE}/spack/packages.yaml: packages:cuda:externals: "
    assert f"external cuda@{node['version']}/{node['hash'][:7]} is not that of {where}" in fault
    assert fault.endswith(f": {said.format(**known)}; make lock SITE={REFERENCE}")


def test_another_compiler_in_the_same_place(copy: Copy) -> None:
    copy.set("gcc", "extra_attributes", {"compilers": {"c": "/usr/bin/other"}}, HOST)
    copy.relock(copy.lock(HOST), HOST)
    (fault,) = copy.faults(HOST)
    assert "external gcc@" in fault
    assert "extra_attributes" in fault


def test_an_external_that_the_site_does_not_list(copy: Copy) -> None:
    file = f"site-config/{REFERENCE}/spack/packages.yaml"
    copy.edit(file, "  pmix:\n", "  other:\n")
    copy.relock(copy.lock())
    (fault,) = copy.faults()
    assert "external pmix@" in fault
    assert "is in no packages:pmix:externals of the site" in fault


def test_what_the_site_has_is_not_built(copy: Copy) -> None:
    copy.set("numactl", "buildable", False)
    copy.relock(copy.lock())
    (fault,) = copy.faults()
    file = f"site-config/{REFERENCE}/spack/packages.yaml"
    assert f"is to be built, but {file}: packages:numactl:buildable is false" in fault


def test_another_generation_of_gpus(copy: Copy) -> None:
    copy.set("all", "prefer", ["cuda_arch=35"])
    copy.relock(copy.lock())
    faults = copy.faults()
    assert any(": nccl@" in fault for fault in faults)
    assert all(fault.count(" has cuda_arch ") == 1 for fault in faults)
    assert all("packages:all:prefer has 35" in fault for fault in faults)


def test_another_generation_of_processors(copy: Copy) -> None:
    copy.set("all", "target", ["x86_64"])
    copy.relock(copy.lock())
    built = [n for n in copy.lock()["concrete_specs"].values() if "external" not in n]
    faults = copy.faults()
    assert len(faults) == len(built)
    assert all("packages:all:target has" in fault for fault in faults)


@pytest.mark.parametrize("key", ["version", "commit"])
@pytest.mark.parametrize("what", ["spack", "packages"])
def test_another_spack_or_package_repository(copy: Copy, what: str, key: str) -> None:
    path = copy.root / "spack-repo/pins.yaml"
    pins = yaml.safe_load(path.read_text())
    pins[what][key] = "0" * 40
    path.write_text(yaml.safe_dump(pins))
    faults = copy.faults()
    assert any(fault.startswith(f"spack.lock.seal.yaml: {what}:{key}: ") for fault in faults)
    in_lock = [fault for fault in faults if fault.startswith(f"spack.lock: spack:{key}: ")]
    assert len(in_lock) == (what == "spack")
    assert len(faults) == 1 + len(in_lock)


# What was changed after solving, which Spack does not notice.


@pytest.mark.parametrize(
    "name",
    [
        "spack.yaml",
        f"site-config/{REFERENCE}/spack/packages.yaml",
        "site-config/common/spack/concretizer.yaml",
        "spack-repo/spack_repo/assay/repo.yaml",
        "spack-repo/spack_repo/assay/packages/npb_btio/package.py",
    ],
)
def test_manifest_include_or_recipe_changed_after_locking(copy: Copy, name: str) -> None:
    path = copy.root / name
    path.write_text(path.read_text() + "# and more\n")
    assert copy.faults() == [
        f"spack.lock.seal.yaml: files: {name} changed since spack.lock was solved; "
        f"make lock SITE={REFERENCE}"
    ]


def test_files_that_came_or_went_after_locking(copy: Copy) -> None:
    packages = copy.root / "spack-repo/spack_repo/assay/packages"
    (packages / "npb_btio/fix.patch").touch()
    shutil.rmtree(packages / "hpcc")
    (packages / "hpl/__pycache__").mkdir()
    (packages / "hpl/__pycache__/package.pyc").touch()
    come, gone = sorted(copy.faults(), reverse=True)
    assert "packages/npb_btio/fix.patch is new since" in come
    assert "packages/hpcc/package.py is gone since" in gone


def test_a_recipe_that_cannot_be_read(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (fault,) = copy.faults()
    assert fault.endswith("spack.lock: Permission denied")


def test_a_required_version_changed_after_locking(copy: Copy) -> None:
    copy.edit("site-config/common/spack/packages.yaml", '"@2.3"', '"@2.2"')
    requirement, sealed = sorted(copy.faults())
    assert "packages:hpl:require: @2.2 does not hold" in requirement
    assert "common/spack/packages.yaml changed since" in sealed


# Iron: what must hold whatever the manifest asks. The manifest asks it too, so it is made silent.


def without_requirements_of(copy: Copy, package: str) -> None:
    for file in copy.root.glob("site-config/*/spack*/packages.yaml"):
        document = yaml.safe_load(file.read_text())
        document["packages"].get(package, {}).pop("require", None)
        file.write_text(yaml.safe_dump(document, sort_keys=False))


def without_edge(node: Document, name: str) -> None:
    edges = node["dependencies"]
    node["dependencies"] = [edge for edge in edges if edge["name"] != name]
    assert node["dependencies"] != edges


@pytest.mark.parametrize("name", ["gdrcopy", "cuda"])
def test_ucx_that_does_not_depend_on_what_gpus_need(copy: Copy, name: str) -> None:
    document = copy.lock()
    node = node_of(document, "ucx")
    without_edge(node, name)
    rehash(document)
    copy.relock(document)
    (fault,) = copy.faults()
    assert f": ucx@{node['version']}/" in fault
    assert f"does not depend on {name}; require +{name} in packages:ucx" in fault


@pytest.mark.parametrize(
    "variant",
    ["cuda", "gdrcopy", "verbs", "rc", "ud", "dc", "mlx5_dv", "rdmacm", "cma", "thread_multiple"],
)
def test_ucx_without_a_variant_that_gpus_and_infiniband_need(copy: Copy, variant: str) -> None:
    without_requirements_of(copy, "ucx")
    document = copy.lock()
    node_of(document, "ucx")["parameters"][variant] = False
    rehash(document)
    copy.relock(document)
    (fault,) = copy.faults()
    assert f"lacks +{variant}; require it in packages:ucx; make lock" in fault


def test_ucx_without_gpus_may_do_without_them(copy: Copy) -> None:
    assert "+gdrcopy" not in copy.path("spack.yaml", HOST).read_text()
    assert node_of(copy.lock(HOST), "ucx")["parameters"]["gdrcopy"] is False
    assert copy.run("check", "--site", HOST) == (0, [])


def test_open_mpi_without_ucx(copy: Copy) -> None:
    without_requirements_of(copy, "openmpi")
    document = copy.lock()
    node = node_of(document, "openmpi")
    node["parameters"]["fabrics"] = ["ofi"]
    without_edge(node, "ucx")
    rehash(document)
    copy.relock(document)
    lacks, edge = copy.faults()
    assert "lacks fabrics=ucx; require it in packages:openmpi" in lacks
    assert "does not depend on ucx; require fabrics=ucx in packages:openmpi" in edge


def test_open_mpi_that_only_says_ucx(copy: Copy) -> None:
    without_requirements_of(copy, "openmpi")
    document = copy.lock()
    without_edge(node_of(document, "openmpi"), "ucx")
    rehash(document)
    copy.relock(document)
    (fault,) = copy.faults()
    assert "does not depend on ucx;" in fault


def test_open_mpi_of_the_site_without_ucx(copy: Copy) -> None:
    document = copy.lock(HOST)
    node = node_of(document, "openmpi")
    copy.set("openmpi", "spec", f"openmpi@{node['version']} fabrics=ofi", HOST)
    node["parameters"]["fabrics"] = ["ofi"]
    rehash(document)
    copy.relock(document, HOST)
    (fault,) = copy.faults(HOST)
    assert "lacks fabrics=ucx" in fault


def test_open_mpi_without_cuda(copy: Copy) -> None:
    without_requirements_of(copy, "openmpi")
    document = copy.lock()
    node_of(document, "openmpi")["parameters"]["cuda"] = False
    rehash(document)
    copy.relock(document)
    (fault,) = copy.faults()
    assert "lacks +cuda; require it in packages:openmpi" in fault


# Files that are missing or make no sense.


def test_an_unknown_site_is_wrong_usage(copy: Copy) -> None:
    known = ", ".join(ENVIRONMENTS)
    assert copy.run("check", "--site", "nowhere") == (
        2,
        [f"assay lock: unknown site 'nowhere'; known are {known}"],
    )


def test_no_repository_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "check", "--root", str(tmp_path)]) == 2
    assert "run from the repository, or give --root" in capsys.readouterr().err
    (tmp_path / "site-config").mkdir()
    assert main(["lock", "check", "--root", str(tmp_path)]) == 2
    assert "no site has a stack" in capsys.readouterr().err


def test_no_action_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as stop:
        main(["lock"])
    assert stop.value.code == 2


def test_a_site_without_manifest(copy: Copy) -> None:
    (copy.root / "site-config/new/spack").mkdir(parents=True)
    code, lines = copy.run("check")
    assert code == 1
    assert lines == ["assay lock: site-config/new/spack/env/spack.yaml: No such file or directory"]


@pytest.mark.parametrize(
    "name", ["spack.yaml", "spack.lock", "spack.lock.seal.yaml", "spack-repo/pins.yaml"]
)
@pytest.mark.parametrize(
    "content",
    [None, b"", b"{", b"[]", b"{}", b"\xff", b"a: [", b"a: 2001-13-41", b"[" * 5000, b"? {a}: 1"],
)
def test_a_file_that_is_missing_or_broken(copy: Copy, name: str, content: bytes | None) -> None:
    path = copy.root / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    code, lines = copy.run("check", "--site", REFERENCE)
    if name == "spack.yaml" and content is None:
        # Then nothing says whose environment the one at the top is.
        name = f"site-config/{REFERENCE}/spack/env/spack.yaml"
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"assay lock: {name}:")
    if content in (b"{", b"\xff", b"a: [", b"a: 2001-13-41"):
        assert "not valid " in lines[0] or "not a text in UTF-8" in lines[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("specs:", "specs: []\n  other:", "specs: none"),
        ("- $gpu", "- $gpus", "specs: $gpus is not defined; known are "),
        ("- $gpu", "- [gpu]", "is not a spec, a $name or a matrix"),
        ("- $gpu", "- hpl hpcc", "two names, 'hpl' and 'hpcc'"),
        ("- $gpu", "- hpl&", "not understood from '&' on"),
        ("include:", "include:\n  - $HOME/x", "depends on the machine that solves it"),
        ("include:", "include:\n  - {path: x, when: 'True'}", "only path and optional"),
        ("include:", "include:\n  - nowhere", "include: nowhere does not exist"),
        ("include:", "include:\n  - 1", "include: '1' is not a path"),
        ("specs:", "definitions: [{a: b}]\n  specs:", "definitions:a: must be a list"),
        ("include:", "include:\n  - ../..", "outside of the repository"),
        ("include:", "include:\n  - spack.yaml", "includes itself"),
        ("include:", "include::", "include:: hides what other files say"),
        ("specs:", "definitions: [{a: [$a], when: 'True'}]\n  specs:", "`when` makes the lock"),
        ("specs:", "definitions: [{gpu: [$gpu]}]\n  specs:", "$gpu is defined by itself"),
        ("specs:", "packages: {hpl: {require: 1}}\n  specs:", "packages/hpl/require: "),
    ],
)
def test_a_manifest_that_is_not_understood(copy: Copy, old: str, new: str, said: str) -> None:
    copy.edit("spack.yaml", old, new)
    code, lines = copy.run("check", "--site", REFERENCE)
    assert code == 1
    assert len(lines) == 1
    assert said in lines[0]
    assert ".yaml: " in lines[0]


def test_an_optional_include_may_be_missing(copy: Copy) -> None:
    copy.edit("spack.yaml", "include:", "include:\n  - {path: nowhere, optional: true}")
    copy.relock(copy.lock())
    assert copy.run("check", "--site", REFERENCE) == (0, [])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"lockfile-version": 6', '"lockfile-version": 7', "_meta/lockfile-version: "),
        ('"version": "1.1.0"', '"version": "1.2.0"', "spack/version: "),
        ('"roots":', '"roots": [], "root":', "roots: "),
        ('"roots":', '"roots": [], "roots":', "key 'roots' stands twice"),
        ('"roots":', '"number": NaN, "roots":', "NaN is no JSON"),
    ],
)
def test_a_lock_that_is_not_understood(copy: Copy, old: str, new: str, said: str) -> None:
    path = copy.path("spack.lock")
    text = json.dumps(copy.lock())
    assert old in text
    path.write_text(text.replace(old, new, 1))
    (fault,) = copy.faults()
    assert fault.startswith("spack.lock: ")
    assert said in fault


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["", "a\nb", "\ud800", "mpi", "ucx@1", "a" * 32, "@", "^", "$x"]),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def spoil(document: Any, data: st.DataObject) -> Any:
    """Replace, drop or rename one thing anywhere in a document."""
    junk = data.draw(JUNK)
    holder, key, value = None, None, document
    while isinstance(value, (dict, list)) and value and data.draw(st.integers(0, 5)):
        holder = value
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = data.draw(st.sampled_from(keys))
        value = value[key]
    how = data.draw(st.sampled_from(["replace", "drop", "rename"]))
    if holder is None:
        return junk
    if how == "replace":
        holder[key] = junk
    else:
        del holder[key]
        if how == "rename" and isinstance(holder, dict):
            holder[data.draw(st.text(max_size=5))] = value
    return document


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("spoilt"))


@pytest.mark.parametrize(
    "name",
    [
        "spack.lock",
        "spack.yaml",
        "spack.lock.seal.yaml",
        "spack-repo/pins.yaml",
        "site-config/common/spack/packages.yaml",
        "site-config/common/spack/definitions.yaml",
        f"site-config/{REFERENCE}/spack/packages.yaml",
    ],
)
@settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_whatever_a_file_holds_there_are_lines_and_no_traceback(
    spoilt: Copy, capsys: pytest.CaptureFixture[str], name: str, data: st.DataObject
) -> None:
    path = spoilt.root / name
    before = path.read_bytes()
    try:
        if data.draw(st.booleans()):
            document = json.loads(before) if name.endswith(".lock") else yaml.safe_load(before)
            # JSON is YAML, and escapes what UTF-8 cannot hold.
            path.write_text(json.dumps(spoil(document, data)))
        else:
            at = data.draw(st.integers(0, len(before) - 1))
            path.write_bytes(before[:at] + data.draw(st.binary(max_size=3)) + before[at + 1 :])
        capsys.readouterr()
        code = main(["lock", "check", "--root", str(spoilt.root)])
        out, err = capsys.readouterr()
        assert code in (0, 1)
        assert (code == 0) == (not err)
        assert all(line.startswith("assay lock: ") for line in err.split("\n")[:-1])
        assert code == 1 or len(out.splitlines()) == len(ENVIRONMENTS)
    finally:
        path.write_bytes(before)


# Sealing.


def test_sealing_what_is_sealed_changes_nothing(copy: Copy) -> None:
    path = copy.path("spack.lock.seal.yaml")
    before = path.read_bytes()
    assert copy.run("seal") == (0, [])
    assert path.read_bytes() == before


def test_a_seal_is_written_anew(copy: Copy) -> None:
    path = copy.path("spack.lock.seal.yaml")
    before = yaml.safe_load(path.read_text())
    path.unlink()
    assert "make lock SITE=" in copy.faults()[0]
    assert copy.run("seal", "--site", REFERENCE) == (0, [])
    after = yaml.safe_load(path.read_text())
    assert {**after, "date": before["date"]} == before
    assert copy.run("check") == (0, [])
    copy.edit("spack-repo/spack_repo/assay/packages/hpcc/package.py", "\n", "\n\n")
    assert copy.run("seal") == (0, [])
    assert copy.run("check") == (0, [])
    assert not [file for file in copy.root.iterdir() if file.name.startswith(".")]


def test_a_lock_with_faults_is_not_sealed(copy: Copy) -> None:
    document = copy.lock()
    node_of(document, "hpl")["version"] = "2.2"
    copy.path("spack.lock").write_text(json.dumps(document))
    before = copy.path("spack.lock.seal.yaml").read_bytes()
    code, lines = copy.run("seal", "--site", REFERENCE)
    assert code == 1
    assert lines[-1] == "assay lock: spack.lock.seal.yaml: not written: the lock has faults"
    assert copy.path("spack.lock.seal.yaml").read_bytes() == before


def test_a_full_disk_leaves_the_old_seal(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    copy.edit("spack-repo/spack_repo/assay/packages/hpcc/package.py", "\n", "\n\n")
    before = copy.path("spack.lock.seal.yaml").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    code, lines = copy.run("seal", "--site", REFERENCE)
    assert code == 1
    (line,) = lines
    assert line.startswith("assay lock: spack.lock.seal.yaml: No space left on device;")
    assert copy.path("spack.lock.seal.yaml").read_bytes() == before
    assert not [file for file in copy.root.iterdir() if file.name.startswith(".")]
