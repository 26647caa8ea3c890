"""What runs on compute nodes, under whatever Python is there."""

import ast
from pathlib import Path

import pytest

import assay
from assay import provenance

SOURCE = Path(assay.__file__).parent
SCRIPTS = [SOURCE / "provenance.py", *sorted((SOURCE / "nodes").glob("*.py"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_of_the_nodes_are_readable_by_python_3_6(script):
    ast.parse(script.read_text(), feature_version=(3, 6))


@pytest.fixture
def tree(tmp_path):
    """Control groups as the kernel shows them: version -> what /proc/PID/cgroup says of them."""
    for folder, name, limit in [
        ("memory", "memory.limit_in_bytes", "9223372036854771712"),
        ("memory/slurm/job_7", "memory.limit_in_bytes", "4096"),
        ("memory/slurm", "memory.limit_in_bytes", "8192"),
        ("slurm/job_7/step", "memory.max", "max"),
        ("slurm/job_7", "memory.max", "2048"),
    ]:
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"{limit}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ("4:memory:/slurm/job_7\n1:cpu:/slurm\n", [4096, 8192, 9223372036854771712]),
        ("0::/slurm/job_7/step\n", [2048]),
        ("0::/\n", []),
        ("1:cpu:/slurm/job_7\n", []),
        ("", []),
    ],
    ids=["version 1", "version 2", "root", "another controller", "no groups"],
)
def test_the_limits_of_all_groups_above_a_process_are_read(tree, groups, limits):
    assert list(provenance.memory_limits(groups, str(tree))) == limits
