from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is.
settings.register_profile("assay", deadline=None)
settings.load_profile("assay")

HERE = Path(__file__).parent
TIERS = ("pure", "programs", "clusters")


@pytest.hookimpl(tryfirst=True)  # before -m chooses by it
def pytest_collection_modifyitems(items):
    """Each test has its tier as a marker: the folder that it is in."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(item.path.relative_to(HERE).parts[0])


@pytest.fixture
def bench(tmp_path):
    from bench import Bench

    return Bench(tmp_path)
