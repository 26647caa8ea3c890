"""nccl-tests: its form by version, each fault of a run, and the path by the log of NCCL."""

import json

import pytest
from nccl_form import FACTORS, FILES, log, output, path
from real_outputs import DATA, edited, incomplete, problems, refused

from assay.gpu.parse import nccl_log, nccl_tests
from assay.parse import ParseError, registry

SOUND = output()
ROW = next(line for line in SOUND.split("\n") if line.startswith("       16384"))
INTER = output(nodes=2, gpus=2, logged=("P2P/CUMEM/read", "NET/IB/0/GDRDMA"))


def test_the_files_are_those_of_the_form():
    written = {file.stem: file.read_text() for file in (DATA / "nccl-tests").glob("*.txt")}
    assert written == FILES


@pytest.mark.parametrize("version", [(2, 8), (2, 10), (2, 14), (2, 17), (2, 19)])
@pytest.mark.parametrize("program", FACTORS)
def test_each_program_of_each_version(program, version):
    parsed = nccl_tests.parse_nccl_tests(output(program, version))

    assert parsed.sound
    assert parsed.program == f"{program}_perf"
    assert [row["size"] for row in parsed.rows] == [1024 * 4**k for k in range(6)]
    assert parsed.quantity("bus_bandwidth", size=1 << 20).unit == "GB/s"
    assert parsed.facts["ranks"] == 4 and parsed.facts["validates"]


@pytest.mark.parametrize("nodes", [1, 2, 8])
@pytest.mark.parametrize("gpus", [1, 8])
def test_runs_of_1_to_64_gpus(nodes, gpus):
    parsed = nccl_tests.parse_nccl_tests(output(nodes=nodes, gpus=gpus))

    assert parsed.complete
    assert (parsed.facts["ranks"], parsed.facts["nodes"]) == (nodes * gpus, nodes)
    assert parsed.sound == (nodes * gpus > 1)


def test_several_tests_after_each_other():
    parsed = nccl_tests.parse_nccl_tests(output("all_gather") + output("alltoall"))

    assert parsed.sound
    assert list(dict.fromkeys(parsed.column("test"))) == ["all_gather_perf", "alltoall_perf"]
    assert len(parsed.facts["average"]) == 2


def test_a_second_test_that_only_began_is_not_complete():
    begin = output("alltoall").partition("# nThread")[0]

    assert not nccl_tests.parse_nccl_tests(SOUND + begin).complete


def test_ranks_that_ran_alone_are_a_problem_each():
    said = nccl_tests.parse_nccl_tests(output(gpus=1) * 4).problems

    assert sum("one GPU: nothing was communicated" in problem for problem in said) == 4


def test_a_version_that_is_not_known_is_named():
    parsed = nccl_tests.parse_nccl_tests(SOUND.replace("version 2.17.3", "version 3.1.0"))

    assert parsed.sound
    assert (parsed.version, parsed.facts["read_as"]) == ("3.1.0", "2.19")


def test_time_stamps_and_times_of_each_iteration():
    row = nccl_tests.parse_nccl_tests(output(version=(2, 19), timed=True)).rows[-1]

    assert (row["time"], row["time_p99"], row["time_max_in_place"]) == (31.65, 32.65, 34.35)


def test_only_in_place():
    parsed = nccl_tests.parse_nccl_tests(output("broadcast", rccl=True, places=1))

    assert parsed.sound
    assert "bandwidth_in_place" in parsed.rows[0] and "bandwidth" not in parsed.rows[0]


test_a_fault_is_a_problem = problems(
    nccl_tests.parse_nccl_tests,
    SOUND,
    [
        (ROW, ROW.replace("      0  ", "      1  ", 1), "wrong values"),
        (ROW, ROW.replace("      0  ", "    nan  ", 1), "wrong values"),
        ("values : 0 OK", "values : 3 FAILED", "Out of bounds values : 3 FAILED"),
        ("bandwidth    : 12.0505 ", "bandwidth    : 12.0505 FAILED", "12.0505 FAILED"),
        ("bandwidth    : 12.0505", "bandwidth    : 0", "the average bus bandwidth is 0"),
        ("bandwidth    : 12.0505", "bandwidth    : 14.1", "14.1, that of the rows 12.0"),
        (ROW, ROW.replace("  1.22", "  0.00"), "bus_bandwidth 0, bandwidth 0.81 contradict"),
        (ROW, ROW.replace("  0.81", "  8.81"), "time 20.18, size 16384 contradict each other"),
        (ROW + "\n", "", "5 of 6 sizes were measured"),
        (ROW, ROW[:60], "6 values for 13 columns"),
        ("#  Rank  2 ", "#  Runk  2 ", "ranks are not in the list of devices: [0, 1, 3]"),
        ("#\n# Coll", "n1: Test NCCL failure common.cu:9 'unhandled system error / '\n#\n# Coll",
         "Test NCCL failure common.cu:9"),
        ("#\n# Coll", "n1: Test timeout (60s) common.cu:9\n#\n# Coll", "Test timeout (60s)"),
        ("#\n# Coll", "srun: error: n2: task 3: Killed\n#\n# Coll", "srun: error"),
        ("#\n# Coll", "n2:7:8 [1] ib/p2p.cc:9 NCCL WARN NET/IB : Got completion\n#\n# Coll",
         "NCCL warns on n2, GPU 1: NET/IB : Got completion"),
        ("# Collective test concluded", "# Collective test", "did not come to its end"),
    ],
)  # fmt: skip

