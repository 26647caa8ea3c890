import subprocess

import pytest
from bench import ROOT, live_program


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A folder with the emulated GPU, compiled from this checkout."""
    live_program("gcc")
    folder = tmp_path_factory.mktemp("vgpu")
    subprocess.run([str(ROOT / "lab/vgpu/build.sh"), str(folder)], check=True)
    return folder
