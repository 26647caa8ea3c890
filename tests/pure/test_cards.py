"""The card at the head of each file of ``reframe/`` is what its classes say today."""

import pytest
from docs import cards

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
