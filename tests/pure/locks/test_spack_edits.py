"""Edits after solving, which Spack does not notice: each is red, and the line names it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest
import yaml
from spack_copy import HOST, REFERENCE, Copy, Document, digest, node_of, rehash, without_edge

MAKE = digest.MAKE
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
    "reuse": (f"{MAKE}/concretizer.yaml", "reuse: false", "reuse: true",
              "concretizer:reuse changed"),
    "checksum": (f"{MAKE}/config.yaml", "checksum: true", "checksum: false",
                 "config:checksum changed"),
    "own repository removed": (f"{MAKE}/repos.yaml", f"  assay: ../../../{OURS}\n", "",
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
    assert copy.run() == (0, [])


#: What is edited -> the package, and the edit of its node.
NODES: dict[str, tuple[str, Callable[[Document], object]]] = {
    "downgraded": ("nccl", lambda node: node.update(version="2.18.1-1")),
    "other version": ("hpl", lambda node: node.update(version="2.2")),
    "other variant": ("nccl-tests", lambda node: node["parameters"].update(mpi=False)),
    "unoptimised": ("ucx", lambda node: node["parameters"].update(optimizations=False)),
    "foreign recipe": ("openmpi", lambda node: node.update(package_hash="a" * 52)),
    "without MPI": ("osu-micro-benchmarks", lambda node: without_edge(node, "openmpi")),
}


@pytest.mark.parametrize(("name", "edit"), NODES.values(), ids=NODES)
def test_a_lock_edited_and_hashed_again(
    copy: Copy, name: str, edit: Callable[[Document], object]
) -> None:
    document = copy.lock()
    edit(node_of(document, name))
    rehash(document)
    copy.path("spack.lock").write_text(json.dumps(document))
    (fault,) = (fault for fault in copy.faults() if " changed since " in fault)
    said = f"spack.lock: concrete_specs:{name} changed since spack.lock was solved; make lock SITE="
    assert fault.startswith(said)


def test_a_lock_moved_to_another_system_and_hashed_again(copy: Copy) -> None:
    document = copy.lock()
    for node in document["concrete_specs"].values():
        node["arch"]["platform_os"] = "debian13"
    rehash(document)
    copy.path("spack.lock").write_text(json.dumps(document))
    said = "spack.lock: concrete_specs:ucx changed since spack.lock was solved; make lock SITE="
    assert [fault for fault in copy.faults() if fault.startswith(said)]


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
