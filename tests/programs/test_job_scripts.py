"""Compares the job scripts of a site with GPUs with the approved scripts.

`python tests/programs/job_scripts.py` writes the approved scripts again; read the difference.
"""

import job_scripts
import pytest

from assay.gpu import gpu_paths


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return job_scripts.scripts(tmp_path_factory.mktemp("jobs"))


def test_every_job_script_is_the_approved_one(made):
    approved = {path.stem: path.read_text() for path in job_scripts.EXPECTED.glob("*.sh")}
    assert made == approved


def test_every_configuration_has_a_script_at_each_of_its_places(made):
    partition = {gpu_paths.INTRA: "gpu", gpu_paths.INTER: "gpu-infiniband"}
    wanted = {
        f"OsuGpu-latency-DD-{name}-{partition[place]}"
        for name, configuration in gpu_paths.CONFIGURATIONS.items()
        for place in configuration.places
    }
    assert wanted <= set(made)