test_an_incomplete_run = incomplete(
    nccl_tests.parse_nccl_tests,
    SOUND,
    [(ROW + "\n", ""), ("# Out of", "# Some of"), ("# Avg bus", "# Bus")],
)


def test_a_hang_after_some_sizes_is_not_complete():
    parsed = nccl_tests.parse_nccl_tests(SOUND.partition(ROW)[0])

    assert not parsed.complete and len(parsed.rows) == 2


test_an_unknown_form_is_refused = refused(
    nccl_tests.parse_nccl_tests,
    SOUND,
    [("algbw", "algebra", "the column 'algebra'"), ("# nThread", "# Threads", "no first line")],
)


def test_the_path_between_and_in_nodes():
    said = nccl_tests.parse_nccl_tests(INTER).facts["path"]

    assert said["library"] == "NCCL 2.21.5+cuda12.4"
    assert said["pairs"] == {
        "0->1": ["P2P/CUMEM"], "1->2": ["NET/IB/GDRDMA"],
        "2->3": ["P2P/CUMEM"], "3->0": ["NET/IB/GDRDMA"],
    }  # fmt: skip
    assert said["ranks"]["3"] == {"node": "n2", "gpu": 1}
    assert said["channels"] == {"collective": 2, "nvls": 0, "p2p": 4}
    assert said["rings"] and not said["trees"]
    assert not said["fall_backs"]


@pytest.mark.parametrize(
    ("near", "far", "pair", "via"),
    [
        ("SHM/direct/direct", "NET/IB/0/GDRDMA", "0->1", "SHM"),
        ("direct shared memory", "NET/IB/0(3)/GDRDMA/Shared", "0->1", "SHM"),
        ("P2P/indirect/2[2]", "NET/IB/0/GDRDMA", "0->1", "P2P/indirect"),
        ("NET/Socket/0", "NET/AWS Libfabric/1/GDRDMA", "0->1", "NET/Socket"),
        ("P2P/IPC", "NET/IB/0", "1->2", "NET/IB"),
        ("P2P/direct pointer", "NET/Socket/0", "1->2", "NET/Socket"),
    ],
)
def test_a_fall_back_is_named_with_nodes_and_gpus(near, far, pair, via):
    found, warned, rest = nccl_log.parse_nccl_log(enumerate(path(2, 2, near, far), 1))

    places = {
        "0->1": "n1, GPU 0 to n1, GPU 1, not P2P",
        "1->2": "n1, GPU 1 to n2, GPU 0, not RDMA of the GPU",
    }
    assert found["fall_backs"][0] == f"rank {pair}: {via} from {places[pair]}"
    assert len(found["fall_backs"]) == 2 and not warned and not rest


def test_rdma_of_only_one_of_both_gpus():
    lines = path(2, 1, "P2P/IPC", "NET/IB/0/GDRDMA")
    lines = [edited(x, "/GDRDMA", "") if "0[0] -> 1[0] [rec" in x else x for x in lines]

    found, _, _ = nccl_log.parse_nccl_log(enumerate(lines, 1))

    assert found["pairs"]["0->1"] == ["NET/IB/GDRDMA", "NET/IB"]
    assert len(found["fall_backs"]) == 1


def test_the_reasons_that_nccl_gives_and_older_and_torn_lines():
    lines = [
        log("n1", 0, "NET/IB : No device found. ")
        + log("n1", 1, "NCCL_P2P_DISABLE set by environment to 1"),
        log("n1", 0, "Ring 00 : 0 -> 1 [send] via NET/Socket/0"),
        log("n2", 0, "comm 0x55 rank 1 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE"),
        "a row 1.0 " + log("n1", 0, "Connected all trees"),
        "n2:7:8 [1] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
    ]

    found, warned, rest = nccl_log.parse_nccl_log(enumerate(lines, 1))

    assert found["causes"] == [
        "n1, GPU 0: NET/IB : No device found.",
        "n1, GPU 1: NCCL_P2P_DISABLE set by environment to 1",
        "n2, GPU 1: Failed to open libibverbs.so[.1]",
    ]
    assert not warned
    assert found["pairs"] == {"0->1": ["NET/Socket"]} and found["trees"]
    assert found["ranks"]["1"] == {"node": "n2", "gpu": 0}
    assert rest == [(4, "a row 1.0")]


