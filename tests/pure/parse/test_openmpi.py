"""The output of Open MPI: the pml of each process, and the number of worlds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_outputs import edited, texts, torn

from assay.parse.openmpi import OpenMpi, parse_openmpi

TEXTS = texts("openmpi")

# Number of processes for each pml, worlds, proven ranks.
EVERY = {
    "4.1.4/world.np1": ({"ucx": 1}, 1, 1),
    "4.1.4/world.np1.no-mpirun": ({"ucx": 1}, 1, 1),
    "4.1.4/world.np2": ({"ucx": 2}, 1, 2),
    "4.1.4/world.np4": ({"ucx": 4}, 1, 4),
    "4.1.4/two-hosts.np2": ({"ucx": 2}, 1, 2),
    "4.1.4/tag-output.np2": ({"ucx": 2}, 1, 2),
    "4.1.4/singletons.np2": ({"ucx": 2}, 2, 2),
    "4.1.4/lost-environment.np2": ({"ucx": 2}, 2, 2),
    "4.1.4/two-jobs.np2": ({"ucx": 4}, 2, 4),
    "4.1.4/ob1.np2": ({"ob1": 2}, 1, 2),
    "4.1.4/params-file.np2": ({"ob1": 2}, 1, 2),
    "4.1.4/packaged.np2": ({"ob1": 2}, 1, 2),
    "4.1.4/user-namespaces.np2": ({"ob1": 2}, 1, 2),
    "4.1.4/no-pml.np2": ({}, 0, 0),
    "4.1.4/missing-device.np2": ({"ucx": 2}, 0, 0),
    "4.1.4/killed.np2": ({"ucx": 2}, 1, 2),
    "4.1.4/unheard.np2": ({"ob1": 2}, 1, 2),
    "4.1.4/no-finalize.np2": ({"ob1": 2}, 1, 2),
    "4.1.4/notpml-tlsany-verbose": ({"ob1": 2}, 0, 0),
    "5.0.11/world.np1": ({"ucx": 1}, 1, 1),
    "5.0.11/world.np1.no-mpirun": ({"ucx": 1}, 1, 1),
    "5.0.11/world.np2": ({"ucx": 2}, 1, 2),
    "5.0.11/world.np4": ({"ucx": 4}, 1, 4),
    "5.0.11/singletons.np2": ({"ucx": 2}, 2, 2),
    "5.0.11/lost-environment.np2": ({"ucx": 2}, 2, 2),
    "5.0.11/ob1.np2": ({"ob1": 2}, 1, 2),
    "5.0.11/no-pml.np2": ({}, 0, 0),
    "5.0.11/notpml-tlsany-verbose": ({"ucx": 2}, 0, 0),
    "5.0.11/nopml-bogus-tls": ({"ob1": 2}, 0, 0),
    "5.0.11/pmlucx-info-tcp": ({}, 0, 0),
    "5.0.11/commmethod-ucx": ({}, 0, 0),
    "5.0.11/commmethod-ob1tcp": ({}, 0, 0),
}
FAILED = {
    "4.1.4/no-pml.np2",
    "4.1.4/missing-device.np2",
    "4.1.4/killed.np2",
    "4.1.4/unheard.np2",
    "4.1.4/no-finalize.np2",
    "5.0.11/no-pml.np2",
    "5.0.11/pmlucx-info-tcp",
}


@pytest.mark.parametrize("name", sorted({*EVERY, *TEXTS}))
def test_pml_and_world(name):
    by_pml, worlds, ranks = EVERY[name]
    said = parse_openmpi(TEXTS[name])

    chosen = list(said.selected.values())
    assert {pml: chosen.count(pml) for pml in said.pml} == by_pml
    assert (said.worlds, said.ranks_seen) == (worlds, ranks)
    assert bool(said.aborts) == (name in FAILED)
    assert said.apart is (name == "4.1.4/user-namespaces.np2")  # ranks in namespaces of their own


def test_processes_of_two_hosts():
    assert set(parse_openmpi(TEXTS["4.1.4/two-hosts.np2"]).selected) == {
        ("node0", 9785),
        ("node1", 9786),
    }


def test_settings_are_those_that_reached_the_program():
    settings = parse_openmpi(TEXTS["5.0.11/world.np2"]).settings

    assert settings["pml"] == "ucx"
    assert settings["opal_common_ucx_devices"] == "any"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("4.1.4/no-pml.np2", "PML ucx cannot be selected"),
        ("4.1.4/missing-device.np2", "PML add procs failed"),
        (
            "4.1.4/killed.np2",
            "mpirun noticed that process rank 0 with PID 0 on node vm exited on signal 9 (Killed).",
        ),
        (
            "4.1.4/unheard.np2",
            "mpirun says that rank 0 ended without MPI_Finalize, but the 2 ranks that left a log "
            "closed MPI: mpirun probably did not answer them within 2 s. Run it again when the "
            "host is less busy",
        ),
        ("4.1.4/no-finalize.np2", "mpirun has exited due to process rank 1 with PID 0 on"),
        ("5.0.11/no-pml.np2", "No components were able to be opened in the pml framework."),
        ("5.0.11/pmlucx-info-tcp", "It looks like MPI_INIT failed for some reason"),
    ],
)
def test_the_line_that_says_why_mpi_gave_up(name, line):
    assert line in parse_openmpi(TEXTS[name]).aborts


@pytest.mark.parametrize("rank", [0, 1])
def test_mpirun_is_believed_unless_every_rank_closed_mpi(rank):
    text = TEXTS["4.1.4/unheard.np2"]
    process = sorted({pid for _, pid in parse_openmpi(text).selected})[rank]
    one_missing = edited(text, f":{process}] mca: base: close: unloading component ob1", ":1] ")

    assert parse_openmpi(one_missing).aborts == (re.search("mpirun has exited due.*", text)[0],)


def test_the_likely_cause_does_not_depend_on_the_pid_that_mpirun_prints():
    text = TEXTS["4.1.4/unheard.np2"]

    assert (
        parse_openmpi(edited(text, "with PID 0 on", "with PID 4711 on")).aborts
        == parse_openmpi(text).aborts
    )


# --- without the lines that prove, no proof -----------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_no_world_is_proven_unless_rank_0_names_itself(name):
    said = parse_openmpi(re.sub(r"(?m)^.* \((environment|file .*)\)\n", "", TEXTS[name]))

    assert (said.worlds, said.ranks_seen) == (0, 0)


@pytest.mark.parametrize("name", EVERY)
def test_no_pml_is_known_unless_it_was_selected(name):
    said = parse_openmpi(re.sub(r"(?m)^.*\bselected.*\n", "", TEXTS[name]))

    assert (said.pml, said.ranks_seen) == (frozenset(), 0)


def test_a_rank_whose_lines_are_missing_is_missed():
    lines = TEXTS["4.1.4/world.np4"].splitlines(keepends=True)
    lost = max(
        parse_openmpi("".join(lines)).selected.keys() - parse_openmpi("".join(lines)).leaders
    )
    kept = [line for line in lines if f":{lost[1]:05}]" not in line]
    assert len(kept) < len(lines)

    assert parse_openmpi("".join(kept)).ranks_seen == 3


def test_one_of_the_two_lines_on_the_pml_is_enough():
    """A line that mpirun cuts does not make a rank disappear."""
    text = TEXTS["4.1.4/world.np2"]
    for pattern in (r"(?m)^.*select: component ucx selected\n", r"(?m)^.*selected ucx best.*\n"):
        fewer = re.sub(pattern, "", text)
        assert fewer != text
        assert parse_openmpi(fewer).ranks_seen == 2


# --- any text -----------------------------------------------------------------------------------


@given(st.text())
def test_any_text_is_read(text):
    assert isinstance(parse_openmpi(text), OpenMpi)


@given(torn(TEXTS))
def test_any_mixture_of_torn_lines_is_read(text):
    said = parse_openmpi(text)

    assert said.ranks_seen in (0, len(said.selected))


def test_absurd_numbers_are_read():
    assert parse_openmpi(TEXTS["4.1.4/world.np2"].replace(":", ":" + "9" * 5000)).worlds == 0
