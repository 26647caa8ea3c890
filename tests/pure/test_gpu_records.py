"""Recorded runs between GPUs: their table, its sums on the page, and the comparison of folders."""

import json
import shutil

import gpu_records
import gpu_runs
import pytest
from gpu_records import EMULATED, Refusal

from assay.parse import ucx_log

RUN = "1.22.0/tag_bw.1048576.two.no-gdrcopy.{}.txt"
HEALTHY, BROKEN = RUN.format("healthy"), RUN.format("ipc-open")


def test_the_table_is_that_of_the_recorded_runs_and_the_page_has_its_sums():
    lines, text = gpu_records.table(), gpu_records.PAGE.read_text()
    told = "type .venv/bin/python tests/programs/gpu_records.py page"
    assert gpu_records.TABLE.read_text() == gpu_records.written(lines), told
    assert gpu_records.page(text, lines) == text, told


def test_every_recorded_run_has_its_date_and_says_that_its_gpu_was_emulated():
    for file, row in gpu_records.rows(EMULATED).items():
        assert row["gpu"] == gpu_runs.EMULATED.name, file
        assert row["date"] >= "2026-11-22", file
        assert gpu_records.file_of(gpu_records.run_of(file)) == file
    logs = {str(path.relative_to(EMULATED)) for path in EMULATED.glob("[0-9]*/*.txt")}  # by version
    assert logs == {*gpu_records.kept(EMULATED)}


def program(run):
    """What a run belongs to; those of which nothing is claimed count as one program."""
    buffers = gpu_runs.sent(run).buffers
    if buffers is None:
        return "a reduction"
    return "a buffer in host memory" if "H" in buffers else run.operation


#: What a recorded run has. The repository keeps the log of a run with each combination.
COMBINATIONS = (
    ("operation",), ("program", "version"), ("program", "configuration"), ("program", "fault"),
    ("program", "proof"), ("program", "gpus"), ("program", "size"), ("version", "size"),
    ("version", "gpus"), ("version", "configuration", "fault"),
    ("version", "configuration", "proof"),
)  # fmt: skip


@pytest.mark.parametrize("names", COMBINATIONS, ids="-".join)
def test_the_repository_keeps_a_log_of_each_combination_that_was_run(names):
    rows = gpu_records.rows(EMULATED)
    had = {}
    for file in rows:
        run = gpu_records.run_of(file)
        facts = {**run._asdict(), **rows[file], "program": program(run)}
        had[file] = tuple(facts[name] for name in names)
    assert {had[file] for file in gpu_records.kept(EMULATED)} == {*had.values()}


def test_the_log_of_hardware_says_that_no_real_gpu_ran_as_long_as_none_did():
    log = (gpu_records.PAGE.parent / "hardware-log.md").read_text()
    assert ("Nothing ran on a real GPU" in log) == (not gpu_records.rows(gpu_records.REAL))


@pytest.fixture
def recorded(tmp_path):
    """A folder with one recorded run; another log and other facts may take its place."""

    def folder(name, log=HEALTHY, **facts):
        (tmp_path / name / "1.22.0").mkdir(parents=True)
        shutil.copy(EMULATED / log, tmp_path / name / HEALTHY)
        row = {**gpu_records.rows(EMULATED)[log], "file": HEALTHY, **facts}
        (tmp_path / name / "bytes.jsonl").write_text(json.dumps(row) + "\n")
        return tmp_path / name

    return folder


def test_a_new_run_is_a_new_row(recorded):
    none = recorded("none") / "nothing"
    lines = gpu_records.table(recorded("one"), none)
    assert gpu_records.written(lines).splitlines()[1:] == [
        "ucx_perftest,no-gdrcopy,1.22.0,healthy,2026-11-22,no,1,1,0,0,1,1,count"
    ]
    *_, row, total = gpu_records.sums(lines).splitlines()
    assert row == "| ucx_perftest | 1 | 1 | 0 | 0 | 1 of 1 | no |"
    assert total == "| all | 1 | 1 | 0 | 0 | 1 of 1 | no |"


def test_a_run_on_a_real_gpu_gives_its_row_a_day(recorded):
    real = recorded("real", date="2027-01-02", gpu="a name")
    lines = gpu_records.table(recorded("two"), real)
    assert lines[0]["real_gpu"] == "2027-01-02"
    assert gpu_records.sums(lines).endswith("| 1 of 1 | 2027-01-02 |\n")


def test_a_run_that_disagrees_is_counted(recorded):
    folder = recorded("wrong", bytes={"d2h": 9, "h2d": 9})
    lines = gpu_records.table(folder, folder / "nothing")
    assert (lines[0]["by_ipc"], lines[0]["judged"], lines[0]["agree"]) == ("0", "1", "0")


def test_a_page_without_the_sums_is_refused():
    with pytest.raises(Refusal, match=r"vgpu\.md: no table that begins with the columns program"):
        gpu_records.page("# A page\n", [])


def test_a_folder_does_not_differ_from_itself(capsys):
    assert gpu_records.main(["compare", str(EMULATED), str(EMULATED)]) == 0
    assert capsys.readouterr().out == "0 runs differ\n"


def test_lines_that_differ_are_shown(recorded, capsys):
    emulated, real = recorded("emulated"), recorded("real", BROKEN)
    assert gpu_records.main(["compare", str(emulated), str(real)]) == 1
    head, *lines, last = capsys.readouterr().out.splitlines()
    assert head == f"{HEALTHY}: - {emulated}, + {real}"
    assert last == "1 runs differ"
    by_ipc = [line.strip() for line in lines if "cuda_ipc" in line and ", used" in line]
    assert any(line.startswith("-rendezvous data fetch") for line in by_ipc)
    assert any(line.startswith("+") and "(?)" in line for line in by_ipc)


def test_a_run_that_one_folder_lacks_is_named(recorded):
    one = recorded("one")
    said = list(gpu_records.compare(one, EMULATED))
    assert f"{BROKEN}: only in {EMULATED}" in said
    assert not any(line.startswith(HEALTHY) for line in said)


def test_a_folder_without_runs_is_refused(tmp_path, capsys):
    assert gpu_records.main(["compare", str(EMULATED), str(tmp_path)]) == 2
    assert "no runs were recorded there" in capsys.readouterr().err


def test_what_is_compared_leaves_out_counts_and_processes():
    text = (EMULATED / HEALTHY).read_text()
    pid = next(iter(ucx_log.parse_ucx_log(text).processes))[1]
    assert gpu_records.paths(text.replace(f":{pid} ", ":77777 ")) == gpu_records.paths(text)
    assert any(
        line.startswith("lanes: ") and "cuda_ipc" in line for line in gpu_records.paths(text)
    )
