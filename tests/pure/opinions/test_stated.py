"""``assay judge`` and the hardware that the same text states: lscpu, nvidia-smi, ibstat."""

import re
from pathlib import Path

import pytest
from node_form import AMD, CASCADE, MILAN, dimms, stream
from real_outputs import DATA

from assay import cli, files
from assay.opinions import pasted, stated
from assay.parse import Parsed, ParseError
from assay.show.outputs import of_text

SITE = files.SUITE / "site-config/any"
GIB = 1 << 30


def hpl(rate, ranks, order=120_000):
    """The recorded output with other numbers; `rate` [GFLOP/s]."""
    text = (DATA / "hpl/plain.np2.txt").read_text()
    took = (2 / 3 * order**3 + 3 / 2 * order**2) / rate / 1e9
    text = text.replace("N      :     300", f"N      :{order:8}")
    text = text.replace("Q      :       2", f"Q      :{ranks:8}")
    row = f"WR11C2R4 {order:11} {32:5} {1:5} {ranks:5} {took:18.2f} {rate:22.4e}"
    return re.sub(r"(?m)^WR11C2R4 .*$", row, text)


def hpcg(rating, ranks, points=104):
    """The recorded report with other numbers."""
    text = (DATA / "hpcg/healthy.txt").read_text()
    text = text.replace("0.338684", str(rating)).replace("Processes=2", f"Processes={ranks}")
    return re.sub(r"Global (n.)=\d+", lambda found: f"Global {found[1]}={4 * points}", text)


@pytest.fixture
def judged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def judge(text, *options):
        Path("sent.txt").write_text(text)
        cli.main(["judge", "sent.txt", *options])
        return capsys.readouterr().out

    return judge


SAID = [f"--hardware={part}" for part in ("processor=epyc-milan", "memory=ddr4-3200")]
SAID += ["--case=sockets=2", "--case=cores=128"]


@pytest.mark.parametrize(
    ("text", "begins", "has"),
    [
        (AMD + stream(230e3), "PASS", "56% of the memory of 2 epyc-milan"),
        (stream(230e3) + AMD, "PASS", "hardware: memory ddr4-3200 (as the output says)"),
        (AMD + stream(115e3), "FAIL", "28% of the memory of 2 epyc-milan; 18 published"),
        (AMD + stream(115e3, 256), "FAIL", "share cores"),
        # What nothing shows is no fault of the node.
        (AMD + stream(15e3, 1), "RECORDED", "not known: a run on the whole node: only 1 of its"),
        (AMD + stream(115e3, 64), "RECORDED", "only 64 of its 128 cores were used"),
        (MILAN + stream(115e3), "RECORDED", "not known: the modules of the memory"),
        (MILAN + dimms(8) + stream(115e3), "RECORDED", "8 modules are in 16 channels"),
        (AMD.replace("512 MiB", "128 MiB") + stream(115e3), "RECORDED", "the whole fabric"),
        (MILAN + dimms(8) + dimms(8, 2933) + stream(115e3), "RECORDED", "the modules of the"),
        (stream(115e3), "RECORDED", "put what lscpu, free and dmidecode"),
        # A good value passes only if its arrays are not in the caches.
        (AMD + stream(300e3, elements=20_000_000), "INCONCLUSIVE", "right if the caches do not"),
        (AMD + stream(600e3), "INCONCLUSIVE", "146% of the memory of 2 epyc-milan"),
        (MILAN + stream(230e3), "PASS", "epyc-milan"),
        # Two processors, a virtual machine.
        (AMD + CASCADE + stream(115e3), "RECORDED", "not known: the processor"),
        (AMD + "Hypervisor vendor: KVM\n" + stream(115e3), "RECORDED", "not known: the processor"),
        (AMD.replace("avx2", "avx2 hypervisor") + stream(115e3), "RECORDED", "the processor"),
    ],
)  # fmt: skip
def test_stream_and_the_memory_of_the_node(judged, text, begins, has):
    out = judged(text)
    assert out.startswith(f"{begins}: sent.txt: stream 5.10 measured ")
    assert has in out


def test_the_caller_names_processor_and_memory(judged):
    assert judged(stream(115e3), *SAID).startswith("RECORDED")  # the caches are not known
    assert judged(stream(230e3, elements=800_000_000), *SAID).startswith("PASS")
    as_wide = ["--hardware=processor=epyc-genoa", "--hardware=memory=ddr5-4800", *SAID[2:]]
    assert judged(stream(250e3), *as_wide).startswith("FAIL")


MEMORY = "Mem:          187Gi       2.9Gi       180Gi\n"


