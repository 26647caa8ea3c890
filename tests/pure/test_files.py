"""The shape of a YAML file: a fault is one line with the key, what is wrong, and the fix."""

from typing import Annotated

import msgspec
import pytest

from assay import files


class Metric(msgspec.Struct, forbid_unknown_fields=True):
    """A metric has value.

    This is not said.
    """

    value: Annotated[float, msgspec.Meta(gt=0, description="above 0")]

    def __post_init__(self) -> None:
        if self.value == 13:
            raise ValueError("value: 13 is unlucky")


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """An entry has metrics and source."""

    metrics: dict[str, Metric]
    source: str | dict[str, int]
    also: list[Metric] | None = None


def entry(**said):
    return {"top": {"metrics": {"a": {"value": 1}}, "source": "x", **said}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (entry(), ""),
        (entry(also=None, source={"n": 1}), ""),
        (None, "(top level): None: expected a mapping, got nothing"),
        ({"top": {"source": "x"}}, "top: `metrics` is missing (An entry has metrics and source.)"),
        (
            entry(metrics={"a": {"value": 1}, "b": {"valeu": 1}}),
            "top/metrics/b/valeu: unknown key; did you mean 'value'? (A metric has value.)",
        ),
        (
            entry(other=1),
            "top/other: unknown key; known are also, metrics, source (An entry has metrics and "
            "source.)",
        ),
        (
            entry(metrics={"a": {"value": 1}, "b": {"value": 0}}),
            "top/metrics/b/value: 0: expected a number > 0.0 (above 0)",
        ),
        (entry(metrics={"b": {"value": 13}}), "top/metrics/b: value: 13 is unlucky"),
        (entry(source=[1]), "top/source: [1]: expected a text or a mapping, got a list"),
        (entry(source={"n": "x"}), "top/source/n: 'x': expected a whole number, got a text"),
        (
            entry(also=[{"value": 1}, {"value": True}]),
            "top/also/1/value: True: expected a number, got true or false (above 0)",
        ),
    ],
)
def test_the_first_fault_of_a_content(content, said):
    assert files.misshapen(content, dict[str, Entry]) == said


def test_the_file_of_a_site_changes_single_keys_and_is_named_if_it_is_wrong(tmp_path):
    site = tmp_path / "mine"
    site.mkdir()
    (tmp_path / "metrics.yaml").write_text("a: {value: 1}\nb: {value: 2}\n")
    kind = dict[str, Metric]
    assert files.layered(site, "metrics.yaml", kind, ValueError)["b"].value == 2
    own = site / "metrics.yaml"
    own.write_text("b: {value: 3}\nc: {value: 4}\n")
    found = files.layered(site, "metrics.yaml", kind, ValueError)
    assert {name: each.value for name, each in found.items()} == {"a": 1, "b": 3, "c": 4}
    own.write_text("b: {valu: 3}\n")
    with pytest.raises(ValueError, match=f"{own}: b/valu: unknown key; did you mean 'value'"):
        files.layered(site, "metrics.yaml", kind, ValueError)


def test_a_key_that_is_half_of_a_character_is_one_line(tmp_path):
    path = tmp_path / "half.yaml"
    path.write_text('{"top": {"source": "x", "metrics": {}, "\\ud800\\udc00": 1}}')
    with pytest.raises(ValueError, match=r"half.yaml: .*a key is no text in UTF-8"):
        files.read_shape(path, dict[str, Entry], ValueError)


@pytest.mark.parametrize(
    "text",
    [
        *("a: [1, {b: 0.5, c: 1e3, d: x?y}]", "- &x [1]\n- *x", "", "a: 0o17", "a: 'ü'"),
        *("a: {b: ?c}", "a:\t1", "a: [1", "[-", "a: 010", "a: 1\na: 2", "<<: {a: 1}", "a: no"),
        *("- " * 30_000 + "a", "[" * 3_000, "? " * 3_000),  # libyaml crashes on long ones
    ],
    ids=lambda text: text[:20],
)
def test_a_text_means_the_same_with_and_without_libyaml(text, tmp_path, monkeypatch):
    (tmp_path / "a.yaml").write_text(text)

    def said():
        try:
            return files.read_yaml(tmp_path / "a.yaml", RuntimeError)
        except RuntimeError as refusal:
            return str(refusal).partition(": maximum recursion")[0]

    first = said()
    monkeypatch.setattr(files, "MOST_DEPTH", -1)
    assert first == said()
