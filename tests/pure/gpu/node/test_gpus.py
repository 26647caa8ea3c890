"""The parts of ``gpu/node/gpus.py`` that need no GPU: processors, pattern, comparison, copies."""

import ctypes
import os

import pytest

from assay.gpu.node import gpus as program


@pytest.mark.parametrize(
    ("text", "found"),
    [("0-2,8", {0, 1, 2, 8}), ("5", {5}), ("", set()), ("0-0", {0}), ("4-5,7-8", {4, 5, 7, 8})],
)
def test_the_processors_of_a_list_of_the_kernel(text, found):
    assert program.lists.numbers(text) == found


@pytest.fixture
def device(tmp_path):
    """The path of a device with this list of near processors; None: no list."""

    def make(cpus):
        if cpus is not None:
            (tmp_path / "local_cpulist").write_text(f"{cpus}\n")
        return str(tmp_path)

    return make


def test_a_block_runs_near_the_device_and_the_process_gets_its_processors_back(device):
    usable = os.sched_getaffinity(0)
    one = min(usable)
    with program.near(device(f"{one},4095")) as said:
        assert said == "yes"
        assert os.sched_getaffinity(0) == {one}
    assert os.sched_getaffinity(0) == usable


def test_a_block_that_fails_gives_the_processors_back(device):
    usable = os.sched_getaffinity(0)
    with pytest.raises(KeyError), program.near(device(min(usable))):
        raise KeyError
    assert os.sched_getaffinity(0) == usable


@pytest.mark.parametrize(("cpus", "answer"), [("4095", "no"), (None, "unknown"), ("", "unknown")])
def test_without_near_processors_a_block_runs_where_it_is(device, cpus, answer):
    usable = os.sched_getaffinity(0)
    with program.near(device(cpus)) as said:
        assert said == answer
        assert os.sched_getaffinity(0) == usable


def test_no_two_parts_of_the_pattern_are_alike():
    parts, rest = 40, 7
    size = parts * program.PART + rest
    memory = ctypes.create_string_buffer(size)
    program.fill(ctypes.addressof(memory), size)
    each = [memory.raw[at : at + program.PART] for at in range(0, size, program.PART)]
    assert len({*each}) == parts + 1
    assert len(each[-1]) == rest


@pytest.mark.parametrize("size", [1, 2, 1000, 4097])
def test_the_first_byte_that_differs(size):
    one = ctypes.create_string_buffer(os.urandom(size), size)
    for at in {0, size // 2, size - 1}:
        other = ctypes.create_string_buffer(one.raw, size)
        assert difference(one, other, size) is None
        for wrong in {at, size - 1}:
            other[wrong] = bytes([one.raw[wrong] ^ 1])
        assert difference(one, other, size) == at


def difference(one, other, size):
    return program.first_difference(ctypes.addressof(one), ctypes.addressof(other), size)


class Made(program.Measurement):
    """Copies that take made times: `cold` is that of the first one, `warm(copies)` of others."""

    def __init__(self, cold, warm):
        self.asked, self._cold, self._warm = [], cold, warm

    def _timed(self, copies):
        self.asked.append(copies)
        seconds = self._cold if len(self.asked) == 1 else self._warm(copies)
        return seconds, seconds

    def _arrived(self):
        return None


def test_a_cold_first_copy_does_not_make_the_repeats_short():
    made = Made(0.3, lambda copies: 1e-3 * copies)
    line = made.run(3)
    assert line["copies"] >= program.SECONDS / 1e-3
    assert line["gpu_seconds"] == [pytest.approx(1e-3 * line["copies"])] * 3
    assert made.asked[:2] == [1, 1]


def test_the_copies_grow_until_a_repeat_is_long_enough():
    # A copy that is slow alone, and quick in a row: the first answer is not enough.
    made = Made(0.3, lambda copies: 1e-3 + 2e-4 * (copies - 1))
    copies = made.run(1)["copies"]
    assert 1e-3 + 2e-4 * (copies - 1) >= program.SECONDS
    assert copies < program.MOST


@pytest.mark.parametrize(("seconds", "copies"), [(1e-9, program.MOST), (0, program.MOST), (1, 1)])
def test_a_repeat_has_at_least_one_copy_and_at_most_so_many(seconds, copies):
    assert Made(2, lambda number: seconds * number).run(1)["copies"] == copies
