"""fi_rma_bw and fi_pingpong: real outputs, damaged forms, and what libfabric's log proves."""

import pytest
from real_outputs import incomplete, problems, texts

from assay.opinions import libfabric
from assay.opinions.parse import fabtests
from assay.parse import ParseError

TEXTS = texts("fabtests")
WRITE = TEXTS["1.21.0.write.shm.client"]
LAST = WRITE.split("\n")[-2]

#: The log of ofi_rxm has lines without its prefix.
LAYERED = "1.21.0.write.tcp-rxm.client"
LOGGED = sorted(n for n, text in TEXTS.items() if "\nlibfabric:" in text and n != LAYERED)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wrong-data.shm.server", "Data check error"),
        ("no-provider.server", r"fi_getinfo\(\): .* ret=-61 \(No data available\)'"),
        ("no-operation.client", 'Invalid operation type: "nosuch"'),
        ("no-server.client", "connect: Connection refused'"),
        ("usage", ".*invalid option -- 'Z'"),
    ],
)
def test_an_output_without_a_command_line_is_refused_with_its_first_words(name, said):
    with pytest.raises(ParseError, match=f"no command line of fi_rma_bw; it said .{said}"):
        fabtests.parse_fabtests(TEXTS[f"1.21.0.{name}"])


test_a_bad_line_is_a_problem = problems(
    fabtests.parse_fabtests,
    WRITE,
    [
        (f"{LAST}\n", "", "5 of 6 sizes were measured"),
        (" -I 20 ", " -I 20 -S all ", "the sizes that -S asks for are not known"),
        (LAST, LAST.replace("iterations: 20", "iterations: 30"), "contradict each other"),
        (LAST, LAST.replace("MB/sec: ", "MB/sec: 1"), "contradict each other"),
        (LAST, LAST.replace("time: ", "time: nan"), "is not a number"),
        (LAST, LAST.replace("total: 20971520", "total: 0"), "total is 0"),
        (
            LAST,
            f"{LAST}\nData check error (a!=b) at byte 0 for buffer size 1",
            "not a row of fi_rma",
        ),
        (LAST, f"{LAST}\n{WRITE}", "a second run"),
    ],
)

test_without_all_sizes_it_is_not_complete = incomplete(
    fabtests.parse_fabtests, WRITE, [(f"{LAST}\n", ""), (" -I 20 ", " -I 20 -S all ")]
)

PING = TEXTS["pingpong.1.17.0.tcp.client"]
END = PING.split("\n")[-2]

test_a_bad_line_of_fi_pingpong_is_a_problem = problems(
    fabtests.parse_fabtests,
    PING,
    [
        (f"{END}\n", "", "the table ends after 5 sizes: it was cut, or the provider permits"),
        (END, END.replace("291.11", "991.11"), "contradict each other: bandwidth * time_per"),
        (END, END.replace("0.07s", "9.07s"), "contradict each other: time * 1e6"),
        (END, END.replace("=10", "-7 "), "-7 messages were acknowledged"),
        (END, f"a lost peer\n{END}", "not a row of fi_pingpong: 'a lost peer'"),
        (END, f"{END}\n[error] util/pingpong.c:912: gone", "[error] util/pingpong.c:912"),
        (END, f"{END}\n{PING}", "a second run"),
    ],
)

test_fi_pingpong_without_its_last_line_end_is_not_complete = incomplete(
    fabtests.parse_fabtests, PING, [(f"{END}\n", END), (f"{END}\n", "")]
)


def test_one_size_and_a_count_that_is_cut_are_read():
    head, *_ = PING.split("\n")
    one = f"{head}\n4.8k    1k      =1k      9.7m        0.02s    520.00       9.62       0.10\n"

    parsed = fabtests.parse_fabtests(one)

    assert parsed.sound, parsed.problems
    assert parsed.rows[0]["size"] == 4915


# --- the provider -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOGGED)
def test_the_log_names_the_provider_and_the_version(name):
    version = ".".join(name.split(".")[:2])
    provider = "tcp" if ".tcp." in name else "shm"

    proof = libfabric.prove_provider(provider, [TEXTS[name]])

    assert fabtests.parse_fabtests(TEXTS[name]).version == version
    assert proof == ([f"{provider} {version}"], [])


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
    _, problems = libfabric.prove_provider("shm", [WRITE, WRITE.replace(old, new)])

    assert any(found.startswith(problem) for found in problems), problems


def test_a_layer_between_the_program_and_the_provider():
    providers, problems = libfabric.prove_provider("tcp", [TEXTS[LAYERED]])

    assert providers == ["off_coll 1.21", "ofi_rxm 1.21", "tcp 1.21"]
    assert "libfabric opened the provider ofi_rxm, tcp was asked for" in problems


def test_the_variables_restrict_libfabric_to_the_provider():
    assert libfabric.provider_variables("tcp") == {"FI_PROVIDER": "tcp", "FI_LOG_LEVEL": "info"}
