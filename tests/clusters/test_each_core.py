"""EachCore on the emulated cluster: the sweep of the cores names the node, no network needed."""

import contextlib
import subprocess

import pytest
from emulated import COMMAND, reason_to_skip, up

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip())),
]

#: A co-runner that copies memory, but only while its own node is measured: all nodes share the
#: memory of one host, and their turns follow each other (`width` 1).
CO_RUNNER = """
while :; do
  if grep -sqa "onnode/core[s].py" /proc/[0-9]*/cmdline; then
    timeout 1 python3 -c 'a = bytearray(1 << 26)
while True: b = bytes(a)'
  else
    sleep 0.05
  fi
done
"""


@pytest.fixture(scope="module")
def cluster():
    with up() as made:
        yield made


@pytest.fixture
def healthy(cluster):
    yield cluster
    cluster("clear")


def each_core(cluster):
    _, cases = cluster.suite("EachCore", results=cluster.state / "home" / "results")
    # Partitions of one node skip it.
    (case,) = [case for case in cases.values() if case[0] != "skip"]
    return case


@contextlib.contextmanager
def beside(cluster, node, script, count):
    """Runs a script on a node, `count` times at once, until the block ends."""
    words = [str(COMMAND), "run", node, "--", "sh", "-c", script]
    started = [
        subprocess.Popen(
            words,
            env=cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for _ in range(count)
    ]
    try:
        yield
        assert [process.poll() for process in started] == [None] * count, "the co-runner ended"
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_equal_nodes_are_not_named(healthy):
    result, reason = each_core(healthy)
    assert result == "pass", reason


def test_a_slow_processor_is_named(healthy):
    healthy("fault", "cpu", "node03", "50")
    result, reason = each_core(healthy)
    assert result == "fail"
    assert "node03: dgemm" in reason
    assert not {"node01: ", "node02: ", "node04: "} & {f"{word} " for word in reason.split()}


def test_a_co_runner_is_named(healthy):
    with beside(healthy, "node02", CO_RUNNER, count=4):
        result, reason = each_core(healthy)
    assert result == "fail"
    assert "node02: copy" in reason
