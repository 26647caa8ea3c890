"""The card at the head of each file of ``reframe/`` is what its classes say today."""

import pytest
from docs import cards
from real_outputs import DATA

from assay.store import session

OSU = next(path for path in cards.FILES if path.name == "osu.py")


@pytest.mark.parametrize("path", cards.FILES, ids=lambda path: path.name)
def test_the_card_is_current(path):
    assert path.read_text() == cards.written(path), "type .venv/bin/python docs/cards.py"


@pytest.mark.parametrize(
    ("written", "other", "said"),
    [
        ("RANKS = (2, 3, 4)", "RANKS = (2, 7)", "ranks\n           2, 7"),
        ("class OsuPy(OsuPort)", "class Ports(OsuPort)", "Tests:     Osu, OsuCollective, Ports"),
        ("parameter(PORTED)\n", "'bcast'\n    tags = {'x'}\n", "smoke profile: 80 of 208 cases"),
    ],
)
def test_another_class_has_another_card(written, other, said, tmp_path):
    path, text = tmp_path / "osu.py", OSU.read_text()
    assert written in text
    path.write_text(text.replace(written, other))
    assert said not in path.read_text()
    assert said in cards.written(path)


def test_a_new_file_gets_a_card_and_keeps_what_a_person_wrote(tmp_path):
    text = OSU.read_text()
    (card,) = cards._CARD.findall(text)
    path = tmp_path / "osu.py"
    path.write_text(text.replace(card, ""))
    assert cards.written(path) == text


def test_each_evidence_is_that_of_a_test():
    every = "".join(path.read_text() for path in cards.FILES).replace("\n           ", " ")
    assert not [said for said in cards.EVIDENCE.values() if said not in every]


def test_a_card_says_how_long_sound_cases_took_and_where(monkeypatch):
    """In the session the storage of a node is slow: the case of that failed, and does not count."""
    run = session.load_session(session.newest(DATA / "faults/disk-slow"))
    older = {"machine": "4 nodes", "profile": "smoke", "seconds": {"Census": [80.0, 80.0]}}
    beside = {"machine": "2 cores", "profile": "smoke", "seconds": {"Census": [99.0, 200.0]}}
    kept, entry = cards.entered([older, beside], run, "4 nodes")
    assert kept is beside
    assert entry["seconds"]["Tournament"] == [12.0, 12.0]
    assert {case.test for case in run.cases} - set(entry["seconds"]) == {"EachNode"}
    monkeypatch.setattr(cards, "_minutes", lambda: [kept, entry])
    census = next(path for path in cards.FILES if path.name == "census.py")
    said = " ".join(cards.card(census).split())
    assert "2 to 3 min a case (smoke, 2 cores); under 1 s a case (smoke, 4 nodes); at most" in said
    assert cards._span(0.2, 18.0) == "up to 18 s"
    assert cards._span(61.0, 61.0) == "61 s"
