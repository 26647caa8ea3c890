"""The GPUs against each other: which GPU or pair is named, by siblings and by other nodes."""

import itertools
import json
import random
from dataclasses import replace

import pytest
from real_outputs import DATA

from assay.accused import Against, How
from assay.fleet.coordinator_log import parse_coordinator_log
from assay.gpu import gpu_ways
from assay.gpu.gpu_ways import HOST, Copy, Turn
from assay.gpu.gpus import GPUS

NVLINK, PCIE = 250.0, 25.0
NODES = ("node01", "node02", "node03", "node04")


def look(number, fault=None, nodes=NODES[:1], gpus_of_a_node=4, joined=None):
    """The turns of one look; `fault(node, source, target)` gives a factor, or False: no access.

    `joined(a, b)` gives the kind of a pair; NV4 by default.
    """
    chance = random.Random(number)
    ends = [f"bus{n}" for n in range(gpus_of_a_node)]
    found = []
    for turn, node in itertools.product(range(3), nodes):
        copies = []
        for source, target in itertools.permutations([HOST, *ends], 2):
            between = HOST not in (source, target)
            kind = "model " + (joined(source, target) if joined and between else "NV4")
            share = fault(node, source, target) if fault else 1
            rate = (NVLINK if between and kind.endswith("NV4") else PCIE) * (share or 0.1)
            rate *= 1 + chance.uniform(-0.02, 0.02)
            kind = kind if kind != "model " else ""
            copies.append(Copy(source, target, kind, rate, rate, share is not False))
        names = {end: f"GPU {n}" for n, end in enumerate(ends)}
        found.append(Turn(node, number, turn, names, tuple(copies)))
    return found


def both(fault=None, **more):
    """Both looks, the second of the nodes that the first one suspects."""
    first = look(1, fault, **more)
    again = GPUS.second_look(first, 0.2)
    return first + look(2, fault, **{**more, "nodes": again})


def pair(node, source, target):
    return 0.5 if {source, target} == {"bus2", "bus3"} and node == "node01" else 1


def one_way(node, source, target):
    return 0.5 if (source, target) == ("bus2", "bus3") else 1


def slow_gpu(node, source, target):
    return 0.5 if "bus1" in (source, target) and node == "node01" else 1


def slow_host(node, source, target):
    return 0.5 if {source, target} == {"bus1", HOST} else 1


def slow_links(node, source, target):
    """The NVLinks of one GPU, and not its copies with the host."""
    return 0.5 if "bus1" in (source, target) and HOST not in (source, target) else 1


def no_access(node, source, target):
    return False if {source, target} == {"bus0", "bus2"} and node == "node01" else 1


def slow_node(node, source, target):
    return 0.6 if node == "node01" else 1


@pytest.mark.parametrize(
    ("fault", "begin", "words"),
    [
        (pair, "node01: GPU 2 -> GPU 3: this way 1", ["back 1", "10 others of the node"]),
        (one_way, "node01: GPU 2 -> GPU 3: this way 1", ["11 others of the node"]),
        (slow_gpu, "node01: GPU 1: host to device 12", ["device to host", "best copy to another"]),
        (slow_host, "node01: GPU 1: host to device 12", ["device to host", "3 others of the node"]),
        (slow_links, "node01: GPU 1: the best copy to another GPU 12", ["3 others of the node"]),
        (no_access, "node01: GPU 0 and GPU 2 cannot access each other's memory", ["10 others"]),
    ],
)
def test_the_siblings_of_one_node_name_the_fault_and_nothing_else(fault, begin, words):
    accused, undecided = GPUS.slow(both(fault), 0.2)
    assert undecided == []
    (line,) = accused
    assert line.startswith(begin)
    assert all(word in line for word in words), line
    assert line.nodes == ("node01",)
    assert line.how is (How.DIFFERS if fault is no_access else How.SLOW)
    assert ("back" in line) == (fault is pair)
    assert ("best copy" in line) == (fault in (slow_gpu, slow_links))


def test_healthy_gpus_are_not_named():
    for seed in range(10):
        first = look(seed, nodes=NODES)
        found = [replace(turn, look=1) for turn in first]
        assert GPUS.slow(found, 0.2) == ([], [])
        assert GPUS.second_look(found, 0.2) == []


def test_a_disturbance_of_the_first_look_names_nobody():
    assert GPUS.slow(look(1, slow_gpu) + look(2), 0.2) == ([], [])


