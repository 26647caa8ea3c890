"""``assay parse``: one line of JSON for every kind of file, and a correct exit code."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from real_outputs import DATA

from assay import cli

SOUND = DATA / "hpl" / "plain.np2.txt"
FAILED = DATA / "hpl" / "ten_failed.np2.txt"
KEYS = ["file", "family", "program", "version", "complete", "rows", "units", "problems", "facts"]


def run(capsys, *arguments):
    """Exit code, and the printed objects, which must be strict JSON."""
    code = cli.main(["parse", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert err == ""
    return code, [json.loads(line, parse_constant=pytest.fail) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (FAILED, "10 tests completed and failed"),
        (Path(cli.__file__), "unknown program"),
        (DATA / "no such file", "No such file or directory"),
    ],
)
def test_one_bad_file_among_good_ones(capsys, file, problem):
    code, results = run(capsys, SOUND, file, SOUND)

    assert code == (1 if file == FAILED else 2)
    assert run(capsys, file, FAILED)[0] == 1  # a run that failed is worse than one nobody can read
    assert len(results) == 3
    assert list(results[1]) == KEYS
    assert any(problem in text for text in results[1]["problems"])


def test_of_a_folder_all_outputs_are_read(capsys, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "good.txt").write_text(SOUND.read_text())
    (tmp_path / "failed.txt").write_text(FAILED.read_text())
    (tmp_path / "notes").write_text("hello\n")
    code, said = run(capsys, tmp_path)
    assert code == 1
    assert [Path(each["file"]).name for each in said] == ["failed.txt", "notes", "good.txt"]
    assert said[1]["problems"] == ["unknown program"]


def test_an_empty_folder_is_not_sound(capsys, tmp_path):
    assert run(capsys, tmp_path) == (2, [])


def test_an_output_without_a_problem_but_cut_short(capsys, tmp_path):
    cut = tmp_path / "cut.txt"
    cut.write_text(SOUND.read_text().rpartition("=" * 80)[0])

    code, (result,) = run(capsys, cut)

    assert code == 1
    assert result["problems"] == []
    assert result["complete"] is False


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: b"\0\0" + raw.replace(b"\n", b"\0\n"),
        lambda raw: raw.replace(b"\n", b"\r\n"),  # as from a terminal
        lambda raw: b"warning: \xff\xfe\n" + raw,
    ],
    ids=["NUL", "CRLF", "not UTF-8"],
)
def test_bytes_that_are_no_text(capsys, tmp_path, spoil):
    file = tmp_path / "output.txt"
    file.write_bytes(spoil(SOUND.read_bytes()))

    code, (result,) = run(capsys, file)

    assert code == 0
    assert result["rows"][0]["performance"] == 6.5783


def test_the_size_at_which_a_network_program_was_told_to_stop(capsys):
    stopped = DATA / "osu" / "osu_latency.7.2.ucx1.18.1-log.to1MiB.np2.txt"

    assert run(capsys, stopped)[0] == 1
    assert run(capsys, "--last-size", 1 << 20, stopped)[0] == 0


def test_standard_input(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SOUND.read_bytes())))

    code, (result,) = run(capsys, "-")

    assert code == 0
    assert (result["file"], result["program"]) == ("-", "xhpl")


@pytest.mark.parametrize(
    "arguments",
    [
        ["parse"],
        ["guess"],
        ["parse", "--last-size", "0", str(SOUND)],
        ["parse", "--last-size", "4M", str(SOUND)],
        ["parse", "--last-size", "-8", str(SOUND)],
        ["parse", "--no-such-option", str(SOUND)],
    ],
)
def test_wrong_usage(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)

    assert stop.value.code == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: assay" in err


@pytest.mark.parametrize(("last", "code"), [(SOUND, 0), (Path("torn.txt"), 1)])
def test_a_reader_that_leaves_early_changes_no_exit_code(tmp_path, last, code):
    (tmp_path / "torn.txt").write_text("".join(SOUND.read_text().splitlines(True)[:40]))
    command = [sys.executable, "-m", "assay", "parse", *[str(SOUND)] * 500, str(tmp_path / last)]
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert b"Broken" not in process.stderr.read()
        assert process.wait() == code


UCX = DATA / "ucx"


@pytest.mark.parametrize(
    ("log", "means", "lanes"),
    [
        ("1.13.1/osu_latency.tcp", "only lane", {"tcp/lo"}),
        ("1.13.1/osu_latency.cma", "first use", {"cma/memory"}),
        ("1.22.0/osu_latency.posix", "count + protocol table", {"posix/memory"}),
    ],
)
def test_what_carried_the_messages_of_an_output_with_the_log_of_ucx(
    capsys, tmp_path, log, means, lanes
):
    """UCX writes its log to standard output, unless a file is named."""
    output = (DATA / "osu/osu_latency.5.7.np2.txt").read_text()
    both = tmp_path / "both.txt"
    both.write_text((UCX / f"{log}.txt").read_text() + output)
    _, (result,) = run(capsys, both)
    path = result["facts"]["path"]
    assert (path["means"], path["ucx"]) == (means, [log.partition("/")[0]])
    assert set(path["lanes"]) == lanes


def test_an_output_that_ucx_wrote_its_log_into(capsys):
    file = DATA / "osu/osu_bw.7.2.ucx1.22.0-log.to1MiB.np2.txt"
    code, (result,) = run(capsys, file, "--last-size", 2**20)
    assert code == 0
    assert set(result["facts"]["path"]["by_size"]) == {str(row["size"]) for row in result["rows"]}


def test_an_output_without_a_log_of_ucx_states_no_path(capsys):
    assert "path" not in run(capsys, SOUND)[1][0]["facts"]


def test_an_error_of_ucx_does_not_pass(capsys, tmp_path):
    both = tmp_path / "both.txt"
    error = "[1.0] [vm:7:0]  ucp_worker.c:1  UCX  ERROR no usable transports/devices\n"
    both.write_text(error + SOUND.read_text())
    code, (result,) = run(capsys, both)
    assert code == 1
    assert result["problems"] == ["UCX ERROR: no usable transports/devices"]
