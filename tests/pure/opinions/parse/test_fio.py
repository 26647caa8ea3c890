"""fio: real reports of 3.33, and damaged forms of them."""

import re

import pytest
from real_outputs import problems, refused, texts

from assay.opinions.parse import fio

TEXTS = texts("fio")
HEALTHY = TEXTS["healthy"]
FILL, READ, WRITE = fio.parse_fio(HEALTHY).rows


def test_the_jobs_of_a_run():
    parsed = fio.parse_fio(HEALTHY)

    assert parsed.sound
    assert parsed.column("job") == ["fill", "read", "write"]
    assert parsed.column("operation") == ["write", "read", "write"]
    assert (FILL["moved"], FILL["block"], FILL["depth"]) == (16 << 20, 1 << 20, 4)
    assert (READ["block"], READ["depth"]) == (4096, 32)
    assert parsed.quantity("rate", job="read").unit == "op/s"
    assert parsed.quantity("p99", job="write").unit == "us"
    options = parsed.facts["options"]["read"]
    assert (options["ioengine"], options["rw"]) == ("libaio", "randread")  # a common one, its own


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("full_disk", "job fill: error 28"),
        ("full_disk", "error=No space left on device"),
        ("terminated", "terminating on signal 15"),
    ],
)
def test_a_broken_run_is_a_problem(name, problem):
    parsed = fio.parse_fio(TEXTS[name])

    assert any(problem in said for said in parsed.problems), parsed.problems


def test_a_run_that_moved_nothing_is_not_complete():
    assert not fio.parse_fio(TEXTS["missing"]).complete


test_a_damage_is_a_problem = problems(
    fio.parse_fio,
    HEALTHY,
    [
        ('"error" : 0', '"error" : 5', "job fill: error 5"),
        ('"short_ios" : 0', '"short_ios" : 2', "job fill: 2 operations were cut short or dropped"),
        ('"drop_ios" : 0', '"drop_ios" : 1', "job fill: 1 operations were cut short or dropped"),
        ('"latency_depth"', '"total_err" : 3, "latency_depth"', "3 errors were passed over"),
        ("{", "fio: io_u error on file\n{", "fio: io_u error on file"),
        ("{", "srun: error: node01\n{", "srun: error"),
        ('"iodepth" : "4"', '"iodepth" : "1"', ", depth 1, time "),
        ('"bs" : "1m"', '"bs" : "2m"', "16 times 2097152 B are not 16777216 B"),
        ('"bs" : "1m"', '"bs" : "1m,2m"', "bs or iodepth is not one number"),
        ('"99.000000"', '"98.000000"', "no percentiles"),
        ("\n}", "\n", "the report is cut short or damaged"),
    ],
)


@pytest.mark.parametrize(
    ("key", "factor", "words"),
    [
        ("total_ios", 0, "no operation moved"),
        ("total_ios", 2, "are not"),
        ("iops", 1.01, "rate * time = operations"),
        ("bw_bytes", 1.01, "bandwidth * 1024 * time = moved"),
        ("runtime", 1.01, "rate * time = operations"),
        ("99.000000", 1000, "fastest <= median <= p99 <= slowest"),
        ("99.000000", 1e-3, "fastest <= median <= p99 <= slowest"),
        ("mean", 1000, "fastest <= mean <= slowest"),
        ("max", 0, "fastest <= mean <= slowest"),
    ],
)
def test_numbers_that_contradict_each_other(key, factor, words):
    at = HEALTHY.index('"jobname" : "read"')
    if key in ("mean", "max", "99.000000"):
        at = HEALTHY.index('"clat_ns"', at)
    head, tail = HEALTHY[:at], HEALTHY[at:]
    whole = key not in ("iops", "mean")

    def other(found):
        value = float(found[2]) * factor
        return found[1] + (str(int(value)) if whole else str(value))

    text = head + re.sub(rf'("{re.escape(key)}" : )([\d.]+)', other, tail, count=1)
    said = fio.parse_fio(text).problems
    assert any(words in one and one.startswith("job read, read: ") for one in said), said


test_a_report_is_refused = refused(
    fio.parse_fio,
    HEALTHY,
    [
        ("fio-3.33", "fio-2.21", "unknown version 2.21; known is 3.x"),
        ('"fio version"', '"version"', "version of fio not found"),
        ('"iops" : ', '"iops" : -1', r"not a report of fio 3: .* at `\$.jobs"),
        ('"total_ios"', '"ios"', "not a report of fio 3: .*missing required field `total_ios`"),
        ("\n}", "\n}\n" + HEALTHY, "2 runs in one text"),
    ],
)


@pytest.mark.parametrize("name", ["killed", "unknown_option", "text"])
def test_an_output_without_a_report_is_not_recognised(name):
    assert not fio.recognise(TEXTS[name])
