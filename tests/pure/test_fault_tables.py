"""docs/faults.md shows each table of faults, and docs/sensitivity.md counts its rows."""

import re

import fault_tables
from shell import ROOT

SHOWN = (ROOT / "docs/faults.md").read_text()
COUNTED = re.findall(
    r"^\| \[[^]]+\]\(faults\.md#([\w-]+)\) \| (\d+) \|",
    (ROOT / "docs/sensitivity.md").read_text(),
    re.MULTILINE,
)


def sections():
    """Anchor -> the name of the table below the heading."""
    found = re.findall(r"^## (.*)\n\n```{csv-table}\n:file: faults/(.*)\.csv$", SHOWN, re.MULTILINE)
    return {re.sub(r"[^\w-]", "", head.lower().replace(" ", "-")): name for head, name in found}


def test_every_table_is_shown_and_counted():
    names = {path.stem for path in fault_tables.FOLDER.iterdir()}
    assert set(sections().values()) == names
    assert {anchor for anchor, _ in COUNTED} == sections().keys()


def test_the_page_counts_the_faults_of_each_table():
    for anchor, number in COUNTED:
        rows = fault_tables.rows(sections()[anchor])
        faults = [row for row in rows if not any(cell.startswith("no fault") for cell in row)]
        assert len(faults) == int(number), anchor


def test_a_table_comes_back_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(fault_tables, "FOLDER", tmp_path)
    rows = [['a "quoted" fault, and a comma', "`x|y`"], ["two\nlines", ""]]
    fault_tables.file("made").write_text(fault_tables.text(("fault", "message"), rows))
    assert fault_tables.rows("made") == rows