@pytest.mark.parametrize(
    ("text", "begins", "has"),
    [
        (hpl(1900, 40), "INCONCLUSIVE", "59% of 40 cores of cascade-lake-sp"),
        (hpl(1900, 40), "INCONCLUSIVE", "right if its ranks used one node alone"),
        (hpl(700, 40), "FAIL", "22% of 40 cores of cascade-lake-sp"),
        (hpl(1900, 80), "INCONCLUSIVE", "59% of 40 cores"),  # hardware threads
        (hpl(1900, 160, 160_000), "FAIL", "30% of 80 cores"),
        (hpl(1900, 160), "RECORDED", "not known: whether the matrix fills the memory"),
        (hpl(45, 1), "RECORDED", "only 1 of its 40 cores were used"),
        (hpl(700, 40, 20_000), "RECORDED", "not known: whether the matrix fills the memory"),
    ],
)
def test_hpl_and_the_cores_of_the_node(judged, text, begins, has):
    out = judged(CASCADE + MEMORY + text)
    assert out.startswith(f"{begins}: sent.txt: xhpl 2.3 measured ")
    assert has in out


def test_hpl_in_a_memory_that_is_not_known(judged):
    assert judged(CASCADE + hpl(700, 40)).startswith("RECORDED")


@pytest.mark.parametrize(
    ("text", "begins"),
    [(hpcg(40, 128), "INCONCLUSIVE"), (hpcg(3, 128), "FAIL"), (hpcg(3, 4), "RECORDED"),
     (hpcg(3, 128, 16), "RECORDED")],
)  # fmt: skip
def test_hpcg_and_the_memory_of_the_node(judged, text, begins):
    assert judged(AMD + text).startswith(f"{begins}: sent.txt: hpcg")


def named(text):
    parsed = Parsed("osu", "osu_bw", None, True, (), {})
    return {role: name for role, (name, _) in stated.hardware_of([text], parsed, SITE, {}).items()}


def ibstat(*ports):
    return "".join(
        f"CA 'mlx5_{at}'\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: LinkUp\n\t\tRate: "
        f"{rate}\n\t\tBase lid: 4\n\t\tLink layer: {layer}\n"
        for at, (state, rate, layer) in enumerate(ports)
    )


FDR = ("Active", 56, "InfiniBand")
SMI = "|   {}  {:<28} On  | 00000000:07:00.0 Off |                    0 |\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (ibstat(("Active", 56, "InfiniBand")), {"link": "infiniband-fdr"}),
        (ibstat(FDR, ("Down", 10, "InfiniBand")), {"link": "infiniband-fdr"}),
        (ibstat(("Active", 56, "InfiniBand"), ("Active", 25, "Ethernet")), {}),
        (ibstat(("Down", 56, "InfiniBand")), {}),
        (
            "\tstate:\t\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n\trate:\t\t 200 Gb/sec (4X HDR)\n"
            "\tlink_layer:\t InfiniBand\n",
            {"link": "infiniband-hdr"},
        ),
        (SMI.format(0, "NVIDIA H100 80GB HBM3") * 8, {"gpu": "h100-sxm5-80gb"}),
        (SMI.format(0, "NVIDIA A100-SXM...") + "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n",
         {"gpu": "a100-sxm4-80gb"}),
        (SMI.format(0, "NVIDIA L40S") + SMI.format(1, "NVIDIA T400"), {}),
        ("    Product Name                          : NVIDIA H200\n", {"gpu": "h200-sxm5-141gb"}),
        ("GPU[0]\t\t: Card series: \t\tAMD Instinct MI300X\n", {"gpu": "mi300x-192gb"}),
        ("  Uuid:                    GPU-12\n  Marketing Name:          AMD Instinct MI210\n",
         {"gpu": "mi210-64gb"}),
        (MILAN, {"processor": "epyc-milan"}),
        (CASCADE + dimms(2, 2933), {"processor": "cascade-lake-sp", "memory": "ddr4-2933"}),
        # A terminal broke the line of the flags; without flags it may be a virtual machine.
        (MILAN.replace("avx2 sse", "avx\n" + " " * 25 + "2 sse"), {"processor": "epyc-milan"}),
        (re.sub(r" +Flags:.*\n", "", MILAN), {}),
        ("Model name: AMD EPYC 7763 64-Core Processor\n", {}),
    ],
)  # fmt: skip
def test_the_parts_that_a_text_names(text, parts):
    assert named(text) == parts


def test_the_node_of_a_text():
    seen = stated.node_of(AMD + "MemTotal:       263842516 kB\n", {})
    assert seen == stated.Node(2, 128, 256, 0, 512 << 20, 263842516 * 1024, 16)
    assert stated.node_of(CASCADE + MEMORY, {}) == stated.Node(2, 40, 80, 2.5, 0, 187 * GIB, 0)
    assert stated.node_of(AMD + CASCADE, {}).cores == 0


def test_the_hardware_around_counts_for_each_output(judged):
    """In a job's log lscpu stands before the first of several programs."""
    out = judged(AMD + stream(230e3) + stream(115e3), "--json").splitlines()
    assert ['"verdict":"PASS"' in out[0], '"verdict":"FAIL"' in out[1]] == [True, True]


SMBIOS = "# dmidecode 3.3\nGetting SMBIOS data from sysfs.\nSMBIOS 3.3.0 present.\n\nHandle 0x1\n"
FREE = "              total        used        free\nMem:          187Gi       2.9Gi       180Gi\n"


