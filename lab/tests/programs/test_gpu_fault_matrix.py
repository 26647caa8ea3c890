"""Every fault between GPUs is caught and named, healthy runs pass, and the page shows all of it."""

import gpu_fault_matrix
import pytest
from bench import live_program

# Each row is a run on the emulated GPUs; test_vgpu_site.py has the shortest ones.
pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    live_program("gcc")
    if not gpu_fault_matrix.installed():
        pytest.skip("needs UCX for the emulated GPU: make vgpu")
    return gpu_fault_matrix.measure(tmp_path_factory.mktemp("matrix"))


def test_every_fault_is_caught_by_every_test_that_it_is_run_with(rows):
    for row in rows:
        for test, reason in row.reasons.items():
            assert bool(reason) is not row.fault.sound, f"{row.fault.name}: {test}: {reason}"


def test_the_message_names_the_fault(rows):
    for row in rows:
        assert row.fault.names in gpu_fault_matrix.cause(row), row.fault.name


def test_the_page_says_what_was_seen(rows):
    page, told = gpu_fault_matrix.DOCUMENT.read_text(), "run lab/tests/programs/gpu_fault_matrix.py"
    assert page == gpu_fault_matrix.replaced(page, gpu_fault_matrix.sums(rows)), told
    assert gpu_fault_matrix.TABLE.read_text() == gpu_fault_matrix.table(rows), told
