"""Texts as people paste them: each recorded output, with what pasting and launching do to it."""

import random
import re

import nccl_form
import pytest
from real_outputs import DATA

from assay.opinions.pasted import outputs
from assay.parse import ParseError
from assay.parse.registry import PARSERS, parse_output

BW = """# OSU MPI Bandwidth Test v7.4
# Size      Bandwidth (MB/s)
"""
BW += "".join(f"{1 << n:<10}{12000 * (1 << n) / ((1 << n) + 4096):>18.2f}\n" for n in range(23))
LATENCY = "# OSU MPI Latency Test v7.4\n# Size          Latency (us)\n"
LATENCY += "".join(f"{1 << n:<10}{1.5 + (1 << n) / 12000:>18.2f}\n" for n in range(23))


def sound():
    """Family and name -> text of each recorded output that is sound and not long."""
    found = {}
    for family in PARSERS:
        for path in sorted((DATA / family).glob("*.txt")):
            text = path.read_text(errors="replace")
            try:
                if len(text) < 60_000 and parse_output(text).sound:
                    found[f"{family}/{path.name}"] = text
            except ParseError:
                continue
    return found


SOUND = sound()


def each_line(prefix):
    return lambda text: "".join(f"{prefix}{line}\n" for line in text.removesuffix("\n").split("\n"))


def shuffled_ranks(text):
    """Another rank says hello between the lines."""
    lines = [f"0: {line}" for line in text.removesuffix("\n").split("\n")]
    at = random.Random(len(text)).randrange(len(lines))
    return "\n".join([*lines[:at], "1: hello from rank 1", *lines[at:]]) + "\n"