@pytest.mark.parametrize(
    "machine",
    [MILAN, CASCADE, SMBIOS + dimms(2) + "\tError Information Handle: 0x10\n", FREE,
     ibstat(("Active", 56, "InfiniBand")), "| NVIDIA-SMI 550 |\n" + SMI.format(0, "NVIDIA L40S"),
     "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X\n"],
)  # fmt: skip
@pytest.mark.parametrize("family", ["fabtests", "ib-perftest", "iozone", "stream"])
def test_what_describes_the_machine_may_stand_around_any_output(family, machine):
    found = [
        path for path in (DATA / family).glob("*.txt") if sound(path.read_text(errors="replace"))
    ]
    assert found
    for path in found:
        for text in (
            machine + path.read_text(errors="replace"),
            path.read_text(errors="replace") + machine,
        ):
            (its,) = [each.parsed for each in pasted.outputs(text) if each.parsed]
            assert its.sound


def sound(text):
    try:
        return of_text(text).sound
    except ParseError:
        return False


def test_an_error_beside_what_describes_the_machine_is_not_lost(judged):
    text = next(
        filter(
            sound, (path.read_text(errors="replace") for path in (DATA / "fabtests").glob("*.txt"))
        )
    )
    assert judged(text + MILAN + "srun: error: n1: task 0: Killed\n").startswith("FAIL")


def test_blank_lines_cost_no_time():
    """A part of a long text stands after as many empty lines; a pattern over them would not end."""
    text = "\n" * 200_000 + MILAN
    assert named(text) == {"processor": "epyc-milan"} and stated.node_of(text, {}).sockets == 2


@pytest.mark.parametrize(
    "line",
    ["Segmentation fault (core dumped)", "NVRM: Xid (PCI:0000:07:00): 79, GPU fell off the bus.",
     "slurmstepd: *** STEP 1.0 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***"],
)  # fmt: skip
def test_what_broke_beside_a_good_value_makes_it_doubtful(judged, line):
    for text in (AMD + stream(230e3) + line, line + "\n" + AMD + stream(230e3)):
        out = judged(text)
        assert out.startswith("INCONCLUSIVE") and f"the text also says {line!r}" in out
    assert judged(AMD + stream(230e3) + "srun: error: it was killed, ignoring\n")[:4] == "PASS"
    both = judged(AMD + stream(230e3) + line + "\n" + stream(230e3)).splitlines()
    assert [out.split(":")[0] for out in both if "measured" in out] == ["INCONCLUSIVE", "PASS"]


@pytest.mark.parametrize(
    "line", ["n1: Connection refused", "\tGPU 0: uncorrectable ECC error encountered", "|ERR! |"]
)
def test_a_failure_among_lines_of_a_machine_is_no_line_of_it(line):
    text = next(t for path in (DATA / "ib-perftest").glob("*.txt") if sound(t := path.read_text()))
    assert not pasted.outputs(f"{text}{MILAN}{line}\n")[0].parsed.sound


def test_the_modules_of_two_nodes_are_not_those_of_one(judged):
    text = (MILAN + dimms(8)) * 2 + stream(115e3)
    assert judged(text).startswith("RECORDED") and "8 modules are in 16 channels" in judged(text)


def osu_bw(rate):
    rows = "".join(f"{n:<10}{rate * n / (n + 4096):>20.2f}\n" for n in (1 << k for k in range(23)))
    return f"# OSU MPI Bandwidth Test v7.2\n# Size      Bandwidth (MB/s)\n{rows}"


PORT = "Infiniband device 'mlx5_0' port 1 status:\n\tstate: 4: ACTIVE\n\trate: {}\n\n"


def test_a_port_beside_an_output_may_not_have_carried_it(judged):
    """Two ranks in one node are slower than a fast link, and nothing is wrong."""
    port, text = PORT.format("200 Gb/sec (4X HDR)"), osu_bw(12_000)
    assert judged(port + text).startswith("INCONCLUSIVE")
    assert judged(text, "--hardware=link=infiniband-hdr").startswith("FAIL")


def test_the_ports_of_a_node_say_nothing_of_its_gpus():
    gpus = [{"name": "NVIDIA H100 80GB HBM3"}] * 8
    parsed = Parsed("nccl-tests", "all_reduce_perf", None, True, (), {}, (), {"gpus": gpus})
    for nodes, link in ((1, "nvlink4-18-links"), (2, "infiniband-hdr")):
        seen = parsed.__class__(**{**vars(parsed), "facts": {"gpus": gpus, "nodes": nodes}})
        found = stated.hardware_of([PORT.format("200 Gb/sec (4X HDR)")], seen, SITE, {})
        assert found["link"][0] == link


def test_what_the_caller_says_against_the_text_is_shown(judged):
    out = judged(AMD + stream(230e3), "--hardware=processor=epyc-genoa")
    assert "processor epyc-genoa (stated; the output says epyc-milan)" in out


@pytest.mark.parametrize("blanks", ["\t" * 200_000 + "x\n", (" " * 400 + "\n") * 4000])
def test_blanks_cost_no_time(blanks):
    assert named(blanks + MILAN + dimms(1)) == {"processor": "epyc-milan", "memory": "ddr4-3200"}
    assert pasted._without_machine(MILAN + blanks + MILAN).strip() in ("", "x")
