"""Which release of NVIDIA's HPL runs on which GPU."""

import pytest
from bench import ROOT

from assay import files
from assay.gpu.hpl_releases import _KNOWN, does_not_run, releases_of
from assay.workloads.osu import numbers


@pytest.mark.parametrize(
    ("gpu", "release", "said"),
    [
        ("v100-sxm2-32gb", "21.4", ""),
        ("v100-sxm2-32gb", "23.5", "release 23.5 of NVIDIA's HPL does not run on v100-sxm2-32gb"),
        ("v100-sxm2-32gb", "25.09", "take 21.4"),
        ("a100-sxm4-40gb", "21.4", ""),
        ("a100-sxm4-40gb", "25.09", ""),
        ("h100-sxm5-80gb", "21.4", "take those from 23.5 on"),
        ("h100-sxm5-80gb", "24.03", ""),
        ("b200-sxm-180gb", "24.09", "take those from 25.02 on"),
        ("gb200", "25.02", ""),
        # What nobody knows is tried.
        ("h100-sxm5-80gb", "", ""),
        ("b300-sxm-288gb", "21.4", ""),
        ("l40s", "23.5", ""),
    ],
)
def test_a_release_that_cannot_run_is_refused_with_those_that_can(gpu, release, said):
    found = does_not_run(gpu, release)
    assert bool(found) == bool(said)
    assert said in found


def test_each_row_is_of_gpus_that_the_suite_knows_and_has_a_source():
    known = files.read_yaml(ROOT / "site-config/hardware/gpu.yaml", ValueError)
    for name, its in _KNOWN.items():
        assert any(releases_of(gpu) is its for gpu in known), name
        assert its.source
        assert not its.last or numbers(its.first) <= numbers(its.last)
