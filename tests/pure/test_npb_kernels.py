"""The kernels of NPB: real outputs, each damaged in one number; and where and how they run."""

import re
from functools import partial

import pytest
from real_outputs import DATA, edited, has, texts

from assay import catalogue
from assay.judge import growth
from assay.outputs import npb
from assay.sites import detect
from assay.workloads import btio
from assay.workloads import npb as kernels
from assay.workloads.sizing import Layout, SizingError

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
    parsed = npb.parse(REAL[name])
    assert parsed.sound, parsed.problems
    assert name.startswith(parsed.program)
    (row,) = parsed.rows
    assert (row["class"], str(row["processes"])) == (name[3], name[-1])
    assert tuple(map(int, row["size"].split("x"))) == npb.problem(kernel, row["class"])[0]
    assert row["iterations"] == npb.problem(kernel, row["class"])[1]


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_contradicts_itself(kernel):
    """Each number of the results, in an output in which its rounding hides nothing."""
    text = REAL[next(n for n in REAL if n.startswith(f"{kernel}.W.x"))]
    (row,) = npb.parse(text).rows
    change = partial(replaced, text)
    rate = f"{1.5 * row['mops_total']:.2f}"
    for damaged, said in (
        (change("Mop/s/process", rate), "Mop/s of . processes with"),
        (change("Total processes", 9), f"processes {row['processes']}, but 9 in the results"),
        (change("Verification", "UNSUCCESSFUL"), "Verification = UNSUCCESSFUL"),
        (change("Iterations", 7), "7 steps"),
        (change("Mop/s total", "NaN"), "Mop/s total = NaN: not a measurement"),
        (change("Class", "S"), "class W, but S in the results"),
        (text.replace("(class W)", "(class S)"), "class S, but W in the results"),
    ):
        parsed = npb.parse(damaged)
        assert parsed.complete
        assert has(parsed.problems, said), (said, parsed.problems)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k not in ("is", "ft", "mg")])
def test_the_time_follows_from_the_operations_and_the_rate(kernel):
    """IS, FT and MG of class W take a tenth of a second, of which two digits are printed."""
    text = REAL[next(n for n in REAL if n.startswith(f"{kernel}.W.x"))]
    (row,) = npb.parse(text).rows
    problems = npb.parse(replaced(text, "Time in seconds", f"{1.1 * row['time']:.2f}")).problems
    assert has(problems, r"contradict each other: time .* s for .* steps at"), problems


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_problem_of_another_size_is_not_of_its_class(kernel):
    text = REAL[next(n for n in REAL if n.startswith(f"{kernel}.W.x"))]
    (row,) = npb.parse(text).rows
    size = "x".join(str(2 * int(edge)) for edge in row["size"].split("x"))
    header = re.search(r"^.*\(class W\)$", text, re.MULTILINE)[0]
    bigger = header.replace(re.search(r":( *\d.*\d) +\(", header)[1], f" {size}")
    damaged = replaced(edited(text, header, bigger), "Size", size)
    assert has(npb.parse(damaged).problems, f"size {size}, but class W has {row['size']}")


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_output_without_its_end_is_not_complete(kernel):
    text = REAL[f"{kernel}.S.x.np4"]
    assert npb.parse(text).complete
    for end in ("npb@nas.nasa.gov", "Benchmark Completed", " Verification    =", " Mop/s total"):
        assert not npb.parse(text[: text.index(end)]).complete


@pytest.mark.parametrize(("name", "why"), [
    ("cg.S.x.np3", "a power-of-two number of processes"),
    ("is.S.x.np3", "is not a power of two"),
    ("lu.S.x.np3", "Expecting a grid"),
])  # fmt: skip
def test_a_number_of_ranks_that_the_program_refuses_is_the_error(name, why):
    assert npb.recognise(REAL[name])
    with pytest.raises(npb.ParseError, match=f"NPB refuses to run: .*{why}"):
        npb.parse(REAL[name])


@pytest.mark.parametrize("name", ["cg.S.x.np3.idle", "is.S.x.np3.idle", "lu.S.x.np3.idle"])
def test_ranks_that_do_not_compute_are_a_problem_of_a_run_that_verifies(name):
    parsed = npb.parse(REAL[name])
    assert of_results("Verification").search(REAL[name])[2].strip() == "SUCCESSFUL"
    assert has(parsed.problems, "WARNING: Number of processes is not")


@pytest.mark.parametrize("name", ["ft.S.x.np1.input", "lu.S.x.np1.input", "mg.S.x.np1.input"])
def test_a_file_of_input_makes_another_problem_that_nobody_verifies(name):
    parsed = npb.parse(REAL[name])
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
    assert has(npb.parse(damaged).problems, re.escape(line.strip()))


# --- where they run ------------------------------------------------------------------------------


def test_the_catalogue_and_the_parser_know_the_same_programs():
    assert catalogue.NPB_KERNELS == KERNELS
    assert all(npb.problem(k, c) for k in KERNELS for c in catalogue.NPB_CLASSES)
    assert npb.problem("is", "F") is None


def test_programs_on_path_are_found_by_kernel_and_class():
    there = {"cg.S.x", "cg.A.x", "ft.S.x", "ft.A.x", "ft.B.x", "mpirun"}
    assert detect.npb(there.__contains__) == (["cg", "ft"], ["S", "A"])
    features, extras = detect.described(there.__contains__, lambda *words: "")
    assert "npb" in features
    assert extras["npb_built"]["npb"] == {"kernels": ["cg", "ft"], "classes": ["S", "A"]}
    assert detect.npb({"cg.B.x", "ft.B.x", "bt.E.x"}.__contains__) == (["cg", "ft"], ["B"])
    assert detect.npb(set().__contains__) == ([], [])


