"""The kernels of NPB: real outputs, each damaged in one number; and their names."""

import re
from functools import partial

import pytest
from real_outputs import DATA, edited, has, texts

from assay import catalogue
from assay.parse import npb

REAL = texts("npb")
KERNELS = npb.KERNELS


def of_results(name):
    """A pattern of the line of a result: what is before its value, and the value."""
    return re.compile(rf"^( {re.escape(name)} *=)( .*)$", re.MULTILINE)


def replaced(text, name, value):
    """The text with another value beside a name (made), in a field as wide as before."""
    text, count = of_results(name).subn(lambda m: m[1] + f"{value:>{len(m[2])}}", text)
    assert count == 1
    return text


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("of", ["S.x.np4", "W.x.np"])
def test_a_real_output_is_sound(kernel, of):
    name = next(name for name in REAL if name.startswith(f"{kernel}.{of}"))
    parsed = npb.parse_npb(REAL[name])
    assert parsed.sound, parsed.problems
    assert name.startswith(parsed.program)
    (row,) = parsed.rows
    assert (row["class"], str(row["processes"])) == (name[3], name[-1])
    size = tuple(map(int, row["size"].split("x")))
    assert (size, row["iterations"]) == npb.CLASSES[kernel][row["class"]]


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_contradicts_itself(kernel):
    """Each number of the results, in an output in which its rounding hides nothing."""
    text = REAL[next(n for n in REAL if n.startswith(f"{kernel}.W.x"))]
    (row,) = npb.parse_npb(text).rows
    change = partial(replaced, text)
    rate = f"{1.5 * row['mops_total']:.2f}"
    for damaged, said in (
        (
            change("Mop/s/process", rate),
            "mops_total .*, processes ., mops_per_process .* contradict",
        ),
        (change("Total processes", 9), f"processes {row['processes']}, but 9 in the results"),
        (change("Verification", "UNSUCCESSFUL"), "Verification = UNSUCCESSFUL"),
        (change("Iterations", 7), "7 steps"),
        (change("Mop/s total", "NaN"), "Mop/s total = NaN: not a measurement"),
        (change("Class", "S"), "class W, but S in the results"),
        (text.replace("(class W)", "(class S)"), "class S, but W in the results"),
    ):
        parsed = npb.parse_npb(damaged)
        assert parsed.complete
        assert has(parsed.problems, said), (said, parsed.problems)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k not in ("is", "ft", "mg")])
def test_the_time_follows_from_the_operations_and_the_rate(kernel):
    """IS, FT and MG of class W take a tenth of a second, of which two digits are printed."""
    text = REAL[next(n for n in REAL if n.startswith(f"{kernel}.W.x"))]
    (row,) = npb.parse_npb(text).rows
    problems = npb.parse_npb(replaced(text, "Time in seconds", f"{1.1 * row['time']:.2f}")).problems
    assert has(problems, r"time .*, mops_total .*, counted .* contradict each other: "), problems


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_problem_of_another_size_is_not_of_its_class(kernel):
    text = REAL[next(n for n in REAL if n.startswith(f"{kernel}.W.x"))]
    (row,) = npb.parse_npb(text).rows
    size = "x".join(str(2 * int(edge)) for edge in row["size"].split("x"))
    header = re.search(r"^.*\(class W\)$", text, re.MULTILINE)[0]
    bigger = header.replace(re.search(r":( *\d.*\d) +\(", header)[1], f" {size}")
    damaged = replaced(edited(text, header, bigger), "Size", size)
    assert has(npb.parse_npb(damaged).problems, f"size {size}, but class W has {row['size']}")


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_output_without_its_end_is_not_complete(kernel):
    text = REAL[f"{kernel}.S.x.np4"]
    assert npb.parse_npb(text).complete
    for end in ("npb@nas.nasa.gov", "Benchmark Completed", " Verification    =", " Mop/s total"):
        assert not npb.parse_npb(text[: text.index(end)]).complete


@pytest.mark.parametrize(("name", "why"), [
    ("cg.S.x.np3", "a power-of-two number of processes"),
    ("is.S.x.np3", "is not a power of two"),
    ("lu.S.x.np3", "Expecting a grid"),
])  # fmt: skip
def test_a_number_of_ranks_that_the_program_refuses_is_the_error(name, why):
    assert npb.recognise(REAL[name])
    with pytest.raises(npb.ParseError, match=f"NPB refuses to run: .*{why}"):
        npb.parse_npb(REAL[name])


@pytest.mark.parametrize("name", ["cg.S.x.np3.idle", "is.S.x.np3.idle", "lu.S.x.np3.idle"])
def test_ranks_that_do_not_compute_are_a_problem_of_a_run_that_verifies(name):
    parsed = npb.parse_npb(REAL[name])
    assert of_results("Verification").search(REAL[name])[2].strip() == "SUCCESSFUL"
    assert has(parsed.problems, "WARNING: Number of processes is not")


@pytest.mark.parametrize("name", ["ft.S.x.np1.input", "lu.S.x.np1.input", "mg.S.x.np1.input"])
def test_a_file_of_input_makes_another_problem_that_nobody_verifies(name):
    parsed = npb.parse_npb(REAL[name])
    assert parsed.program.endswith(".U.x")
    assert parsed.facts["input_file"]
    assert has(parsed.problems, "Verification = UNSUCCESSFUL")


@pytest.mark.parametrize(("line", "of"), [
    (" VERIFICATION FAILED", "cg"),
    (" Result verification failed", "ft"),
    (" Verification failed", "lu"),
    ("Failed partial verification: iteration 3, processor 1, test key 2", "is"),
    ("Processor 1:  Full_verify: number of keys out of sort: 4", "is"),
])  # fmt: skip
def test_what_the_sources_print_of_a_wrong_result_is_a_problem(line, of):
    """The lines are made after the sources; none of the real runs was wrong."""
    text = REAL[f"{of}.S.x.np4"]
    damaged = edited(text, f"\n {of.upper()} Benchmark C", f"\n{line}\n {of.upper()} Benchmark C")
    assert has(npb.parse_npb(damaged).problems, re.escape(line.strip()))


def test_the_parser_knows_the_problem_of_each_class():
    assert all({*npb.CLASSES[kernel]} >= {*catalogue.NPB_CLASSES} for kernel in KERNELS)
    assert "F" not in npb.CLASSES["is"]


def test_the_readme_of_the_outputs_explains_each_suffix():
    said = (DATA / "npb/README.md").read_text()
    suffixes = {s for name in REAL for s in re.findall(r"\.([a-z_]{4,})$", name)} - {"ep_io"}
    assert all(f"`.{suffix}`" in said for suffix in suffixes)