def of_file(**changed):
    """The file of -J for the test of SOUND, as jsonKey() and its like in src/util.cu write it."""
    own = nccl_tests.parse_nccl_tests(SOUND)
    keys = {"time": "time", "alg_bw": "bandwidth", "bus_bw": "bus_bandwidth"}

    def place(row, end):
        return {**{k: row[f"{of}{end}"] for k, of in keys.items()}, "nwrong": 0.0}

    plan = {"nthreads": 1, "ngpus": 1, "minimum_bytes": 1024, "maximum_bytes": 1 << 20}
    plan |= {"step_factor": 4, "warmup_iters": 5, "iterations": 20, "validation": 1}
    devices = [
        {"rank": n, "group": 0, "pid": 4000, "hostname": "n1", "device": n, "device_hex": "0000:10"}
        | {"device_info": "NVIDIA H100 80GB HBM3"}
        for n in range(4)
    ]
    results = [
        {"size": row["size"], "count": row["count"], "type": "float", "redop": "sum"}
        | {"root": "    -1", "out_of_place": place(row, ""), "in_place": place(row, "_in_place")}
        for row in own.rows
    ]
    return {
        "version": 3, "start_time": "x", "args": ["./build/all_reduce_perf"], "env": ["TOKEN=1"],
        "nccl_version": 22105, "config": plan | {"devices": devices}, "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": own.facts["average"][0], "okay": "unchecked"},
        "errors": [], "end_time": "x",
    } | changed  # fmt: skip


@pytest.mark.parametrize("indent", [None, 2])
def test_the_file_of_j_has_what_the_table_has(indent):
    text = json.dumps(of_file(), indent=indent)
    own, parsed = nccl_tests.parse_nccl_tests(SOUND), registry.parse_output(text)

    assert (parsed.sound, parsed.problems) == (True, ())
    assert parsed.rows == own.rows and parsed.program == own.program
    assert parsed.facts["gpus"][3]["name"] == "NVIDIA H100 80GB HBM3"


def without(key):
    return {name: value for name, value in of_file().items() if name != key}


WORSE = [{**row, "in_place": {**row["in_place"], "nwrong": 3.0}} for row in of_file()["results"]]
FASTER = [{**row, "in_place": {**row["in_place"], "bus_bw": 900.0}} for row in of_file()["results"]]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (of_file(results=WORSE), "wrong values"),
        (of_file(results=FASTER), "contradict each other"),
        (of_file(results=of_file()["results"][:-1]), "5 of 6 sizes were measured"),
        (of_file(out_of_bounds={"count": 2, "okay": "false"}), "Out of bounds values : 2"),
        (of_file(errors=["ncclRemoteError"]), "# error: ncclRemoteError"),
        (without("end_time"), "did not come to its end"),
        (of_file(average_bus_bandwidth={"bandwidth": 9.9, "okay": "unchecked"}), "the average"),
    ],
)
def test_a_fault_in_the_file_of_j(said, why):
    parsed = nccl_tests.parse_nccl_tests(json.dumps(said))
    assert not parsed.sound
    assert why in " ".join(parsed.problems)
    assert not any(problem.startswith("line ") for problem in parsed.problems)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps(of_file())[:-9], "a file of nccl-tests -J that is cut"),
        (json.dumps(of_file(version=9)), "version 9 of the file of -J is not known"),
        (json.dumps(of_file(results=[])), "a file of nccl-tests -J that is cut"),
        (json.dumps(of_file(config=None)), "a file of nccl-tests -J that is cut"),
    ],
)
def test_a_file_of_j_that_cannot_be_read(text, why):
    with pytest.raises(ParseError, match=why):
        nccl_tests.parse_nccl_tests(text)


def test_what_j_and_i_add_to_the_table():
    """nccl-tests says first where it writes the file, and in the head what -I measures."""
    said = "# Per-Iteration Report: CUDA event timing; i_* uses max over process rows \n#\n# Using"
    text = "# Writing JSON output to nccl.json\n" + output(timed=True).replace("#\n# Using", said)
    assert said in text
    parsed = nccl_tests.parse_nccl_tests(text)
    assert parsed.sound and parsed.units["time_p99"] == "us"


def test_a_file_of_j_that_is_too_deep_is_refused():
    with pytest.raises(ParseError, match="not what -J writes"):
        nccl_tests.parse_nccl_tests('{"nccl_version": 2, "a": ' + "[" * 100_000)


def test_bounds_that_failed_in_the_file_of_j_count():
    said = of_file(out_of_bounds={"count": 0, "okay": "false"})
    assert not nccl_tests.parse_nccl_tests(json.dumps(said)).sound
