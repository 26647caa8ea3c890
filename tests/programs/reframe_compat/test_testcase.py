"""What the tests of the suite declare to prove of a node."""

import re

from reframe.core.runtime import temp_runtime
from shell import ROOT

from assay.reframe_compat import testcase
from assay.show import nodes


def test_the_suite_proves_all_that_a_node_needs_and_nothing_else():
    with temp_runtime("<builtin>", "generic"):
        said = {
            test.__name__: (dict(test.proves), [*test.declares])
            for path in sorted((ROOT / "reframe").glob("*/*.py"))
            for test, _ in testcase.declared(path)
        }
    needed = {word for words in nodes.PARTS.values() for word in words}
    assert {word for proves, _ in said.values() for word in proves} == needed
    # Some tests declare their metrics only when they have their parameters.
    wrong = [
        (name, pattern)
        for name, (proves, metrics) in said.items()
        for pattern in proves.values()
        if metrics and not any(re.fullmatch(pattern, metric) for metric in metrics)
    ]
    assert wrong == []