@pytest.mark.parametrize("fault", [pair, slow_gpu, no_access])
def test_the_same_way_of_other_nodes_names_the_node(fault):
    accused, undecided = GPUS.slow(both(fault, nodes=NODES), 0.2)
    assert undecided == []
    (line,) = accused
    assert line.startswith("node01: ") and "the same on 3 other nodes" in line


def test_a_node_whose_gpus_are_all_slow_is_one_line():
    accused, undecided = GPUS.slow(both(slow_node, nodes=NODES), 0.2)
    assert undecided == []
    (line,) = accused
    assert line.startswith("node01: each of its 4 GPUs: host to device 15")


def by_two(a, b):
    """Two GPUs on each of two processors: NVLink within, and the link of the processors between."""
    return "NV4" if {a, b} in ({"bus0", "bus1"}, {"bus2", "bus3"}) else "SYS"


def test_pairs_that_are_joined_in_another_way_are_not_compared():
    assert GPUS.slow(both(joined=by_two), 0.2) == ([], [])
    accused, _ = GPUS.slow(both(one_way, joined=lambda a, b: "SYS"), 0.2)
    assert len(accused) == 1


def every_third(node, source, target):
    """How the nodes are built: the third GPU has half of the lanes on each."""
    return 0.5 if {source, target} == {"bus2", HOST} else 1


@pytest.mark.parametrize("number", [2, 4])
def test_what_is_alike_on_other_nodes_is_how_they_are_built(number):
    assert GPUS.slow(both(every_third, nodes=NODES[:number]), 0.2) == ([], [])
    assert GPUS.slow(both(every_third), 0.2)[0][0].startswith("node01: GPU 2: host to device")


def half_of_the_nodes(node, source, target):
    return 0.5 if node in NODES[:2] and {source, target} == {"bus2", HOST} else 1


def test_the_siblings_decide_where_the_nodes_are_two_camps():
    accused, undecided = GPUS.slow(both(half_of_the_nodes, nodes=NODES), 0.2)
    assert undecided == []
    assert [line[:14] for line in accused] == ["node01: GPU 2:", "node02: GPU 2:"]


def second_of_two(node, source, target):
    return 0.5 if node == "node01" and "bus1" in (source, target) else 1


def test_of_two_gpus_nobody_is_accused_and_of_two_nodes_with_two_the_slow_one_is():
    accused, undecided = GPUS.slow(both(slow_host, gpus_of_a_node=2), 0.2)
    assert accused == []
    assert undecided[0].startswith("node01: GPU 1: host to device")
    assert undecided[0].endswith("nobody is accused: no majority of the 2 agrees")
    two = {"nodes": NODES[:2], "gpus_of_a_node": 2}
    accused, undecided = GPUS.slow(both(second_of_two, **two), 0.2)
    assert [line[:14] for line in accused] == ["node01: GPU 1:"]
    assert undecided == [] and "3 others of all nodes" in accused[0]


def test_one_gpu_of_each_of_two_nodes_is_undecided():
    one = {"nodes": NODES[:2], "gpus_of_a_node": 1}
    accused, undecided = GPUS.slow(both(slow_node, **one), 0.2)
    assert accused == [] and "no majority of the 2 agrees" in undecided[0]


def test_nobody_is_accused_where_the_kind_of_the_links_is_unknown():
    unknown = {"joined": lambda a, b: ""}
    accused, undecided = GPUS.slow(both(pair, **unknown), 0.2)
    assert accused == []
    assert undecided[0].endswith("nvidia-smi does not say how the GPUs are joined")
    accused, _ = GPUS.slow(both(pair, nodes=NODES, **unknown), 0.2)
    assert "the same on 3 other nodes" in accused[0]


@pytest.mark.parametrize("number", [1, 2, 4])
def test_host_copies_from_far_memory_are_compared_with_such_copies_alone(number):
    """Made: the job of node03 has processors of the other socket, so its host copies are slower."""

    def far(node, source, target):
        return 0.6 if node == "node03" and HOST in (source, target) else 1

    def say(turn):
        near = "no" if turn.node == "node03" else "yes"
        copies = [
            copy if copy.between else replace(copy, near=near, kind=f"model {near}")
            for copy in turn.copies
        ]
        return replace(turn, copies=copies)

    found = look(1, far, nodes=NODES, gpus_of_a_node=number)
    assert [line[:7] for line in GPUS.slow(found, 0.2)[0]] == ["node03:"]
    said = [say(turn) for turn in found]
    assert GPUS.slow(said, 0.2) == ([], [])
    alone = [line for line in gpu_ways.not_compared(said) if line.startswith("node03: host")]
    assert len(alone) == (number if number < gpu_ways.FEWEST else 0)


