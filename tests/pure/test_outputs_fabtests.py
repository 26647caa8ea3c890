"""fi_rma_bw: real outputs, damaged forms of them, and what the log of libfabric proves."""

from pathlib import Path

import pytest

from assay.evidence import libfabric
from assay.outputs import ParseError, fabtests

DATA = Path(__file__).parents[1] / "data" / "fabtests"
TEXTS = {
    path.name.removesuffix(".txt"): path.read_text(errors="replace") for path in DATA.glob("*.txt")
}
WRITE = TEXTS["1.21.0.write.shm.client"]
LAST = WRITE.split("\n")[-2]

REFUSED = {
    "1.21.0.rounded.shm.client": "line 1: this form rounds sizes and counts: run fi_rma_bw with -m",
    "1.21.0.wrong-data.shm.server": "no command line of fi_rma_bw; it said 'Data check error",
    "1.21.0.no-provider.server": r"it said 'fi_getinfo\(\): .* ret=-61 \(No data available\)'",
    "1.21.0.no-operation.client": 'it said \'Invalid operation type: "nosuch"',
    "1.21.0.no-server.client": "it said 'connect: Connection refused'",
    "1.21.0.usage": "it said .*invalid option -- 'Z'",
}
KILLED = "1.21.0.killed.client"
#: The log of ofi_rxm has lines without its prefix.
LAYERED = "1.21.0.write.tcp-rxm.client"
LOGGED = sorted(n for n, text in TEXTS.items() if "\nlibfabric:" in text and n != LAYERED)
FINISHED = sorted(TEXTS.keys() - REFUSED.keys() - {KILLED, LAYERED})


def test_golden():
    # - { xfer_size: 4096, iterations: 20, total: 81920, time: 0.000058, MB/sec: 1412.413793, ...
    text = TEXTS["1.21.0.one-size.shm.client"]
    (printed,) = [line for line in text.split("\n") if line.startswith("- {")]
    (row,) = fabtests.parse(text).rows

    assert list(row.values()) == [
        float(word.strip("{},")) for word in printed.split() if word[0].isdigit()
    ]
    assert list(row) == list(fabtests.parse(text).units)
    assert (row["size"], row["iterations"]) == (4096, 20)
    assert row["bandwidth"] == pytest.approx(row["total"] / row["time"] / 1e6)


@pytest.mark.parametrize("name", FINISHED)
def test_finished_outputs_are_sound(name):
    parsed = fabtests.parse(TEXTS[name])

    assert fabtests.recognise(TEXTS[name])
    assert parsed.sound, parsed.problems
    assert (parsed.family, parsed.program) == ("fabtests", "fi_rma_bw")
    if " -S " not in TEXTS[name]:
        assert parsed.column("size") == list(fabtests.DEFAULT_SIZES)


def test_the_command_line_tells_what_was_asked():
    checked = fabtests.parse(TEXTS["1.21.0.write.shm.checked.client"]).facts
    assert checked == {"operation": "write", "provider": "shm", "checked": True}
    read = fabtests.parse(TEXTS["1.21.0.read.tcp.client"]).facts
    assert read == {"operation": "read", "provider": "tcp", "checked": False}


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_result_is_refused_with_the_reason(name):
    with pytest.raises(ParseError, match=REFUSED[name]):
        fabtests.parse(TEXTS[name])


def test_a_killed_client_is_not_complete():
    parsed = fabtests.parse(TEXTS[KILLED])

    assert not parsed.complete
    assert parsed.problems == ("5 of 6 sizes were measured",)


def test_sizes_that_are_not_known_are_not_complete():
    parsed = fabtests.parse(WRITE.replace(" -I 20 ", " -I 20 -S all "))

    assert not parsed.complete
    assert parsed.problems == ("the sizes that -S asks for are not known",)


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        ("", "5 of 6 sizes were measured"),
        (LAST.replace("iterations: 20", "iterations: 30"), "contradict each other"),
        (LAST.replace("MB/sec: ", "MB/sec: 1"), "contradict each other"),
        (LAST.replace("time: ", "time: nan"), "is not a number"),
        (LAST.replace("total: 20971520", "total: 0"), "total is 0"),
        (f"{LAST}\nData check error (a!=b) at byte 0 for buffer size 1\n", "not a row of fi_rma"),
        (f"{LAST}\n{WRITE}", "a second run"),
    ],
)
def test_a_bad_line_is_a_problem(new, problem):
    parsed = fabtests.parse(WRITE.replace(f"{LAST}\n", f"{new}\n"))

    assert any(problem in found for found in parsed.problems), parsed.problems


# --- the provider -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOGGED)
def test_the_log_names_the_provider_and_the_version(name):
    version = ".".join(name.split(".")[:2])
    provider = "tcp" if ".tcp." in name else "shm"

    proof = libfabric.prove(provider, [TEXTS[name]])

    assert fabtests.parse(TEXTS[name]).version == version
    assert proof == libfabric.Proof((f"{provider} {version}",), ())


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("Using shm", "Using tcp", "libfabric opened the provider tcp, shm was asked for"),
        ("Using shm", "Using shm;ofi_rxm", "libfabric opened the provider shm;ofi_rxm, shm was"),
        ("libfabric:", "", "nothing that libfabric said shows the provider of process 2"),
        ("shm:av:", "tcp:av:", "process 2 knew no peer of the provider shm"),
        ("<info> AV size", "<warn> AV size", "libfabric warns: AV size 1"),
        ("provider 1.21", "provider 1.22", "different providers ran: shm 1.21, shm 1.22"),
    ],
)
def test_a_log_that_does_not_prove_the_provider(old, new, problem):
    proof = libfabric.prove("shm", [WRITE, WRITE.replace(old, new)])

    assert any(found.startswith(problem) for found in proof.problems), proof.problems


def test_a_layer_between_the_program_and_the_provider():
    proof = libfabric.prove("tcp", [TEXTS[LAYERED]])

    assert proof.providers == ("off_coll 1.21", "ofi_rxm 1.21", "tcp 1.21")
    assert "libfabric opened the provider ofi_rxm, tcp was asked for" in proof.problems


def test_the_variables_restrict_libfabric_to_the_provider():
    assert libfabric.environment("tcp") == {"FI_PROVIDER": "tcp", "FI_LOG_LEVEL": "info"}
