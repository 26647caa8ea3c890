"""No text of a program or a host acts on a terminal, a page, a spreadsheet or a JUnit file."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_results import HPCC

from assay import cli, files
from assay.show import junit, page
from assay.show.summary import as_csv
from assay.show.view import View
from assay.store import session

#: Clears the screen, sets a title, goes back to the first column, turns the line round.
HOSTILE = "\x1b[2Jclear \x1b]0;title\x07\rback \x9b31m \u202ekcab"

#: What must reach nobody.
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def test_sequences_go_as_a_whole_and_words_stay() -> None:
    assert files.clean(f"a\t{HOSTILE}\n\u00e9 \u2713") == "a\tclear back 31m kcab\n\u00e9 \u2713"
    assert files.clean('<a name="\x1b">\x1b["</a>') == '<a name="">["</a>'  # a document stays whole


@given(st.text())
def test_clean_text_has_nothing_unseen_and_stays_as_it_is(text: str) -> None:
    once = files.clean(text)
    assert not UNSEEN.search(once)
    assert files.clean(once) == once
    once.encode()  # half characters could not be written


@pytest.mark.parametrize(
    "text", ["=cmd|' /C calc'!A0", "+1+2", "-1-2", "@SUM(A1)", "\t=1+2", " =1+2", "\r=1+2"]
)
def test_a_cell_is_no_formula(text: str) -> None:
    ((cell,),) = csv.reader(io.StringIO(as_csv([text])))
    assert cell.startswith("'")


@pytest.mark.parametrize("number", ["-1.5", "+1e5", -3, 2.5, "-inf"])
def test_a_number_and_a_lone_sign_stay(number: str | float) -> None:
    assert as_csv([number, "-", "a-b", ""]) == f"{number},-,a-b,\n"


def hostile(results) -> None:
    """A session of one case whose names, values and problems act on a terminal."""

    def change(record):
        record.update(problems=[HOSTILE], verdict="FAIL", version=HOSTILE, nodes=[f"{HOSTILE}\nx"])
        record["proof"] = {"hosts": {f"{HOSTILE}\nrm -r x": 1}}
        record["parsed"]["facts"] = {HOSTILE: HOSTILE}
        record["metrics"][HOSTILE] = {**next(iter(record["metrics"].values())), "why": HOSTILE}
        for row in record["parsed"]["rows"]:
            row[HOSTILE] = HOSTILE

    results.edit_record(HPCC, change)
    results.only(HPCC)
    results.first(result="fail", fail_reason=HOSTILE)


def test_what_the_record_of_a_case_says_is_clean_everywhere(results, capsys) -> None:
    hostile(results)
    run = session.load_session(results.file)
    (case,) = run.cases
    assert case.hosts == ("clear back 31m kcab rm -r x",)
    texts = [text for row in case.parsed.rows for pair in row.items() for text in map(str, pair)]
    assert not UNSEEN.search(
        "\n".join([*texts, *case.parsed.facts, *(m.name for m in case.metrics)])
    )
    Xml.fromstring(junit.render_junit(View.of(run)))
    assert not UNSEEN.search(
        junit.render_junit(View.of(run))
        + page.render_page(View.of(run), [], [], results.directory / "page.html")
    )
    for words in (["nodes"], ["report", "--output", str(results.directory / "page.html")]):
        cli.main(words)
        said = capsys.readouterr()
        assert not UNSEEN.search(said.out + said.err)
        assert "\nrm" not in said.out


def test_commands_say_no_sequence_of_an_output_or_of_its_name(tmp_path, capsys) -> None:
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "a\x1b[2J\nscontrol shutdown").write_text(f"{HOSTILE}\n")
    cli.main(["parse", str(folder)])
    cli.main(["judge", str(next(folder.iterdir()))])
    said = capsys.readouterr()
    assert not UNSEEN.search(said.out + said.err)
    assert len(said.out.splitlines()) == 3  # an object; what judge says of the text, and what next
