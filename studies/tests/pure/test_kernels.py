"""Where and how the kernels of NPB run: ranks, class, time, and bytes between two nodes."""

from functools import partial

import pytest

from assay import catalogue
from assay.parse.npb import KERNELS
from assay.workloads.sizing import Layout, SizingError
from studies import growth
from studies.doc002 import kernels

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
    pick = partial(kernels.chosen, ["S", "A", "B", "C"])
    assert (pick(), pick(smoke=True), pick("C"), pick("C", True)) == ("B", "S", "C", "C")
    assert kernels.chosen(["C", "D"]) == "C"
    with pytest.raises(SizingError, match="there is no class D of it; there is S, A, B, C"):
        pick("D")


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
