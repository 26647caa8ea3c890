"""The parser of each_gpu, on what the program printed of emulated GPUs (tests/data/each-gpu)."""

import json

import pytest
from real_outputs import edited, has, refused, texts

from assay.gpu.parse import each_gpu
from assay.parse import ParseError

REAL = texts("each-gpu")
HEALTHY = REAL["healthy"]

LINES = HEALTHY.splitlines()
(FIRST_COPY,) = [n for n, line in enumerate(LINES) if '"h2d", "from": null, "to": 0,' in line]


def with_line(number, **change):
    """The healthy output with other values in one line."""
    lines = list(LINES)
    lines[number] = json.dumps({**json.loads(lines[number]), **change})
    return "".join(f"{line}\n" for line in lines)


def test_every_way_has_its_rate_by_both_clocks():
    parsed = each_gpu.parse_each_gpu(HEALTHY)
    assert parsed.sound
    assert len(parsed.rows) == 4 * 5
    for row in parsed.rows:
        assert 0.9 < row["rate"] < 1 and row["host_rate"] < row["rate"] * 1.01
        assert row["wrong_at"] == -1 and row["access"] == 1
    assert [row["from"] for row in parsed.rows[:4]] == ["host", "0", "host", "1"]


def test_the_output_says_that_the_gpus_were_emulated():
    for name, text in REAL.items():
        gpus = each_gpu.parse_each_gpu(text).facts["gpus"]
        assert {gpu["name"] for gpu in gpus} == {"EMULATED GPU"}, name
        assert all(gpu["uuid"].startswith("GPU-67707565-6d75-") for gpu in gpus)


def test_how_two_gpus_are_joined_is_that_of_nvidia_smi():
    rows = each_gpu.parse_each_gpu(REAL["nvlink-and-pcie"]).rows
    joined = {(row["from"], row["to"]): row["joined"] for row in rows if row["copy"] == "d2d"}
    assert {ends for ends, way in joined.items() if way == "NV1"} == {
        ("0", "1"), ("1", "0"), ("2", "3"), ("3", "2")
    }  # fmt: skip
    assert {*joined.values()} == {"NV1", "PHB"}


@pytest.mark.parametrize(
    ("name", "ends", "column", "value"),
    [
        ("slow-pair", ("2", "3"), "rate", 0.5),
        ("slow-gpu", ("host", "1"), "rate", 0.5),
        ("no-access", ("0", "2"), "access", 0),
    ],
)
def test_the_faults_are_in_the_rows(name, ends, column, value):
    (row,) = [r for r in each_gpu.parse_each_gpu(REAL[name]).rows if (r["from"], r["to"]) == ends]
    assert row[column] == pytest.approx(value, abs=0.02)


def test_wrong_data_of_a_gpu_is_one_line_and_of_a_pair_one_for_each_way():
    (line,) = each_gpu.parse_each_gpu(REAL["corrupt"]).problems
    assert line.startswith("GPU 3 (EMULATED GPU, ")
    assert "data arrived wrong in 8 of its 8 ways, with the host first at byte 524288" in line
    one, other = each_gpu.parse_each_gpu(REAL["corrupt-pair"]).problems
    assert "GPU 0 (" in one.split(" -> ")[0] and "GPU 2 (" in other.split(" -> ")[0]


def test_a_program_that_ended_early_says_why():
    parsed = each_gpu.parse_each_gpu(REAL["wrong-context"])
    assert not parsed.complete
    assert has(parsed.problems, r"GPU 1 \(.*the driver gave the context of another GPU")


def test_a_copy_that_takes_longer_than_the_wait_for_it_is_a_problem():
    times = json.loads(LINES[FIRST_COPY])["host_seconds"]
    parsed = each_gpu.parse_each_gpu(
        with_line(FIRST_COPY, gpu_seconds=[2 * time for time in times])
    )
    assert has(parsed.problems, "host -> GPU 0 .*no copy takes longer than the wait for it")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpu_seconds": [1e-3, 1e-3]}, "2 times of 3 repeats"),
        ({"gpu_seconds": [1e-3, 0, 1e-3]}, "Expected `float` > 1e-12"),
        ({"host_seconds": [1e-3, float("nan"), 1e-3]}, "Expected `float` > 1e-12"),
        ({"gpu_seconds": [1e-3, True, 1e-3]}, "Expected `float`, got `bool`"),
        ({"to": 4}, "there is no GPU 4"),
        ({"to": None}, "the kind of the copy is not that of its ends"),
        ({"from": 1}, "the kind of the copy is not that of its ends"),
        ({"to": 1}, "this copy is there twice"),
        ({"copies": 0}, "Expected `int` >= 1"),
        ({"access": 1}, "Expected `bool`, got `int`"),
        ({"wrong_at": 1 << 20}, "1048576 is not below 1048576"),
    ],
)
def test_a_line_that_cannot_be_is_refused(change, said):
    with pytest.raises(ParseError, match=said):
        each_gpu.parse_each_gpu(with_line(FIRST_COPY, **change))


test_refused = refused(
    each_gpu.parse_each_gpu,
    HEALTHY,
    [
        ('"version": 1', '"version": 2', "unknown version 2"),
        ('"gpus": 4', '"gpus": 65', r"Expected `int` <= 64 - at `\$\.gpus`"),
        ('{"gpu": 1', '{"gpu": 0', "its number or its address is that of another GPU"),
        ("00000000:2B", "00000000:1B", "its number or its address is that of another GPU"),
        ('{"copy": "h2d"', '{"kopy": "h2d"', "not understood"),
        ('{"program": "each_gpu"', '{"Program": "each_gpu"', "it is at a wrong place"),
        ('{"end": true}', '{"end": true}\n{"end": true}', "it is at a wrong place"),
    ],
)


def test_a_gpu_or_a_copy_that_is_missing_leaves_the_output_incomplete():
    for number in (*range(1, 5), *range(FIRST_COPY, len(LINES))):
        rest = [line for at, line in enumerate(LINES) if at != number]
        try:
            assert not each_gpu.parse_each_gpu("\n".join(rest)).complete, number
        except ParseError as error:
            assert "there is no GPU" in str(error)


def test_another_text_is_not_of_each_gpu():
    assert each_gpu.recognise(HEALTHY)
    assert not each_gpu.recognise(edited(HEALTHY, "each_gpu", "each_core"))
    with pytest.raises(ParseError, match="no first line"):
        each_gpu.parse_each_gpu("vm: cuInit: CUDA_ERROR_NO_DEVICE (100)\n")
