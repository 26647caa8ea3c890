"""``assay judge``: the verdict on an output that somebody sent, and what it cannot know."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest
from real_outputs import DATA

from assay import cli, files
from assay.opinions import sent
from assay.parse.registry import PARSERS

LINK = ("--hardware", "link=infiniband-edr")
ONE_OF_UCX = "[1.0] [n1:7:0]  ucp_worker.c:1905 UCX  INFO  {name} {kind}-node cfg#1 tag({lanes})\n"


def osu_bw(rate, last=22):
    """An output of osu_bw: half of `rate` [MB/s] at 4 KiB, and so on, up to `rate`."""
    sizes = [1 << n for n in range(last + 1)]
    rows = "".join(f"{size:<10}{rate * size / (size + 4096):>20.2f}\n" for size in sizes)
    return f"# OSU MPI Bandwidth Test v7.2\n# Size      Bandwidth (MB/s)\n{rows}"


def ping_pong(last, rate=12000):
    """An output of PingPong over a link: 2 us, and `rate` MB/s; up to 1 << `last`."""
    real = (DATA / "imb/2021.7.pingpong.txt").read_text()
    head, _, table = real.partition("Mbytes/sec\n")
    head = re.sub(r"(Maximum message length in bytes: +)\d+", rf"\g<1>{1 << last}", head)
    times = {size: 2 + size / rate for size in (0, *(1 << n for n in range(last + 1)))}
    rows = "".join(f"{n:13}{9:13}{t:13.2f}{n / t:13.2f}\n" for n, t in times.items())
    return f"{head}Mbytes/sec\n{rows}{table[table.index(chr(10) * 2) + 1 :]}"


def log(*lanes):
    return ONE_OF_UCX.format(name="ucp_context_0", kind="inter", lanes=" ".join(lanes))


@pytest.mark.parametrize("more", [(), LINK])
def test_an_output_of_each_program_gets_an_answer(more, tmp_path, capsys):
    """Whatever a column has: the size of NPB is that of a grid."""
    for family in PARSERS:
        first = min((DATA / family).glob("*.txt"))
        shutil.copy(first, tmp_path / f"{family}.txt")
    shutil.copy(DATA / "npb/ft.W.x.np1.txt", tmp_path / "npb.txt")
    assert cli.main(["judge", str(tmp_path), *more]) in (0, 1, 3)
    said = capsys.readouterr().out
    assert {family for family in PARSERS if f"/{family}.txt" not in said} == set()
    assert "at best (128x128x32" in said


@pytest.fixture
def judged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_RESULTS", raising=False)

    def judge(text, *options):
        (tmp_path / "sent.txt").write_text(text)
        code = cli.main(["judge", "sent.txt", *options])
        out, err = capsys.readouterr()
        return code, out, err

    return judge


def test_a_good_rate_over_a_proven_path_passes(judged):
    code, out, _ = judged(log("rc_mlx5/mlx5_0:1") + osu_bw(12000), *LINK)
    assert (code, out.split(":")[0]) == (0, "PASS")
    first = out.split("\n")[0]
    assert first.startswith("PASS: sent.txt: osu_bw 7.2 measured 11990 MB/s at best (4 MiB, 2 ")
    assert first.endswith("6 owners: 87% to 99% of the peak; path rc_mlx5/mlx5_0:1")
    assert "96% of infiniband-edr" in out
    assert "no launch was witnessed" in out
    assert "not known: the path" not in out


def test_a_path_that_nobody_saw_never_passes(judged):
    code, out, _ = judged(osu_bw(12000), *LINK)
    assert (code, out.split(":")[0]) == (3, "INCONCLUSIVE")
    assert "not known: the path" in out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (osu_bw(1800), "it reached 1798 MB/s in one direction, 14% of infiniband-edr"),
        (log("tcp/eth0") + osu_bw(12000), "the bytes took tcp/eth0, which is not infiniband-edr"),
        (osu_bw(12000)[:-30], "the output is not whole"),
        ("[1.0] [n1:7:0] ib_mlx5_log.c:177 UCX  ERROR Local protection on mlx5_0:1/IB\n"
         + osu_bw(12000), "line 1: UCX ERROR: Local protection on mlx5_0:1/IB"),
    ],
)  # fmt: skip
def test_what_fails(judged, text, why):
    code, out, _ = judged(text, *LINK)
    assert (code, out.split(":")[0]) == (1, "FAIL")
    assert f"  FAIL: {why}" in out


@pytest.mark.parametrize(("last", "compared"), [(17, False), (22, True)])
def test_one_message_alone_must_be_long_to_show_the_rate_of_a_link(judged, last, compared):
    """Half of the time of 64 KiB is the way there: a healthy link would be called too slow."""
    code, out, _ = judged(ping_pong(last), *LINK)
    assert code != 1, out
    assert ("in one direction" in out) is compared


def test_a_rate_above_that_of_the_link_is_not_believed(judged):
    code, out, _ = judged(log("rc_mlx5/mlx5_0:1") + osu_bw(24000), *LINK)
    assert (code, out.split(":")[0]) == (3, "INCONCLUSIVE")
    assert "192% of infiniband-edr; is it another link, or are they several?" in out


def test_both_directions_count_as_one_link(judged):
    both = osu_bw(24000).replace("MPI Bandwidth", "MPI Bi-Directional Bandwidth")
    assert "96% of infiniband-edr" in judged(both, *LINK)[1]
    code, out, _ = judged(both, "--hardware", "link=infiniband-ndr")
    assert (code, out.split(":")[0]) == (3, "INCONCLUSIVE")
    assert "24% of infiniband-ndr; measure one direction" in out


def test_a_dent_in_the_curve_is_named(judged):
    rows = osu_bw(12000).splitlines()
    at = next(n for n, row in enumerate(rows) if row.startswith("131072 "))
    rows[at] = f"{131072:<10}{100:>20.2f}"
    code, out, _ = judged("\n".join(rows) + "\n")
    assert (code, out.split(":")[0]) == (3, "INCONCLUSIVE")
    assert "implausible: a message of 131072 B" in out


def test_messages_too_short_for_the_rate_of_a_link(judged):
    code, out, _ = judged(osu_bw(12000, last=10), *LINK, "--last-size", "1024")
    assert (code, out.split(":")[0]) == (0, "RECORDED")
    assert "% of" not in out


def test_of_a_collective_it_says_what_decides(judged):
    rows = "".join(f"{1 << k:<10}{5 + (1 << k) / 9000:>18.2f}\n" for k in range(2, 21))
    text = f"# OSU MPI Allreduce Latency Test v7.1\n# Size       Avg Latency(us)\n{rows}"
    _, out, _ = judged(text, *LINK)
    assert out.startswith("RECORDED: sent.txt: osu_allreduce 7.1 measured 5 us at best (4 B), and")
    assert "not known: what these ranks should need: their number, their nodes" in out
    assert "next: send osu_latency and osu_bw between two of these nodes" in out


def test_no_message_is_long_enough_for_the_named_link(judged):
    assert "next: run it up to long messages" in judged(osu_bw(12000, 10), *LINK)[1]


def test_nothing_to_compare_with_is_recorded(judged):
    code, out, _ = judged(osu_bw(12000))
    assert (code, out.split(":")[0]) == (0, "RECORDED")
    assert "not known: what the machine should deliver" in out


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "sites" / "mine"
    folder.mkdir(parents=True)
    bounds = {"value": 12000, "unit": "MB/s", "lower": -0.1, "upper": 0.5}
    entry = {
        "for": {"partition": "ib", "test": "Osu", "benchmark": "bw"},
        "metrics": {"bandwidth_1MiB": bounds},
        "source": "text of the validation",
    }
    others = {"for": {"partition": "*"}, "why": "not judged here"}
    document = {"references": [entry], "recorded": [others]}
    (folder / "references.yaml").write_text(json.dumps(document))
    return "--site", "mine", "--folder", str(folder.parent)


def test_a_reference_that_is_a_share_of_the_peak(judged, site, tmp_path):
    """The floor of a site counts for the link that the caller names, and not without a name."""
    file = tmp_path / "sites" / "mine" / "references.yaml"
    document = json.loads(file.read_text())
    document["references"][0]["metrics"]["bandwidth_1MiB"]["peak_floor"] = 0.95
    file.write_text(json.dumps(document))
    sent = log("rc_mlx5/mlx5_0:1") + osu_bw(11500)
    assert judged(sent, *site, *CASE)[1].startswith("not judged: ")
    assert judged(sent, *site, *CASE, *LINK)[1].startswith("FAIL: ")


def test_one_message_alone_may_wait_half_of_its_time(judged):
    """The lowest published healthy one has 42 % of its link; half of many at once is too slow."""
    text = ping_pong(22, rate=6000)
    assert judged(log("rc_mlx5/mlx5_0:1") + text, *LINK)[0] != 1
    assert judged(log("rc_mlx5/mlx5_0:1") + ping_pong(22, rate=3000), *LINK)[0] == 1


CASE = ("--case", "partition=ib", "--case", "test=Osu")


@pytest.mark.parametrize(("rate", "word"), [(12000, "PASS"), (9000, "FAIL")])
def test_the_references_of_a_site(judged, site, rate, word):
    _, out, _ = judged(log("rc_mlx5/mlx5_0:1") + osu_bw(rate), *site, *CASE)
    assert out.startswith(word)
    assert f"{word}: bandwidth_1MiB" in out
    assert "(text of the validation)" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--hardware", "link=infiniband-erd"), "did you mean 'infiniband-edr'?"),
        (("--hardware", "lnk=infiniband-edr"), "no role 'lnk'; did you mean 'link'?"),
        (("--hardware", "infiniband-edr"), "write it like --hardware link=infiniband-hdr"),
        (("--site", "ibisko"), "no such site; did you mean 'ibisco'?"),
    ],
)
def test_a_wrong_word_is_one_clear_line(judged, options, said):
    code, out, err = judged(osu_bw(12000), *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("assay judge: ")
    assert said in err


def test_a_metric_without_a_reference_does_not_hide_another(judged, site, tmp_path):
    """A site without a rule for the rest refuses what it does not know."""
    file = tmp_path / "sites" / "mine" / "references.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "recorded": None}))
    _, out, _ = judged(log("rc_mlx5/mlx5_0:1") + osu_bw(12000), *site, *CASE)
    assert out.startswith("PASS")


def test_a_case_that_no_reference_fits_names_those_that_the_site_has(judged, site):
    code, out, _ = judged(osu_bw(12000), *site)
    assert (code, out.split(":")[0], out.count("\n")) == (2, "not judged", 1)
    assert (
        "--case and --hardware say which: it has {partition: ib, test: Osu, benchmark: bw}" in out
    )


def test_what_is_no_output(judged):
    code, out, _ = judged("hello\n")
    assert code == 2
    assert out.startswith(
        "not read: sent.txt: no known program printed this\n  next: assay judge reads"
    )


def test_every_recorded_output_gets_a_verdict(judged):
    """Of any program, with or without a curve."""
    for folder in ("hpl", "imb", "ior", "nccl-tests", "netpipe", "ib-perftest"):
        for file in sorted((DATA / folder).glob("*.txt"))[:3]:
            code, out, err = judged(file.read_text(errors="replace"), *LINK)
            assert not err
            assert code in (0, 1, 3) or out.startswith("not read: ")
            assert out.count("no launch was witnessed") == out.count("sent.txt") * (code != 2)


def test_all_reduce_of_nccl_over_sockets_is_not_infiniband(judged):
    text = (DATA / "nccl-tests/all_reduce.2.14.n2g2.log.txt").read_text()
    assert "NET/IB" in text
    assert "which is not infiniband-edr" not in judged(text, *LINK)[1]
    _, out, _ = judged(text.replace("NET/IB", "NET/Socket"), *LINK)
    assert "FAIL: the bytes took NET/Socket" in out


def test_it_needs_no_checkout_around():
    assert (files.SUITE / "site-config" / "hardware").exists()


UNREAD = {
    "HPL-MxP": "HPL-MxP-NVIDIA 25.4.0  -- NVIDIA accelerated HPL-MxP benchmark -- NVIDIA",
    "gpu-burn": "100.0%  proc'd: 1400 (3064 Gflop/s)   errors: 0   temps: 70 C",
    "NVIDIA's STREAM": "NVIDIA STREAM benchmark",
    "GPCNeT": "Network Tests v1.3",
    "fio for people": "randread: (groupid=0, jobs=8): err= 0: pid=2619: Mon Apr 23 15:41:29 2018",
    "nvidia-smi": "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |",
    "dcgmi diag": "Successfully ran diagnostic for group.",
    "ibstat": "CA 'mlx5_0'",
    "perfquery": "# Port counters: Lid 1 port 1 (CapMask: 0x5A00)",
    "ucx_info -e": "# UCP endpoint",
    "lscpu": "Architecture:                       x86_64",
    "HPCG of NVIDIA": "HPCG version: HPCG-3.1 NVIDIA",
    "NPB 3.3": " NAS Parallel Benchmarks 3.3 -- BT Benchmark",
}


def test_each_program_without_a_reader_is_known_by_name(judged):
    document = files.read_yaml(Path(sent.__file__).with_name("unread.yaml"), ValueError)
    assert {each["name"] for each in document["programs"]} == {*UNREAD}
    for name, text in UNREAD.items():
        code, out, _ = judged(f"{text}\n")
        assert code == 2
        assert out.startswith(f"not read: sent.txt: an output of {name}, which has no reader: ")


@pytest.mark.parametrize(
    "line",
    [
        'ior ERROR: open64("f", 2) failed, errno 2, No such file or directory (aiori-POSIX.c:473)',
        "n1:77:91 [0] misc/socket.cc:50 NCCL WARN socketStartConnect: Connect to 10.0.0.1 failed",
        "CUDA error: out of memory",
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0",
        "./osu_bw: error while loading shared libraries: libmpi.so.40: cannot open shared object",
    ],
)
def test_what_looks_like_the_reason_is_shown(judged, line):
    code, out, _ = judged(f"hello\n{line}\nbye\n")
    assert code == 2
    assert f"line 2 looks like the reason: {line[:60]}" in out


def test_a_text_that_names_a_program_is_told_which(judged):
    assert "the nearest is osu_bw, whose first lines" in judged("srun osu_bw\n4194304 12000\n")[1]


def test_json_is_an_object_for_each_output(judged):
    code, out, _ = judged(osu_bw(12000) + osu_bw(1800), *LINK, "--json")
    said = [json.loads(row) for row in out.splitlines()]
    assert code == 1
    assert [each["verdict"] for each in said] == ["INCONCLUSIVE", "FAIL"]
    schema = json.loads((files.SUITE / "site-config/schemas/answer.json").read_text())
    check_schema(schema, said)


def check_schema(schema, objects):
    """Each key is in the schema, and each required one is there."""
    keys = schema["$defs"]["Answer"]
    for each in objects:
        assert {*keys["required"]} <= {*each} <= {*keys["properties"]}


@pytest.mark.parametrize("form", ["folder", "tar", "zip"])
def test_a_folder_and_an_archive_of_outputs(form, tmp_path, capsys):
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "a.txt").write_text(osu_bw(12000))
    (folder / "b.txt").write_text("hello\n")
    path = folder
    if form != "folder":
        path = Path(shutil.make_archive(str(tmp_path / "all"), form, folder))
    assert cli.main(["judge", str(path)]) == 2
    rows = capsys.readouterr().out.splitlines()
    firsts = sorted((row for row in rows if row[0] != " "), key=lambda row: "b.txt" in row)
    assert [row.split(":")[0] for row in firsts] == ["RECORDED", "not read"]
    assert all(name in row for name, row in zip(("a.txt", "b.txt"), firsts))


def test_the_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(osu_bw(12000).encode())))
    assert cli.main(["judge", "-"]) == 0
    assert capsys.readouterr().out.startswith("RECORDED: -: osu_bw 7.2 measured")


def test_a_file_that_is_not_there_is_named(capsys):
    assert cli.main(["judge", "nowhere.txt"]) == 2
    assert capsys.readouterr().out.startswith("not read: nowhere.txt: No such file or directory\n")


GPU = """BabelStream
Version: 5.0
Implementation: CUDA
Running kernels 100 times
Precision: double
Array size: 268.4 MB (=0.3 GB)
Total size: 805.3 MB (=0.8 GB)
Using CUDA device {model}
Function    MBytes/sec  Min (sec)   Max         Average
"""


def babelstream(rate, model="Tesla V100-SXM2-32GB"):
    moved = {"Copy": 2, "Mul": 2, "Add": 3, "Triad": 3, "Dot": 2}
    rows = "".join(
        f"{name:<12}{rate:<12.3f}{n * 268.4 / rate:<12.5f}{n * 268.6 / rate:<12.5f}"
        f"{n * 268.5 / rate:<12.5f}\n"
        for name, n in moved.items()
    )
    return GPU.format(model=model) + rows


@pytest.mark.parametrize(("rate", "word"), [(830_000, "PASS"), (415_000, "FAIL")])
def test_a_gpu_that_the_output_names_is_compared_with_its_like(judged, rate, word):
    _, out, _ = judged(babelstream(rate))
    assert out.startswith(f"{word}: sent.txt: babelstream")
    assert "hardware: gpu v100-sxm2-32gb (as the output says)" in out


def test_babelstream_on_processors_is_not_compared_with_gpus(judged):
    """Java, Julia, TBB and their like; a small machine is below what any GPU does."""
    text = babelstream(9_000).replace("Using CUDA device Tesla V100-SXM2-32GB\n", "")
    text = text.replace("Implementation: CUDA", "Implementation: TBB")
    assert "TBB" in text and judged(text)[1].startswith("RECORDED")


def test_the_gpu_that_the_caller_names_is_used(judged):
    of_none = judged(babelstream(415_000, "Some GPU"))[1]
    assert of_none.startswith("RECORDED")
    said = judged(babelstream(415_000, "Some GPU"), "--hardware", "gpu=v100-sxm2-32gb")[1]
    assert said.startswith("FAIL")
    assert "% of v100-sxm2-32gb" in said


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("rate:            100 Gb/sec (4X EDR)", "infiniband-edr"),
        ("Rate: 56", "infiniband-fdr"),
        ("Rate: 100", ""),  # EDR, or two lanes of HDR
    ],
)
def test_a_port_in_the_same_text_names_the_link(judged, said, name):
    _, out, _ = judged(f"\t{said}\n{osu_bw(6000)}")
    assert ("hardware: link " in out) is bool(name)
    assert f"hardware: link {name}" in out or not name


def test_hpl_on_gpus_is_compared_with_the_peak_of_each(judged):
    """A hundredth of a GPU, by the program of NVIDIA; the same of xhpl says nothing of a GPU."""
    text = (DATA / "hpl/plain.np2.txt").read_text()
    banner = "HPL-NVIDIA 24.3.0  -- NVIDIA accelerated HPL benchmark -- NVIDIA\n" + "=" * 80
    nvidia = text.replace("HPLinpack 2.3", f"{banner}\nHPLinpack 2.1", 1)
    gpu = ("--hardware", "gpu=a100-sxm4-40gb")
    assert judged(nvidia, *gpu)[1].startswith("FAIL: sent.txt: xhpl (HPL-NVIDIA)")
    assert judged(text, *gpu)[1].startswith("RECORDED: ")


def test_ports_of_two_kinds_name_no_link(judged):
    port = "state: 4: ACTIVE\nrate: 100 Gb/sec (4X EDR)\nlink_layer: "
    ports = f"{port}InfiniBand\n{port}Ethernet\n"
    assert "hardware: link" not in judged(ports + osu_bw(6000))[1]


def test_the_evidence_has_the_worst_first(judged):
    _, out, _ = judged(log("tcp/eth0") + osu_bw(12000), *LINK, "--json")
    words = [each["verdict"] for each in json.loads(out)["evidence"]]
    assert words == sorted(words, key=["FAIL", "INCONCLUSIVE", "PASS", "RECORDED"].index)
    assert {"FAIL", "PASS"} <= {*words}


def test_an_archive_that_holds_too_much_is_named_and_not_read(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sent, "MOST_BYTES", 1000)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.txt").write_text("x" * 2000)
    path = shutil.make_archive(str(tmp_path / "all"), "gztar", tmp_path / "a")
    assert cli.main(["judge", path]) == 2
    assert "the archive holds over 1000 B" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ["--case=sockets=two"],
            "'sockets=two': write it like --case partition=NAME or --case cores=64",
        ),
        (["--case=cores=0"], "'cores=0': write it like --case partition=NAME or --case cores=64"),
        (["--case=cores=1", "--case=cores=2"], "cores=1 cores=2: two values of one name"),
    ],
)
def test_wrong_words_of_the_caller(judged, options, why):
    assert judged(osu_bw(12000), *options) == (2, "", f"assay judge: {why}\n")


def test_a_negative_size_ends_no_answer(judged):
    text = ping_pong(20).replace("            2            9", "           -2            9")
    assert judged(text, *LINK)[1].startswith("FAIL")
