"""Whether a run measured a whole node, by its output and what the text states of the node."""

from dataclasses import replace

from assay import files
from assay.opinions.on_node import NodeRun
from assay.opinions.stated import Node
from assay.parse import Parsed

PARTS = {"processor": "ice-lake-sp", "memory": "ddr4-3200"}
STREAM = Parsed("stream", "STREAM", "5.10", True, (), {}, (), {"threads": 64, "array": 1 << 30})
NODE = NodeRun(
    STREAM, Node(sockets=2, cores=64, cpus=128, modules=16), PARTS, files.SUITE / "site-config/any"
)


def test_a_run_on_the_whole_node_leaves_no_doubt():
    assert NODE.lacks("Stream") == {}
    assert NODE.caveat("Stream") == ""


def test_each_part_of_the_node_that_was_not_used_is_a_doubt():
    few = replace(STREAM, facts={**STREAM.facts, "threads": 8})
    (said,) = replace(NODE, parsed=few).lacks("Stream")
    assert said == "a run on the whole node: only 8 of its 64 cores were used"
    (said,) = replace(NODE, node=NODE.node._replace(modules=8)).lacks("Stream")
    assert said == "a full memory: 8 modules are in 16 channels"
    (said,) = replace(NODE, node=Node()).lacks("Stream")
    assert said == "the processor, its sockets and cores"


def test_a_value_of_the_caches_is_none_of_the_memory():
    small = replace(STREAM, facts={**STREAM.facts, "array": 1 << 20})
    assert replace(NODE, parsed=small).caveat("Stream") == "the caches do not hold its arrays"


def test_the_peak_follows_from_the_sockets_and_is_unknown_without_them():
    one, two = (replace(NODE, node=NODE.node._replace(sockets=n)) for n in (1, 2))
    assert 2 * one.peak("memory.bandwidth", "MB/s").value == (
        two.peak("memory.bandwidth", "MB/s").value
    )
    assert replace(NODE, node=Node()).peak("memory.bandwidth", "MB/s") is None
