import pytest
from bench import Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)
