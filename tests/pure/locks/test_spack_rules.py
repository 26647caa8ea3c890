"""Rules that hold whatever the manifest says: the test forges the seal of the edited files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from spack_copy import (
    ENVIRONMENTS,
    HOST,
    REFERENCE,
    ROOT,
    Copy,
    Document,
    checker,
    node_of,
    ordinary,
    own_hash,
    rehash,
    without_edge,
)


@pytest.mark.parametrize("site", ENVIRONMENTS)
def test_the_lock_of_each_site_is_sound(site: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = checker.main(["--site", site, "--root", str(ROOT)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert out == f"{site}: {(ENVIRONMENTS[site] / 'spack.lock').as_posix()} is sound\n"


def test_all_sites_are_checked_when_none_is_named(copy: Copy) -> None:
    for site in ENVIRONMENTS:
        copy.forge(site)
    assert copy.run() == (0, [])
    for site in ENVIRONMENTS:
        copy.path("spack.lock", site).write_text("")
    code, lines = copy.run()
    assert code == 1
    assert len(lines) == len(ENVIRONMENTS)


# --- hashes ---------------------------------------------------------------------------------------


def test_fresh_hashes_are_those_of_spack() -> None:
    """The other tests rely on this: `rehash` changes nothing in a correct lock."""
    for folder in ENVIRONMENTS.values():
        document = json.loads((ROOT / folder / "spack.lock").read_text())
        before = json.dumps(document)
        rehash(document)
        assert json.dumps(document) == before


def test_both_ways_to_hash_externals() -> None:
    lock = checker.Checked(ROOT / "tests/data/locks/spack-1.2.0.dev0.lock", "lock")
    assert all(lock.hash_of(node) == key for key, node in lock.nodes.items())
    lock.spack = {**lock.spack, "version": "1.1.0"}
    for key, node in lock.nodes.items():
        assert (lock.hash_of(node) == key) == ("external" not in node)


def opposite(node: Document) -> None:
    name = next(name for name, value in node["parameters"].items() if isinstance(value, bool))
    node["parameters"][name] = not node["parameters"][name]


@pytest.mark.parametrize(
    "edit",
    [
        lambda node: node.update(version="0"),
        opposite,
        lambda node: node["dependencies"].pop(),
        lambda node: node.update(package_hash="a" * 52),
        lambda node: node.update(hash="a" * 32),
    ],
    ids=["version", "variant", "dependency", "recipe", "hash"],
)
def test_an_edited_node(copy: Copy, edit: Callable[[Document], object]) -> None:
    document = copy.lock()
    key, node = ordinary(document)
    edit(node)
    copy.relock(document, fresh=False)
    faults = copy.faults()
    assert any("it was edited after solving" in fault for fault in faults)
    # A removed edge may have been the only one to a package.
    about = [fault for fault in faults if "no root needs" not in fault]
    assert all(fault.startswith(f"spack.lock: concrete_specs:{key}: ") for fault in about)
    assert all(fault.endswith(f"; make lock SITE={REFERENCE}") for fault in faults)


def other_key(document: Document) -> str:
    key, _ = ordinary(document)
    document["concrete_specs"]["a" * 32] = document["concrete_specs"].pop(key)
    return f"concrete_specs:{'a' * 32}: hash: is {key} in"


def lost_node(document: Document) -> str:
    key, node = ordinary(document)
    del document["concrete_specs"][key]
    return f"dependencies: {node['name']}/{key[:7]} of"


def other_package(document: Document) -> str:
    _, node = ordinary(document)
    edge = next(each for each in node["dependencies"] if each["name"] != "glibc")
    edge["hash"] = node_of(document, "glibc")["hash"]
    return f"{edge['name']} of {node['name']} is glibc@"


def lost_root(document: Document) -> str:
    document["roots"][0]["hash"] = "b" * 32
    return f"roots: {document['roots'][0]['spec']!r}: bbb"


def spare_node(document: Document) -> str:
    node = {**node_of(document, "numactl"), "version": "1"}
    node["hash"] = own_hash(node)
    document["concrete_specs"][node["hash"]] = node
    return f"concrete_specs:{node['hash']}: no root needs numactl@1/"


@pytest.mark.parametrize("edit", [other_key, lost_node, other_package, lost_root, spare_node])
def test_a_graph_that_is_not_whole(copy: Copy, edit: Callable[[Document], str]) -> None:
    document = copy.lock()
    said = edit(document)
    copy.relock(document, fresh=False)
    assert any(said in fault for fault in copy.faults())


# --- Open MPI, UCX, GPUs --------------------------------------------------------------------------


def one_fault(copy: Copy, document: Document, site: str = REFERENCE) -> str:
    copy.relock(document, site)
    (fault,) = copy.faults(site)
    return fault


@pytest.mark.parametrize(
    ("package", "name", "require"),
    [("ucx", "gdrcopy", "+gdrcopy"), ("ucx", "cuda", "+cuda"), ("openmpi", "ucx", "fabrics=ucx")],
)
def test_a_dependency_that_is_missing(copy: Copy, package: str, name: str, require: str) -> None:
    document = copy.lock()
    node = node_of(document, package)
    without_edge(node, name)
    fault = one_fault(copy, document)
    assert f": {package}@{node['version']}/" in fault
    assert f"does not depend on {name}; require {require} in packages:{package}" in fault


@pytest.mark.parametrize(
    ("package", "change", "lacks", "site"),
    [
        *(("ucx", {variant: False}, f"+{variant}", REFERENCE) for variant in checker.UCX_ON_GPUS),
        ("openmpi", {"cuda": False}, "+cuda", REFERENCE),
        ("openmpi", {"fabrics": ["ofi"]}, "fabrics=ucx", REFERENCE),
        ("openmpi", {"fabrics": ["ofi"]}, "fabrics=ucx", HOST),
    ],
)
def test_a_variant_that_gpus_and_infiniband_need_is_missing(
    copy: Copy, package: str, change: Document, lacks: str, site: str
) -> None:
    document = copy.lock(site)
    node_of(document, package)["parameters"].update(change)
    fault = one_fault(copy, document, site)
    assert f"lacks {lacks}; require it in packages:{package}; make lock" in fault


def test_ucx_without_gpus_may_do_without_them_but_not_where_they_are_promised(copy: Copy) -> None:
    assert node_of(copy.lock(HOST), "ucx")["parameters"]["gdrcopy"] is False
    assert copy.run("--site", HOST) == (0, [])
    copy.forge(HOST, hardware={"target": [], "cuda_arch": ["70"]})
    (fault,) = copy.faults(HOST)
    assert ": ucx@1.13.1/" in fault
    assert "lacks +cuda +gdrcopy" in fault


# --- the site and its views -----------------------------------------------------------------------


def test_two_ucx_in_one_view(copy: Copy) -> None:
    views = copy.seal()["views"]
    both = [key for key, node in copy.lock()["concrete_specs"].items() if node["name"] == "ucx"]
    assert len(both) == 2
    copy.forge(views={**views, "default": sorted({*views["default"], *both})})
    (fault,) = copy.faults()
    assert fault.startswith("spack.lock.seal.yaml: views:default: holds 2 ucx; exclude one there;")


def test_a_view_of_another_lock(copy: Copy) -> None:
    copy.forge(views={"default": ["a" * 32]})
    (fault,) = copy.faults()
    assert "views:default: holds packages that are not in spack.lock;" in fault


def test_an_external_that_the_site_does_not_list(copy: Copy) -> None:
    externals = copy.seal()["externals"]
    copy.forge(externals={**externals, "cuda": ["/opt/cuda"], "pmix": []})
    pmix, cuda = sorted(copy.faults(), key=lambda fault: "cuda@" in fault)
    assert ": pmix@5.0.1/" in pmix
    assert "/usr/local/cuda-12.4 is in no packages:cuda:externals of the site" in cuda


def test_another_generation_of_processors_or_gpus(copy: Copy) -> None:
    copy.forge(hardware={"target": ["x86_64"], "cuda_arch": ["35"]})
    faults = copy.faults()
    built = [n for n in copy.lock()["concrete_specs"].values() if "external" not in n]
    assert len([f for f in faults if "is for x86_64_v3, packages:all:target has" in f]) == len(
        built
    )
    gpus = [fault for fault in faults if " has cuda_arch 70, packages:all:prefer has 35" in fault]
    assert any(": nccl@" in fault for fault in gpus)
    assert len(faults) == len(built) + len(gpus)


@pytest.mark.parametrize("key", ["version", "commit"])
def test_another_spack(copy: Copy, key: str) -> None:
    path = copy.root / "spack-repo/pins.yaml"
    pins = yaml.safe_load(path.read_text())
    pins["spack"][key] = "0" * 40
    path.write_text(yaml.safe_dump(pins))
    copy.forge()
    (fault,) = copy.faults()
    assert fault.startswith(f"spack.lock: spack:{key}: is ")


# --- settings that Spack accepts ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"include:": ["x"]}, "include:: hides what other files say; use one colon"),
        ({"packages": {"hpl": {"require:": "@1"}}}, "require:: hides what other files say"),
        ({"include": ["$HOME/x"]}, "include: '$HOME/x' depends on the machine that solves it"),
        ({"include": ["https://x"]}, "include: 'https://x' depends on the machine"),
        ({"include": [{"path": "x", "when": "True"}]}, "include: x has a condition; write a path"),
        ({"definitions": [{"a": ["hpl"], "when": "True"}]}, "`when` depends on the machine"),
        ({"packages": {"all": {"require": ["@1:"]}}}, "any package's own require replaces it"),
    ],
)
@pytest.mark.parametrize("where", ["spack.yaml", "site-config/common/spack/other.yaml"])
def test_a_setting_that_hides_or_depends(
    copy: Copy, where: str, change: dict[str, Any], said: str
) -> None:
    path = copy.root / where
    if where == "spack.yaml":
        spack = yaml.safe_load(path.read_text())["spack"]
        include = spack["include"] + change.get("include", [])
        change = {"spack": {**spack, **change, "include": include}}
    path.write_text(yaml.safe_dump(change))
    copy.forge()
    (fault,) = copy.faults()
    assert fault.startswith(f"{where}: ")
    assert said in fault
