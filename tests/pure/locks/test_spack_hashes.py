"""The real Spack locks are correct. An edit that does not update the hashes is detected."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from spack_copy import ENVIRONMENTS, REFERENCE, ROOT, Copy, Document, node_of, ordinary, rehash

from assay.cli import main
from assay.locks.lockfile import Lock


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
    """The other tests rely on this: `rehash` changes nothing in a correct lock."""
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
    # A removed edge may have been the only one to a package.
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
    """A change without meaning is still a change, because the seal covers the bytes."""
    path = copy.path("spack.lock")
    path.write_text(path.read_text() + "\n")
    assert copy.faults() == [
        "spack.lock.seal.yaml: lock: spack.lock is not the one that was sealed; "
        f"make lock SITE={REFERENCE}"
    ]