def test_one_other_is_singular():
    def slow(node, source, target):
        return 0.5 if node == "node01" else 1

    _, (line,) = GPUS.slow(look(1, slow, nodes=NODES[:2]), 0.2)
    assert "the median of the same on 1 other node;" in line
    _, (line,) = GPUS.slow(look(1, second_of_two, gpus_of_a_node=2), 0.2)
    assert "in brackets the median of 1 other of all nodes;" in line


def test_what_nothing_can_be_compared_with_is_listed():
    assert gpu_ways.not_compared(look(1)) == []
    assert len(gpu_ways.not_compared(look(1, gpus_of_a_node=2))) == 6
    assert gpu_ways.not_compared(look(1, nodes=NODES[:3], gpus_of_a_node=2)) == []
    alone = gpu_ways.not_compared(look(1, joined=lambda a, b: "NV4" if "bus0" in (a, b) else b + a))
    assert "node01: GPU 1 -> GPU 2" in alone and "node01: GPU 0 -> GPU 1" not in alone


def test_clocks_that_disagree_are_named():
    (turn, *_) = look(1)
    (first, *rest) = turn.copies
    doubtful = replace(first, host_rate=first.rate / 3)
    assert gpu_ways.clocks([turn]) == []
    (line,) = gpu_ways.clocks([replace(turn, copies=(doubtful, *rest))])
    assert line.startswith("node01: host -> GPU 0: ") and "by that of the host" in line


def log(name, rc=0, nodes=1, change=("", "")):
    """The log of a meeting in which every node printed a recorded output, three times."""
    out = (DATA / f"each-gpu/{name}.txt").read_text().replace(*change)
    first = {"asked": nodes, "met": {str(n): NODES[n] for n in range(nodes)}, "absent": []}
    entries = [
        {"node": node, "look": 1, "turn": turn, "rc": rc, "out": out}
        for turn in range(3)
        for node in range(nodes)
    ]
    lines = [first, *entries, {"gone": {}, "end": True}]
    return parse_coordinator_log("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("healthy", []),
        ("nvlink-and-pcie", []),
        ("slow-pair", ["GPU 2 (EMULATED GPU, ", " -> GPU 3 (EMULATED GPU, ", "-49.5 %"]),
        ("slow-gpu", ["GPU 1 (EMULATED GPU, ", ": host to device 0.495 GB/s (0.98, -49.5 %)"]),
        ("no-access", [" and GPU 2 (EMULATED GPU, ", "through the host, 0.49 GB/s"]),
    ],
)
def test_recorded_outputs_of_emulated_gpus(name, words):
    found, failed = gpu_ways.turns(log(name))
    assert failed == [] and len(found) == 3
    accused, undecided = GPUS.slow(found, 0.2)
    assert undecided == [] and len(accused) == bool(words)
    assert all(word in accused[0] for word in words)


@pytest.mark.parametrize(
    ("name", "rc", "change", "said"),
    [
        ("corrupt", 0, ("", ""), "its GPUs: GPU 3 (EMULATED GPU, "),
        ("wrong-context", 1, ("vm: ", "node01: "), "its GPUs (exit code 1): GPU 1 (EMULATED GPU, "),
        ("healthy", None, ('{"end": true}\n', ""), "(out of time): the output is cut short"),
        ("healthy", 0, ('"copies": 5', '"copies": "x"'), "not understood"),
        ("healthy", 139, ("", ""), "(exit code 139): its output is whole"),
    ],
)
def test_a_node_that_failed_is_named_once(name, rc, change, said):
    found, failed = gpu_ways.turns(log(name, rc, change=change))
    (line,) = failed
    assert line.startswith("node01: ") and said in line
    assert (line.nodes, line.how) == (("node01",), How.FAILED)
    assert len(found) == (3 if name == "corrupt" else 0)


def written_until(way, rc, tail=""):
    """The log of a node whose output ends when it begins this way; `tail` is what it says then."""
    out = (DATA / "each-gpu/no-access-at-all.txt").read_text()
    begun = json.dumps({"next": way}) + "\n"
    assert begun in out
    head = {"asked": 1, "met": {"0": "node01"}, "absent": []}
    entry = {"node": 0, "look": 1, "turn": 0, "rc": rc, "out": out.split(begun)[0] + begun + tail}
    return parse_coordinator_log(
        "".join(json.dumps(each) + "\n" for each in (head, entry, {"gone": {}, "end": True}))
    )


