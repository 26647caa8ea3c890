"""A lock compared with its site: what the machine has, and what the site says about it."""

from __future__ import annotations

import shutil

import pytest
import yaml
from spack_copy import HOST, REFERENCE, Copy, node_of


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
