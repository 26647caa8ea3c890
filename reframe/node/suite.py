"""Every test file of the suite loads, every test in it is strict, every reference has its test.

Tests:     SuiteLoads
Runs:      no program: it reads files
Where:     +intra-node
Stacks:    any
Proves:    exit code 0 and a complete output
Judged by: its evidence alone
Takes:     under 1 s a case (full, 2 cores); at most 1 min for a launch; in the smoke profile: 1
           of 1 cases

ReFrame skips a file that does not import, and a test that cannot be made, with a warning and exit
code 0. A reference that no test can look up judges nothing. A metric without a reference fails
only after its test has run for hours. This check runs no other test, so that a dry run reports
these faults too.
"""

import re
from pathlib import Path

import reframe as rfm
from reframe.core import runtime
from reframe.core.builtins import run_after
from reframe.core.exceptions import SanityError

from assay import files, metrics
from assay.parse import Parsed
from assay.reframe_compat import testcase
from assay.run import StrictCheck, options
from assay.run.site import site_directory, site_file, site_references
from assay.sites import names_on, vocabulary

SUITE = Path(__file__).resolve().parents[1]


@rfm.simple_test
class SuiteLoads(StrictCheck):
    """Imports every file below `reframe/`; each must declare a test, all of them strict."""

    kind = "node"
    descr = "all test files load"
    time_limit = "1m"
    tags = {"smoke", "node"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["*"]
    executable = "true"

    @run_after("setup")
    def look(self):
        rows, problems, made = [], [], []
        for path in sorted(SUITE.rglob("*.py")):
            name = str(path.relative_to(SUITE))
            try:
                tests = testcase.declared(path)
            except Exception as error:
                problems.append(f"{name} does not import: {type(error).__name__}: {error}")
                continue
            if not tests:
                problems.append(f"{name} has no test")
            for test, variants in tests:
                try:
                    made += make(test, variants)
                except Exception as error:
                    problems.append(f"{name}: {test.__name__} {error}")
            rows.append({"file": name})
        references = site_references()
        # A reference is not idle only because the stack lacks a program or is left out today.
        problems += references.idle(cases(made, of_any_stack=True), beside())
        problems += references.unanswered(cases(made))
        problems += references.unknown(names_on.get(site_file(), {}))
        tests, studied = {type(test) for test in made}, beside()
        for partition in runtime.runtime().system.partitions:
            of_suite = [
                key
                for key in partition.extras.get("options", ())
                if key.partition(".")[0] not in studied
            ]
            said = options.unknown(tests, of_suite)
            problems += [f"partition {partition.name!r}: {problem}" for problem in said]
        self.found = Parsed("assay", "suite", None, True, tuple(rows), {}, tuple(problems))
        if problems and self.is_dry_run():
            raise SanityError("; ".join(problems))

    def read(self):
        return self.found


def beside():
    """The names of the classes of the studies, which are beside the suite and are not loaded."""
    texts = [path.read_text() for path in (SUITE.parent / "studies").glob("*/*.py")]
    return [name for text in texts for name in re.findall(r"^class (\w+)", text, re.M)]


def cases(tests, of_any_stack=False):
    """For each case that would be made: the keys of its references, and its metrics with units."""
    return [
        (
            {
                "system": runtime.runtime().system.name,
                "partition": partition.name,
                "environ": environ.name,
                "profile": test.profile,
                **test.identity(),
            },
            test.declares,
        )
        for test in tests
        for partition, environs in runtime.valid_sysenv_comb(
            test.valid_systems, test.valid_prog_environs, check_environs=not of_any_stack
        ).items()
        for environ in environs
    ]


def make(test, variants):
    """The test in all variants. Raises if ReFrame would skip it, or if it could prove nothing."""
    if not issubclass(test, StrictCheck):
        raise TypeError("does not derive from StrictCheck: it could pass without evidence")
    taken = {"system", "partition", "environ", "test"} & set(testcase.parameters(test))
    if taken:
        raise ValueError(f"has a parameter {taken.pop()!r}, by which references are looked up")
    try:
        made = [test(*args, **{**kwargs, "reset_sysenv": 0}) for args, kwargs in variants]
    except Exception as error:
        raise ValueError(f"cannot be made: {type(error).__name__}: {error}") from error
    for problem in (problem for each in made for problem in metrics.unknown(each.declares)):
        raise ValueError(problem)
    for problem in (problem for each in made for problem in unknown_words(each)):
        raise ValueError(problem)
    return made


def unknown_words(test):
    """The words by which a test selects and which no site may use: the test would never run."""
    words = vocabulary(files.of_all_sites(site_directory(), "vocabulary.yaml"))
    for name, owner in (("valid_systems", "partition"), ("valid_prog_environs", "environment")):
        known = words[owner]
        for word in " ".join(getattr(test, name)).split():
            kind = {"+": "features", "-": "features", "%": "extras"}.get(word[0])
            if kind and word[1:].partition("=")[0] not in known[kind]:
                yield f"{name}: {word} is not a word of any site: it selects nothing"