CUT = "the output is cut short, during the copies"


@pytest.mark.parametrize(
    ("way", "rc", "tail", "begin", "end"),
    [
        ([2, 1], None, "", f"(out of time): {CUT} GPU 2 (", " -> GPU 1 ("),
        ([None, 3], 137, "", f"(exit code 137): {CUT} host -> GPU 3 (", ""),
        ([2, 1], None, "a library says\n", f"(out of time): {CUT} ", " -> GPU 1 ("),
        ([2, 1], 1, "node01: GPU 2 -> GPU 1: it failed\n", "(exit code 1): ", "it failed"),
    ],
)  # fmt: skip
def test_a_copy_that_does_not_end_is_named(way, rc, tail, begin, end):
    found, failed = gpu_ways.turns(written_until(way, rc, tail))
    assert found == []
    (line,) = [line for line in failed if "a library" not in line]
    assert f"node01: its GPUs {begin}" in line and end in line
    assert (line.nodes, line.how) == (("node01",), How.FAILED)


#: glibc's loader prints it on the error stream, which the meeting joins with the output.
LOADER = "ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded: ignored.\n"


def test_a_line_of_a_library_in_a_whole_output_accuses_nobody():
    found, failed = gpu_ways.turns(log("healthy", change=('{"program"', LOADER + '{"program"')))
    (line,) = failed
    assert line.startswith("node01: a line that is not of each_gpu: line 1: ERROR: ld.so: ")
    assert not isinstance(line, Against) and len(found) == 3
    _, failed = gpu_ways.turns(log("healthy", 1, change=('{"program"', LOADER + '{"program"')))
    assert failed[0].nodes == ("node01",)


def test_wrong_data_of_a_program_that_failed_too_is_a_line_of_its_own():
    found, failed = gpu_ways.turns(log("corrupt", 139))
    assert found == [] and len(failed) == 2
    assert "node01: its GPUs (exit code 139): its output is whole, but it failed" in failed
    assert all(line.nodes == ("node01",) for line in failed)


def test_wrong_data_of_an_output_without_the_line_of_a_gpu_is_named():
    """Made of the recorded output: the lines of GPU 0 are missing, and no number is its place."""
    recorded = log("corrupt")
    entry = dict(recorded.entries[0])
    entry["out"] = "".join(
        line for line in entry["out"].splitlines(keepends=True)
        if '"gpu": 0' not in line and '"from": 0' not in line and '"to": 0' not in line
    )  # fmt: skip
    found, failed = gpu_ways.turns(replace(recorded, entries=[entry]))
    assert found == [] and any(" GPU 3 (EMULATED GPU, " in line for line in failed)


def test_wrong_data_of_several_turns_is_one_line():
    """Made of the recorded output: in the second turn another byte is wrong."""
    recorded = log("corrupt")
    entries = [dict(entry) for entry in recorded.entries]
    entries[1]["out"] = entries[1]["out"].replace('"wrong_at": 524288', '"wrong_at": 77')
    entries[2]["out"] = entries[2]["out"].replace('"wrong_at": 524288', '"wrong_at": null')
    _, (line,) = gpu_ways.turns(replace(recorded, entries=entries))
    assert "with the host first at byte 524288; copies from it may have begun with " in line
    assert line.endswith(" (2 of 3 turns)") and line.nodes == ("node01",)


def test_the_record_says_what_was_measured():
    said = GPUS.criteria(gpu_ways.turns(log("slow-gpu", nodes=2))[0], 0.2)
    assert [*said["nodes"]] == ["node01", "node02"]
    assert said["nodes"]["node01"]["drivers"] == ["0.0.emulated"]
    assert all("EMULATED GPU" in gpu for gpu in said["nodes"]["node01"]["gpus"])


def test_the_second_look_is_for_the_suspect_and_some_others(tmp_path):
    assert GPUS.second_look(look(1, pair, nodes=NODES), 0.2) == [*NODES]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in written("slow-pair")))
    assert GPUS.advice(str(path), "0.2") == [0]


def written(name):
    made = log(name)
    first = {"asked": 1, "met": {"0": "node01"}, "absent": []}
    return [first, *made.entries, {"gone": {}, "end": True}]
