"""A copy of the process that has imported ReFrame runs as a start of ReFrame does."""

import os

import forked
import pytest
import shell
from bench import REFRAME

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("words", [("--version",), ("--nothing",)])
def test_a_copy_says_and_ends_as_a_start_does(words, tmp_path):
    variables = {**os.environ, "HOME": str(tmp_path)}
    copy = forked.reframe(REFRAME, *words, cwd=tmp_path, environment=variables)
    start = shell.run(REFRAME, *words, cwd=tmp_path, **variables)
    assert (copy.returncode, copy.stdout) == (start.returncode, start.stdout)
    assert copy.stdout


def test_each_copy_has_its_own_folder_and_environment(tmp_path):
    for mark in ("one", "two"):
        (folder := tmp_path / mark).mkdir()
        said = "import os\nprint('mark', os.environ['MARK'])\nsite_configuration = {}\n"
        (folder / "config.py").write_text(said)
        variables = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(folder), "MARK": mark}
        words = (REFRAME, "-C", "config.py", "-l")
        done = forked.reframe(*words, cwd=folder, environment=variables)
        assert done.returncode == 0
        assert f"mark {mark}\n" in done.stdout
        assert f"working directory: '{folder}'" in done.stdout
        assert f"{folder}/rfm-" in done.stdout
