"""Site debian12-cuda: on which emulated GPU its stack runs."""

import runpy

import pytest
from shell import ROOT

pytest.importorskip("reframe")

from assay import files

SITE = ROOT / "site-config/debian12-cuda/reframe.py"


@pytest.mark.parametrize("at", ["build/vgpu", "spack/vgpu", None])
def test_the_emulated_gpu_of_the_stack_stands_in_for_one_of_its_own(monkeypatch, tmp_path, at):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.setenv("ASSAY_SPACK_HOME", str(tmp_path / "spack"))
    monkeypatch.setattr(files, "repository", lambda _: tmp_path)
    if at:
        (tmp_path / at / "sources").mkdir(parents=True)
    (stack,) = runpy.run_path(str(SITE))["site_configuration"]["environments"]
    assert dict(stack["env_vars"])["LD_LIBRARY_PATH"] == f"{tmp_path / (at or 'build/vgpu')}/lib"
    missing = 'echo "no emulated GPU: type lab/vgpu/build.sh" >&2'
    assert (missing in stack["prepare_cmds"]) is (at is None)