WITHIN, BETWEEN = (["intra-node"], {}), (["inter-node"], {"nodes": 2, "cores_per_node": 8})


@pytest.mark.parametrize(
    ("kernel", "place", "counts"),
    [
        ("cg", WITHIN, [1, 2, 4, 8, 16]),
        ("bt", WITHIN, [1, 4, 16]),
        ("sp", BETWEEN, [2, 8]),
        ("is", BETWEEN, [1, 2, 4, 8]),
        ("is", (["inter-node"], {"nodes": 1}), []),
    ],
)
def test_a_kernel_runs_with_the_ranks_that_it_takes(kernel, place, counts):
    assert kernels.counts(kernel, "B", 16, *place) == counts


def test_two_nodes_have_equally_many_ranks():
    assert kernels.layout(8, 16, *BETWEEN) == Layout(2, 8)
    assert kernels.layout(8, 16, *WITHIN) == Layout(1, 8)
    with pytest.raises(SizingError, match="16 ranks on a node are needed; it has places for 8"):
        kernels.layout(16, 16, *BETWEEN)


@pytest.mark.parametrize(
    ("kernel", "npb_class", "most"),
    [("bt", "S", 16), ("sp", "W", 64), ("lu", "S", 16), ("is", "S", 128), ("cg", "S", 256)],
)
def test_a_class_that_is_too_small_for_the_ranks_is_refused(kernel, npb_class, most):
    def fit(ranks):
        try:
            kernels.fits(kernel, npb_class, Layout(1, ranks))
        except SizingError:
            return False
        return True

    assert max(ranks for ranks in (1, 2, 4, 8, 16, 32, 64, 128, 256) if fit(ranks)) == most


@pytest.mark.parametrize(
    ("kernel", "npb_class", "least"),
    [("is", "D", 4), ("ft", "D", 2), ("ft", "E", 16), ("mg", "D", 8), ("cg", "E", 4)],
)
def test_a_large_class_needs_several_ranks(kernel, npb_class, least):
    reason = f"{kernel} class {npb_class} takes {least} ranks or more, not {least // 2}"
    with pytest.raises(SizingError, match=reason):
        kernels.fits(kernel, npb_class, Layout(1, least // 2))
    kernels.fits(kernel, npb_class, Layout(1, least))


def test_a_class_that_is_too_large_for_the_memory_is_refused():
    """FT class C has 512 x 512 x 512 points of 56 B."""
    with pytest.raises(SizingError, match="ft class C takes 7516192768 bytes of memory on each"):
        kernels.fits("ft", "C", Layout(1, 2), 7 * 10**9)
    kernels.fits("ft", "C", Layout(2, 2), 7 * 10**9)


def test_more_than_twice_the_ranks_must_add_as_much_for_each_doubling():
    assert growth.stalls({1: 1000.0, 4: 1570.0}, "ranks", "Mop/s") == []
    assert len(growth.stalls({1: 1000.0, 4: 1550.0}, "ranks", "Mop/s")) == 1


def test_the_class_is_the_one_that_is_usual_or_said():
    pick = partial(btio.chosen, ["S", "A", "B", "C"], program="npb", usual=kernels.DEFAULT)
    assert (pick(None, False), pick(None, True), pick("C", False)) == ("B", "S", "C")
    with pytest.raises(SizingError, match="this stack has no npb class D"):
        pick("D", False)


@pytest.mark.parametrize("kernel", KERNELS)
def test_larger_classes_take_longer_and_move_more(kernel):
    classes = [c for c in catalogue.NPB_CLASSES if c not in kernels.TINY]
    seconds = [kernels.seconds_at_most(kernel, c, 4) for c in classes]
    moved = [kernels.least_bytes(kernel, c) for c in classes]
    assert seconds == sorted(set(seconds))
    assert moved == ([96.0] * len(classes) if kernel == "ep" else sorted(set(moved)))


def test_bytes_between_two_nodes():
    # By hand: 200 steps on 64 x 64 points of five doubles; 6 iterations of 4 MiB points of 16 B.
    assert kernels.least_bytes("bt", "A") == pytest.approx(200 * 64**2 * 40)
    assert kernels.least_bytes("ft", "A") == pytest.approx(6 * 256 * 256 * 128 * 16 / 4)
    assert kernels.least_bytes("is", "A") == 10 * 2**23


#: Bytes that crossed the loopback device of a network namespace of its own, both directions, when
#: two ranks ran class S over TCP (Open MPI 4.1.4, NPB 3.4.3, 23 November 2026).
CROSSED = {"ep": 10724, "is": 1517818, "mg": 1050090, "ft": 16816652, "cg": 5271508, "lu": 1764568}


@pytest.mark.parametrize("kernel", CROSSED)
def test_no_more_bytes_are_demanded_than_real_runs_moved(kernel):
    assert 0 < kernels.least_bytes(kernel, "S") < CROSSED[kernel] / 2


def test_the_readme_of_the_outputs_explains_each_suffix():
    said = (DATA / "npb/README.md").read_text()
    suffixes = {s for name in REAL for s in re.findall(r"\.([a-z_]{4,})$", name)} - {"ep_io"}
    assert all(f"`.{suffix}`" in said for suffix in suffixes)
