"""Every fault of the baseline is caught, healthy runs pass, and page and table show the results."""

import fault_matrix
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return fault_matrix.measure(tmp_path_factory.mktemp("matrix"))


def test_every_fault_is_caught_by_every_test_and_no_healthy_run(rows):
    for row in (row for part in rows for row in part):
        healthy = row.fault.number.startswith("0")
        for test, reason in row.reasons.items():
            assert bool(reason) is not healthy, f"{row.fault.number} {row.fault.what}: {test}"


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        ("1", "exit code 139"),
        ("2", "exit code 1"),
        ("3a", "tcp/lo"),
        ("3b", "ob1"),
        ("4", "2 worlds came up instead of one of 2 ranks"),
        (
            "6a",
            "OSU 9.9 was not asked to validate what it received",
        ),
        ("7a", "nan"),
        ("12b", "Fail"),
    ],
)
def test_the_message_names_the_cause(rows, number, cause):
    row = next(row for row in rows[0] if row.fault.number == number)
    for test, reason in row.reasons.items():
        assert cause in reason, test


def test_the_page_says_what_was_seen(rows):
    page, told = fault_matrix.DOCUMENT.read_text(), "run python tests/programs/fault_matrix.py"
    assert page == fault_matrix.replaced(page, fault_matrix.document(*rows)), told
    assert fault_matrix.TABLE.read_text() == fault_matrix.tables(*rows), told
