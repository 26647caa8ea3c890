"""Every test file of the suite loads.

ReFrame skips a file that does not import, with a warning and exit code 0.
"""

import importlib.util
import sys
from pathlib import Path

import reframe as rfm

from assay.checks.strict import StrictCheck
from assay.outputs import Parsed

SUITE = Path(__file__).resolve().parents[1]


@rfm.simple_test
class SuiteLoads(StrictCheck):
    """Imports every file below `reframe/`; each must declare a test."""

    kind = "node"
    descr = "all test files load"
    time_limit = "1m"
    tags = {"smoke", "node"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["*"]
    executable = "true"

    def read(self):
        rows, problems = [], []
        for path in sorted(SUITE.rglob("*.py")):
            name = str(path.relative_to(SUITE))
            try:
                has_tests = declares_tests(path)
            except Exception as error:
                problems.append(f"{name} does not import: {type(error).__name__}: {error}")
                continue
            if not has_tests:
                problems.append(f"{name} has no test")
            rows.append({"file": name})
        return Parsed("assay", "suite", None, True, tuple(rows), {}, tuple(problems))


def declares_tests(path):
    """Whether a file declares a test to ReFrame. Raises whatever the file raises."""
    spec = importlib.util.spec_from_file_location(f"suite_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # ReFrame asks where the class was defined
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[module.__name__]
    return hasattr(module, "_rfm_test_registry")
