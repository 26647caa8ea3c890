"""NpbKernel and NpbOverRanks: the real tests on recorded outputs of MG and CG, class A.

The outputs are real. In the recorded runs all ranks shared half of a core, and took seconds. It is
made that they are faster, because a replay takes a tenth of a second, and how much faster.
"""

from __future__ import annotations

import re

import pytest
from bench import DATA, processor
from made_nodes import MadeNodes

pytestmark = pytest.mark.slow

MG = {ranks: (DATA / f"npb/mg.A.x.np{ranks}.txt").read_text() for ranks in (1, 2, 4)}
#: A replay is over before a program could have run so long.
SHORT = 400


def faster(text, factor):
    """An output of a run that took `factor` times less (made): its time and its rates."""
    (ranks,) = re.findall(r"^ Total processes = *(\d+)$", text, flags=re.M)

    def number(name, by):
        line = re.compile(rf"^( {name} *= *)(\S+)$", re.M)
        return line.sub(lambda found: f"{found[1]}{by(float(found[2])):.2f}", text)

    total = float(re.search(r"^ Mop/s total *= *(\S+)$", text, re.M)[1]) * factor
    text = number("Time in seconds", lambda seconds: seconds / factor)
    text = number("Mop/s total", lambda _: total)
    return number("Mop/s/process", lambda _: total / int(ranks))


def tables(nodes, name, outputs, kernel="mg", npb_class="A"):
    """Writes the outputs by ranks; a stack with a program that prints that of its ranks."""
    folder = nodes.bench.folder / "outputs" / name
    folder.mkdir(parents=True)
    for ranks, text in outputs.items():
        (folder / str(ranks)).write_text(text)
    return {
        "features": ["mpi"],
        "programs": [f"{kernel}.{npb_class}.x"],
        "table": f'cat "{folder}/$MADE_SIZE"',
    }


def run(bench, name, *programs):
    words = ("-n", name, "-S", f"npb_programs={','.join(programs)}")
    return bench.run(*words, path="studies/doc002/npb.py")


HEALTHY = {ranks: faster(text, SHORT) for ranks, text in MG.items()}

#: Stack -> outputs of 1, 2 and 4 ranks; of how many ranks a run fails, if one does; the causes.
RUNS = {
    "healthy": (HEALTHY, None, ()),
    "falls": (
        {**HEALTHY, 4: faster(MG[4], SHORT / 2)},
        None,
        ("MG: 4 ranks reach 60350 Mop/s together, 2 ranks reach 99920 Mop/s: more of them must",),
    ),
    "stalls": (
        {**HEALTHY, 2: faster(MG[2], SHORT * 0.8)},
        None,
        ("MG: 2 ranks reach 79940 Mop/s together, 1 reach 75800 Mop/s: at least ",),
    ),
    "fewer-ranks": ({**HEALTHY, 4: HEALTHY[2]}, 4, ("mg.A.x says 2 ranks, 4 were asked for",)),
    "another-class": (
        {**HEALTHY, 2: (DATA / "npb/mg.W.x.np2.txt").read_text()},
        2,
        ("mg.W.x",),
    ),
    "wrong": (
        {**HEALTHY, 2: HEALTHY[2].replace("  SUCCESSFUL", "UNSUCCESSFUL")},
        2,
        ("Verification = UNSUCCESSFUL",),
    ),
    "no-output": ({**HEALTHY, 1: ""}, 1, ("header of NPB not found",)),
}


@pytest.fixture
def within(bench):
    """A node with four cores, as the site says; this machine may have fewer."""
    bench.partition(
        processor=processor(4),
        features=["intra-node"],
        env_vars=[["OMPI_MCA_rmaps_base_oversubscribe", "1"]],
    )
    return MadeNodes(bench, 1, "$np")


@pytest.mark.long
def test_more_ranks_must_not_compute_less(bench, within):
    for name, (outputs, _, _) in RUNS.items():
        within.stack(name, **tables(within, name, outputs))
    done = run(bench, "NpbOverRanks%kernel=mg", "mg.A.x")
    for name, (outputs, failed, causes) in RUNS.items():
        if failed:
            done.says(f"NpbKernel %kernel=mg %per_node={failed}", *causes, environ=name)
            assert done.case("NpbOverRanks", environ=name).result == "fail_deps"
        else:
            for ranks in outputs:
                done.says(f"NpbKernel %kernel=mg %per_node={ranks}", "", environ=name)
            done.says("NpbOverRanks", *(causes or ("",)), environ=name)
    record = done.case("NpbOverRanks", environ="healthy").record
    assert [row["ranks"] for row in record["parsed"]["rows"]] == [1, 2, 4]
    assert record["metrics"]["mops_most_ranks"]["value"] == 120692
    record = done.case("NpbKernel %kernel=mg %per_node=4", environ="healthy").record
    assert (record["metrics"]["mops_total"]["value"], record["parameters"]["npb_class"]) == (
        120692,
        "A",
    )


@pytest.mark.parametrize(("npb_class", "factor"), [("A", 2000), ("W", 300)])
def test_a_class_that_is_too_small_is_not_judged(bench, within, npb_class, factor):
    """CG on two ranks of the recorded machine was 20 times slower than on one, in both classes."""
    bench.partitions[0]["processor"] = processor(2)
    recorded = {n: (DATA / f"npb/cg.{npb_class}.x.np{n}.txt").read_text() for n in (1, 2)}
    slow = {ranks: faster(text, factor) for ranks, text in recorded.items()}
    within.stack("any", **tables(within, "any", slow, "cg", npb_class))
    done = run(bench, "NpbOverRanks%kernel=cg", f"cg.{npb_class}.x")
    said = ("CG: 2 ranks reach ", "more of them must not be") if npb_class == "A" else ("",)
    done.says("NpbOverRanks", *said)


def test_what_a_stack_or_a_node_lacks_is_named(bench, within):
    within.stack("mg-only", **tables(within, "mg-only", HEALTHY))
    assert not run(bench, "NpbKernel%kernel=sp", "mg.A.x").cases
    words = ("-n", "NpbKernel%kernel=mg", "-S", "npb_programs=mg.A.x", "-S", "npb_class=C")
    done = bench.run(*words, path="studies/doc002/npb.py")
    assert {case.result for case in done.cases.values()} == {"skip"}
    assert "there is no class C of it; there is A" in done.output
    assert "8 ranks on a node are needed; it has places for 4" in done.output


def test_between_two_nodes_the_bytes_cross_the_link(bench):
    extras = {"network_device": "mlx5_0:1", "nodes": 2, "cores_per_node": 2}
    bench.partition(
        processor=processor(2),
        features=["inter-node"],
        extras=extras,
        env_vars=[["OMPI_MCA_rmaps_base_oversubscribe", "1"]],
    )
    nodes = MadeNodes(bench, 2, "$((np / 2))", {"mlx5_0": "0-1"})
    outputs = {2: HEALTHY[2], 4: faster(MG[4], 1.5 * SHORT)}
    for name, moved in (("healthy", 10**9), ("another-way", 10**5)):
        nodes.stack(name, moved=f"echo mlx5_0 {moved}", **tables(nodes, name, outputs))
    done = run(bench, "NpbOverRanks%kernel=mg", "mg.A.x")
    done.says("NpbOverRanks", "", environ="healthy")
    said = "over mlx5_0:1, the benchmark moves at least "
    done.says("NpbKernel %kernel=mg %per_node=2", said, environ="another-way")
