"""Edits after solving, which Spack does not notice: each is red, and the line names it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest
import yaml
from spack_copy import HOST, REFERENCE, Copy, Document, node_of, rehash

COMMON = "site-config/common/spack"
CUDA = "site-config/common/spack-cuda/packages.yaml"
SITE = f"site-config/{REFERENCE}/spack"
OURS = "spack-repo/spack_repo/assay"
UCX = '    - "@1.18.1 +cuda+gdrcopy+verbs+rc+ud+dc+mlx5_dv+rdmacm+cma+thread_multiple+dm"\n'
TARGET = "    target: [x86_64_v3]\n"

#: What is edited -> file, old text, new text, and what the line must say.
FILES = {
    "unify": (f"{COMMON}/concretizer.yaml", "unify: when_possible", "unify: true",
              "concretizer:unify changed since spack.lock was solved"),
    "reuse": (f"{COMMON}/concretizer.yaml", "reuse: false", "reuse: true",
              "concretizer:reuse changed"),
    "own repository removed": (f"{COMMON}/repos.yaml", f"  assay: ../../../{OURS}\n", "",
                               "repos changed"),
    "pin of packages moved": ("spack-repo/pins.yaml", "commit: d4f7c711", "commit: 00000000",
                              "packages:commit changed"),
    "pin of Spack moved": ("spack-repo/pins.yaml", "commit: 2e907202", "commit: 00000000",
                           "spack:commit changed"),
    "require of UCX dropped": (CUDA, UCX, "", "packages:ucx changed"),
    "require of UCX misfiled": (CUDA, "  ucx:\n", "  uxc:\n", "packages:ucx is gone"),
    "require of a program": (f"{COMMON}/packages.yaml", '"@2.3"', '"@2.2"', "packages:hpl changed"),
    "own recipe of UCX": (f"{OURS}/packages/ucx/package.py", "default=False", "default=True",
                          "changed since"),
    "view exclude dropped": ("spack.yaml", ", ucx+stats]", "]", "spack:view changed"),
    "spec dropped": ("spack.yaml", "  - gdrcopy\n", "", "spack:specs changed"),
    "spec of a definition": (f"{COMMON}/definitions.yaml", "  - npb-btio\n", "",
                             "definitions changed"),
    "include dropped": ("spack.yaml", "  - site-config/common/spack-cuda\n", "",
                        "spack:include changed"),
    "conflict": (CUDA, "  gdrcopy:\n", "  gdrcopy:\n    conflict: ['+x']\n",
                 "packages:gdrcopy changed"),
    "variants": (CUDA, "  gdrcopy:\n", "  hwloc:\n    variants: [+cuda]\n  gdrcopy:\n",
                 "packages:hwloc is new"),
    "version": (CUDA, "  gdrcopy:\n", "  numactl:\n    version: ['2.0.14']\n  gdrcopy:\n",
                "packages:numactl is new"),
    "providers": (f"{SITE}/packages.yaml", TARGET, f"{TARGET}    providers: {{mpi: [mpich]}}\n",
                  "packages:all changed"),
    "target": (f"{SITE}/packages.yaml", TARGET, "    target: [x86_64]\n", "packages:all changed"),
    "cuda_arch": (f"{SITE}/packages.yaml", "cuda_arch=70", "cuda_arch=35", "packages:all changed"),
    "prefix of CUDA": (f"{SITE}/packages.yaml", "/usr/local/cuda-12.4", "/opt/cuda",
                       "packages:cuda changed"),
    "version of CUDA": (f"{SITE}/packages.yaml", "cuda@12.4.1", "cuda@12.6.2",
                        "packages:cuda changed"),
    "compiler": (f"{SITE}/packages.yaml", "c: /usr/bin/gcc,", "c: /usr/bin/gcc-13,",
                 "packages:gcc changed"),
    "what is built": (f"{SITE}/packages.yaml", "buildable: false", "buildable: true",
                      "packages:slurm changed"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "said"), FILES.values(), ids=FILES)
def test_a_file_edited_after_solving(copy: Copy, name: str, old: str, new: str, said: str) -> None:
    copy.edit(name, old, new)
    lines = [fault for fault in copy.faults() if fault.startswith(f"{name}: {said}")]
    assert len(lines) == 1
    assert lines[0].endswith(f" since spack.lock was solved; make lock SITE={REFERENCE}")


def test_files_that_came_or_went_after_solving(copy: Copy) -> None:
    packages = copy.root / OURS / "packages"
    (packages / "npb_btio/fix.patch").touch()
    shutil.rmtree(packages / "hpcc")
    (packages / "hpl/__pycache__").mkdir()
    (packages / "hpl/__pycache__/package.pyc").touch()
    mirror = {"mirrors": {"other": {"url": "file:///tmp", "binary": True, "signed": False}}}
    (copy.root / SITE / "mirrors.yaml").write_text(yaml.safe_dump(mirror))
    again = f"since spack.lock was solved; make lock SITE={REFERENCE}"
    assert sorted(copy.faults()) == [
        f"{SITE}/mirrors.yaml is new {again}",
        f"{OURS}/packages/hpcc/package.py is gone {again}",
        f"{OURS}/packages/npb_btio/fix.patch is new {again}",
    ]


def test_a_comment_needs_no_new_solution(copy: Copy) -> None:
    for path in copy.root.rglob("*.yaml"):
        path.write_text(f"# more\n\n{path.read_text()}\n# and more\n")
    assert copy.run("check") == (0, [])


def moved(document: Document) -> str:
    for node in document["concrete_specs"].values():
        node["arch"]["platform_os"] = "debian13"
    return "ucx"


def downgraded(document: Document) -> str:
    node_of(document, "nccl")["version"] = "2.18.1-1"
    return "nccl"


def without_mpi(document: Document) -> str:
    node = node_of(document, "osu-micro-benchmarks")
    node["dependencies"] = [each for each in node["dependencies"] if each["name"] != "openmpi"]
    return "osu-micro-benchmarks"


def unoptimised(document: Document) -> str:
    node_of(document, "ucx")["parameters"]["optimizations"] = False
    return "ucx"


def foreign_recipe(document: Document) -> str:
    node = node_of(document, "openmpi")
    node["package_hash"] = node["package_hash"].translate(str.maketrans("abc", "bca"))
    return "openmpi"


def other_version(document: Document) -> str:
    node_of(document, "hpl")["version"] = "2.2"
    return "hpl"


def other_variant(document: Document) -> str:
    node_of(document, "nccl-tests")["parameters"]["mpi"] = False
    return "nccl-tests"


@pytest.mark.parametrize(
    "edit",
    [moved, downgraded, without_mpi, unoptimised, foreign_recipe, other_version, other_variant],
)
def test_a_lock_edited_and_hashed_again(copy: Copy, edit: Callable[[Document], str]) -> None:
    document = copy.lock()
    name = edit(document)
    rehash(document)
    copy.path("spack.lock").write_text(json.dumps(document))
    said = f"spack.lock: concrete_specs:{name} changed since spack.lock was solved; make lock SITE="
    assert [fault for fault in copy.faults() if fault.startswith(said)]
    if edit is not moved:
        assert len([fault for fault in copy.faults() if " changed since " in fault]) == 1


def test_roots_of_a_lock_edited(copy: Copy) -> None:
    document = copy.lock()
    document["roots"].append({"spec": "openmpi+cuda", "hash": node_of(document, "openmpi")["hash"]})
    copy.path("spack.lock").write_text(json.dumps(document))
    (fault,) = copy.faults()
    assert fault.startswith("spack.lock: roots changed since")


def test_a_change_of_the_lock_without_meaning_is_a_change(copy: Copy) -> None:
    path = copy.path("spack.lock")
    path.write_text(path.read_text() + "\n")
    assert copy.faults() == [
        f"spack.lock: is not the file that Spack wrote; make lock SITE={REFERENCE}"
    ]


def test_lock_and_seal_of_another_site(copy: Copy) -> None:
    for name in ("spack.lock", "spack.lock.seal.yaml"):
        shutil.copy(copy.path(name, HOST), copy.path(name))
    said = f"spack.lock.seal.yaml: site: is {HOST!r}, this is {REFERENCE!r}"
    assert any(fault.startswith(said) for fault in copy.faults())


def test_a_lock_cannot_be_sealed_without_solving(copy: Copy) -> None:
    with pytest.raises(SystemExit) as stop:
        copy.run("seal")
    assert stop.value.code == 2
