"""The image on the nodes of a Slurm cluster, started by the host, with one container for each rank.

Needs the emulated cluster, Apptainer and the image (make image); skips without.
"""

import os

import images
import pytest
from bench import ROOT
from emulated import UNJUDGED, reason_to_skip, up
from images import IMAGE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.image,
    pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip())),
    pytest.mark.skipif(not IMAGE.exists(), reason="no build/assay.sif: make image"),
]


@pytest.fixture(scope="module")
def cluster():
    folder = images.apptainer().parent
    with up() as made:
        yield made, folder


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_ranks_in_containers_on_two_nodes_are_one_world(cluster, launcher):
    """Each case is red unless it shows a world of the right size on the right number of nodes.

    How fast they are is recorded only: the nodes share the cores of one host.

    HPCC runs within a node. When its ranks ran in separate user namespaces, it hung in the shared
    memory of Open MPI.
    """
    made, apptainer = cluster
    done, cases = made.suite(
        *("NetPipe.*=tcp|Hpcc", *UNJUDGED),
        results=made.state / "home" / "results",
        site=ROOT / "site-config/any",
        PATH=f"{apptainer}:{os.environ['PATH']}",
        ASSAY_IMAGE=IMAGE,
        ASSAY_DEVICE="eth0",
        ASSAY_NODES=2,
        ASSAY_ACCESS="--licenses=host:1",
        ASSAY_LAUNCHER=launcher,
    )
    assert "4 RECORDED after " in done.stdout, done.stdout[-3000:]
    assert {name for name, (result, _) in cases.items() if result == "pass"} == {
        ("NetPipe", "intra-node"),
        ("NetPipe", "ethernet"),
        ("Hpcc", "intra-node"),
        ("Hpcc", "ethernet"),
    }
