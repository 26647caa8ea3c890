"""Manifest and lock compared with each other. Hashes and seal are as they should be."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from spack_copy import REFERENCE, Copy, node_of, rehash


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
