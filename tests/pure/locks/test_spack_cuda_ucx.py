"""Rules that hold whatever the manifest says: Open MPI over UCX, and both with GPUs.

The real manifest also asks for this, so the test removes it from the manifest.
"""

from __future__ import annotations

import pytest
import yaml
from spack_copy import HOST, Copy, Document, node_of, rehash


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