DAMAGES = {
    "no line end": lambda text: text.removesuffix("\n"),
    "srun --label": each_line("0: "),
    "srun --label, two ranks": shuffled_ranks,
    "tag-output": each_line("[1,0]<stdout>:"),
    "tag-output of PRRTE": each_line("[prterun-n1-7@1,0]<stdout>: "),
    "PALS": each_line("nid001 0: "),
    "Hydra": each_line("[0] "),
    "kubectl": each_line("[pod/launcher-x7/mpi] "),
    "time stamps": each_line("2026-03-03T10:22:01.123456Z "),
    "time stamps in brackets": each_line("[2026-03-03 10:22:01] "),
    "syslog": each_line("Mar  3 10:22:01 n1 slurm[77]: "),
    "quotes": each_line("> "),
    "a label in a quote": each_line("> 0: "),
    "indentation": each_line("    "),
    "colours": lambda text: re.sub("(?m)^(.*)$", "\x1b[32m\\1\x1b[0m", text),
    "CR LF": lambda text: text.replace("\n", "\r\n"),
    "a prompt before and after": lambda text: (
        f"[me@login1 ~]$ srun -n 2 ./benchmark\n{text}[me@login1 ~]$ \n"
    ),
    "a job script around": lambda text: (
        "Loading openmpi/5.0.3\nTue Mar  3 10:22:01 UTC 2026\n+ srun ./benchmark\n"
        f"{text}\nreal\t0m3.201s\nuser\t0m0.010s\nsys\t0m0.020s\n"
    ),
    "a page": lambda text: (
        "<html><body><pre>"
        + text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace(" ", "\xa0")
        + "</pre></body></html>\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_pasting_and_launching_do_costs_no_output(damage, short):
    """At least 99 of 100 are read, and none with another number."""
    lost = []
    # The short run damages a quarter of the outputs, and each damage another one.
    chosen = slice([*DAMAGES].index(damage) % 4, None, 4) if short else slice(None)
    for name, text in [*SOUND.items()][chosen]:
        rows = parse_output(text).rows
        found = [s.parsed for s in outputs(DAMAGES[damage](text)) if s.parsed and s.parsed.sound]
        assert all(parsed.rows == rows for parsed in found), name
        if not found:
            lost.append(name)
    assert len(SOUND) > 100
    assert len(lost) <= len(SOUND) // 100, lost


def test_several_programs_in_a_text_are_each_read():
    found = outputs(f"$ srun osu_latency\n{LATENCY}\n$ srun osu_bw\n{BW}$ srun osu_bw\n{BW}")
    assert [(s.parsed.program, s.parsed.sound) for s in found] == [
        ("osu_latency", True), ("osu_bw", True), ("osu_bw", True),
    ]  # fmt: skip
    assert [s.line for s in found] == [1, 29, 55]


def test_one_of_several_that_is_cut_does_not_hide_the_others():
    found = outputs(f"{BW[:300]}\nsrun: error: n1: task 0: Killed\n{LATENCY}")
    assert [(s.parsed.program, s.parsed.sound) for s in found] == [
        ("osu_bw", False), ("osu_latency", True),
    ]  # fmt: skip
    assert any("Killed" in problem for problem in found[0].parsed.problems)


def test_a_log_before_a_title_belongs_to_it():
    log = (
        "[1.0] [n1:7:0]  ucp_worker.c:1905 UCX  INFO  ucp_context_0 inter-node cfg#1 "
        "tag({}/mlx5_0:1)\n"
    )
    found = outputs(log.format("rc_mlx5") + LATENCY + log.format("dc_mlx5") + BW)
    assert [[*s.parsed.facts["path"]["lanes"]] for s in found] == [
        ["rc_mlx5/mlx5_0:1"], ["dc_mlx5/mlx5_0:1"],
    ]  # fmt: skip


def test_a_last_row_that_is_cut_is_no_row_of_a_copy():
    whole, cut = outputs(BW[:-1])[0], outputs(BW[:-2])[0]
    assert whole.parsed.sound
    assert whole.notes == ("read with the line end that a copy loses",)
    assert not cut.parsed.sound


@pytest.mark.parametrize(("command", "told"), [("", False), ("$ osu_bw -m 1:65536\n", True)])
def test_a_table_that_ends_early(command, told):
    """It was told to, or it was cut: only the command line says which."""
    rows = BW.split("\n")
    ended = command + "\n".join(rows[: 2 + 17]) + "\n"
    (sent,) = outputs(ended)
    assert sent.parsed.sound
    assert sent.parsed.facts.get("ends_early") == (None if told else 65536)


def test_rows_are_missing_in_the_middle_whatever_stands_before_the_lines():
    rows = BW.split("\n")
    gone = "\n".join(rows[:10] + rows[12:])
    (sent,) = outputs(each_line("0: ")(gone))
    assert any("rows are missing" in problem for problem in sent.parsed.problems)


FAILURES = ["[n2:77:0] ib_mlx5_log.c:1 UCX  ERROR  Local protection", "Segmentation fault (11)"]


@pytest.mark.parametrize("said", [*FAILURES, "n2: task 1: Killed", "validation failed at rank 1"])
def test_what_another_process_says_of_a_failure_is_not_left_out(said):
    lines = [f"0: {line}" for line in BW.splitlines()]
    (sent,) = outputs("\n".join([*lines[:9], f"1: {said}", *lines[9:]]) + "\n")
    assert not sent.parsed.sound


def test_ranks_that_each_ran_alone_are_not_one_output():
    """Each started a world of its own: the MPI of the launcher is another one."""
    both = [f"{rank}: {line}" for line in BW.splitlines() for rank in (0, 1)]
    assert not any(sent.parsed.sound for sent in outputs("\n".join(both) + "\n") if sent.parsed)


def test_a_prompt_that_tells_of_a_failure_is_not_left_out():
    (sent,) = outputs(BW[:400] + "me@n1: fatal error at 50% of the run\n" + BW[400:])
    assert not sent.parsed.sound


def test_a_text_of_nothing():
    (sent,) = outputs("")
    assert (sent.parsed, sent.why) == (None, "unknown program")


def test_a_row_that_a_program_prints_in_pieces_has_a_tag_before_each():
    """nccl-tests prints a row in three pieces, and mpirun --tag-output tags each."""
    text = nccl_form.output(nodes=2, gpus=2)
    tagged = "".join(f"[1,0]<stdout>:{line}\n" for line in text.removesuffix("\n").split("\n"))
    pieces = re.sub(r"(?m)^(\S+ +\d+ .*?-1)(  .*?)$", r"\1[1,0]<stdout>:\2[1,0]<stdout>:", tagged)
    assert pieces.count("[1,0]<stdout>:") > tagged.count("[1,0]<stdout>:")
    (its,) = outputs(pieces)
    assert its.parsed.sound and its.parsed.rows == parse_output(text).rows


def run_of_imb(*names, end=True):
    """A run of several benchmarks of IMB: one head, one last line."""
    text = (DATA / "imb/2021.7.pingpong.txt").read_text()
    head, _, table = text.partition("#---------------------------------------------------\n# Bench")
    table, end_of_run, last = table.partition("# All processes")
    parts = ["# Bench" + table.replace("PingPong", name) for name in names]
    return head + "".join(parts) + (end_of_run + last) * end


def test_the_benchmarks_of_one_run_of_imb_have_its_head_and_its_end():
    """Without names IMB-MPI1 runs all that it has."""
    found = [its.parsed for its in outputs(run_of_imb("PingPong", "PingPing"))]
    assert [its.program for its in found] == ["IMB-MPI1 PingPong", "IMB-MPI1 PingPing"]
    assert [(its.sound, its.version) for its in found] == [(True, found[0].version)] * 2


def test_no_benchmark_of_a_run_of_imb_is_sound_that_did_not_end():
    found = outputs(run_of_imb("PingPong", "PingPing", end=False) + run_of_imb("PingPong"))
    assert [its.parsed.sound for its in found] == [False, False, True]


def test_a_page_with_the_two_ends_of_several_runs_of_perftest():
    """A page has headings, and each end of a run in a block of its own."""
    runs = [path.read_text() for path in sorted((DATA / "ib-perftest").glob("*.txt"))]
    runs = [run for run in runs if run.count("#bytes") == 1 and "Completion" not in run][:2]
    runs = [run[run.index("---") :] for run in runs]
    wait = f"{'*' * 36}\n* Waiting for client to connect... *\n{'*' * 36}\n"
    page = "".join(f"## Test\n```\n{wait}{run}```\n\nClient:\n```\n{run}```\n\n" for run in runs)
    assert [its.parsed.sound for its in outputs(page)] == [True] * 2 * len(runs)
