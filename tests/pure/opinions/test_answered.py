"""Twenty answers of ``assay judge``, as docs/answers.txt prints them.

`PYTHONPATH=tests:tests/pure python tests/pure/opinions/test_answered.py` writes the file again.
"""

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path

import nccl_form
import pytest
from node_form import AMD, stream
from real_outputs import DATA

from assay import cli
from assay.exits import Exit

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/answers.txt"
EDR = "--hardware link=infiniband-edr"
LOG = "[1.0] [n1:7:0]  ucp_worker.c:1905 UCX  INFO  ucp_context_0 inter-node cfg#1 tag({})\n"


def osu_bw(best=12100, last=22, slow=lambda size: 1):
    """osu_bw with the rate `best` [MB/s]; `slow` is a factor by size."""
    rates = {n: best * n / (n + 3000) * slow(n) for n in (1 << k for k in range(last + 1))}
    rows = "".join(f"{n:<10}{rate:>18.2f}\n" for n, rate in rates.items())
    return f"# OSU MPI Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n{rows}"


def osu_latency(first):
    rows = "".join(f"{n:<10}{first + n / 12100:>18.2f}\n" for n in (1 << k for k in range(23)))
    return f"# OSU MPI Latency Test v7.4\n# Size          Latency (us)\n{rows}"


def both_ways():
    return osu_bw(24000).replace("MPI Bandwidth", "MPI Bi-Directional Bandwidth")


def nccl(best):
    """all_reduce_perf on eight H100; the bus bandwidth of long messages is `best` [GB/s]."""
    form = nccl_form.output(gpus=8, sizes=9, first=1 << 17, step=4)
    rates = []

    def row(found):
        size, count = int(found[1]), found[2]
        time = 20 + size * 1.75 / best / 1e3
        rates.append(round(size / time / 1e3 * 1.75, 2))
        measured = f"{time:>8.2f} {size / time / 1e3:>7.2f} {rates[-1]:>7.2f}      0"
        return f"{size:>12} {count:>13}     float     sum      -1 {measured} {measured}"

    text = re.sub(r"(?m)^ *(\d+) +(\d+) +float.*$", row, form.replace("Model G8", H100))
    average = sum(rates) / len(rates)
    return re.sub(r"(# Avg bus bandwidth +: ).*", rf"\g<1>{average:.6g}", text)


def recorded(name):
    return (DATA / name).read_text(errors="replace")


def labelled(text):
    return "".join(f"0: {line}\n" for line in text.removesuffix("\n").split("\n"))


H100 = "NVIDIA H100 80GB HBM3"
IB = LOG.format("rc_mlx5/mlx5_0:1")
FALLS = {"slow": lambda size: 0.25 if size >= 1 << 19 else 1}

#: What happened -> the text, and the options of the command.
SENT = {
    "A healthy osu_bw over InfiniBand EDR, with a log of UCX": (IB + osu_bw(), EDR),
    "The same at half the rate": (IB + osu_bw(6050), EDR),
    "The same over the Ethernet port": (LOG.format("tcp/eth0") + osu_bw(2900), EDR),
    "Long messages are slow": (IB + osu_bw(**FALLS), EDR),
    "Long messages are slow, and nobody says over which link": (osu_bw(**FALLS), ""),
    "One size is slow": (osu_bw(slow=lambda n: 0.05 if n == 1 << 15 else 1), ""),
    "A healthy osu_bw without a log": (osu_bw(), EDR),
    "A healthy osu_bw, and nothing else": (osu_bw(), ""),
    "STREAM at half the rate, with lscpu and dmidecode": (AMD + stream(115e3), ""),
    "Both directions count": (IB + both_ways(), EDR),
    "STREAM on one core of 128": (AMD + stream(15e3, 1), ""),
    "20 us more for each message": (IB + osu_latency(21.2), EDR),
    "A table that ends early": (IB + osu_bw(last=20), EDR),
    "A rank died": (osu_bw()[:400] + "\nsrun: error: n2: task 1: Segmentation fault\n", ""),
    "Labels of srun, and two programs": (labelled(osu_latency(1.4) + osu_bw()), EDR),
    "Eight healthy H100": (nccl(475), ""),
    "Eight H100 at half the rate": (nccl(235), ""),
    "HPL with a wrong result": (recorded("hpl/ten_failed.np2.txt"), ""),
    "gpu-burn found a broken GPU": ("Tested 1 GPUs:\n\tGPU 0: FAULTY\n", ""),
    "A program that did not start": (
        "ior ERROR: open64(\"f\", 2) failed, errno 28, No space left on device\n", "",
    ),
}  # fmt: skip


def answers(name):
    """The command and what it printed, in a folder of its own."""
    text, options = SENT[name]
    said = io.StringIO()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("sent.txt").write_text(text)
            with contextlib.redirect_stdout(said):
                cli.main(["judge", "sent.txt", *options.split()])
        finally:
            os.chdir(before)
    lines = [line for line in said.getvalue().splitlines() if not line.startswith("  ")]
    steps = [line for line in said.getvalue().splitlines() if line.startswith("  next: run")]
    return (
        f"{name}\n$ assay judge sent.txt {options}".rstrip()
        + "\n"
        + "\n".join([*lines, *dict.fromkeys(steps)])
    )


@pytest.mark.parametrize("name", SENT)
def test_the_page_has_the_answer(name):
    assert f"{answers(name)}\n" in PAGE.read_text()


def test_the_page_has_no_other_answer():
    assert PAGE.read_text().count("$ assay judge ") == len(SENT)


WORDS = {
    "A healthy osu_bw over InfiniBand EDR, with a log of UCX": "PASS",
    "The same at half the rate": "FAIL",
    "Eight H100 at half the rate": "FAIL",
    "A healthy osu_bw, and nothing else": "RECORDED",
    "A table that ends early": "INCONCLUSIVE",
    "A program that did not start": "not read",
}


@pytest.mark.parametrize("name", WORDS)
def test_the_word_that_matters(name):
    assert answers(name).split("\n")[2].startswith(f"{WORDS[name]}: sent.txt: ")


@pytest.mark.parametrize(
    ("least", "log", "red"), [(0.4, "", False), (0.3, "", True), (0.4, IB, True)]
)
def test_messages_that_outgrow_a_cache_are_slower_on_healthy_machines(least, log, red, tmp_path):
    """Over a link none falls as far as that."""
    sent = tmp_path / "sent.txt"
    sent.write_text(log + osu_bw(slow=lambda n: least if n >= 1 << 21 else 1))
    assert (cli.main(["judge", str(sent)]) == Exit.INCONCLUSIVE) is red


if __name__ == "__main__":
    PAGE.write_text("\n".join(f"{answers(name)}\n" for name in SENT))
