"""Fixtures, options and checks of all tests: those in tests/ and in lab/tests/."""

import gc
import os
import sys
from pathlib import Path

import pytest
import remaining
import skips
import together
from hypothesis import HealthCheck, settings
from short import Short

TESTS = Path(__file__).parent / "tests"

# What somebody compiled in this checkout would change what the site `local` runs.
os.environ["ASSAY_PROGRAMS"] = str(TESTS / "no-programs")

# The time that an example takes, or its making, depends on the load of the machine. So no example
# has a deadline, and no test is red because examples come slowly.
ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("assay", **ANY_SPEED)
settings.register_profile("short", **ANY_SPEED, max_examples=12)


def pytest_addoption(parser):
    ours = parser.getgroup("assay")
    ours.addoption("--short", action="store_true", help="without clusters and long tests")
    ours.addoption(
        "--complete",
        action="store_true",
        help="all is installed: a skip that a command would mend is red",
    )


def pytest_configure(config):
    settings.load_profile("short" if config.option.short else "assay")
    allowed = skips.load(TESTS / "skips.yaml")
    config.pluginmanager.register(skips.Skips(allowed, config.option.complete))
    remaining.begin(config)
    if config.option.short:
        config.pluginmanager.register(Short())


@pytest.hookimpl(tryfirst=True)  # before --short and -m select tests by the marker
def pytest_collection_modifyitems(items):
    """Marks each test with its tier, which is the name of its folder.

    The short ones come last: while the last long one ends, the other workers have something to do.
    """
    for item in items:
        if skips.tier(item.nodeid):
            item.add_marker(skips.tier(item.nodeid))
    items.sort(key=lambda item: skips.tier(item.nodeid) == "pure")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return together.Schedule(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    pure.running = skips.tier(item.nodeid) == "pure"
    try:
        return (yield)
    finally:
        pure.running = False


@pytest.fixture(autouse=True)
def same_environment():
    """A test that changes the environment of later tests is red, and says what it changed."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    names = {n for n in {*before, *after} if before.get(n) != after.get(n)}
    assert not names - {"PYTEST_CURRENT_TEST"}, f"the test changed {sorted(names)} for all others"


class pure:
    """Records whether a test of a folder `pure` runs. Such a test starts nothing but Python."""

    running = False


def only_python(event, given):
    """A hook for sys.addaudithook. It sees every program start, whichever function starts it."""
    if pure.running and event in ("subprocess.Popen", "os.system", "os.posix_spawn"):
        program = str(given[0])
        if not Path(program).name.startswith("python"):
            raise RuntimeError(
                f"a test in a folder pure starts nothing but Python, and not {program}"
            )


sys.addaudithook(only_python)


@pytest.fixture(scope="session")
def short(pytestconfig):
    """Whether this is the short run."""
    return pytestconfig.option.short


@pytest.fixture
def bench(tmp_path):
    from bench import Bench

    return Bench(tmp_path)


def pytest_collection_finish():
    """What thousands of tests are made of stays to the end: nothing need look at it again."""
    gc.freeze()
