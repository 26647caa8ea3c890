"""The shape of a record: what tests wrote has it, and another value is left out on reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import files
from assay.accused import Against, How, accusations
from assay.judge import Verdict
from assay.metrics import Unit
from assay.parse import Parsed
from assay.parse.formulas import Number
from assay.prove import busy
from assay.store import cases, record

RECORDS = sorted((Path(__file__).parents[2] / "data").rglob("assay.json"))
FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(record.Record)}


def listed(raw: dict[str, Any]) -> dict[str, Any]:
    """A record with its metrics as a list, and without what is null."""
    metrics = [{**entry, "name": name} for name, entry in raw.get("metrics", {}).items()]
    raw = {**raw, "metrics": metrics}
    raw["parsed"] = {k: v for k, v in raw.get("parsed", {}).items() if v is not None}
    return {key: value for key, value in raw.items() if value is not None}


def test_every_recorded_file_has_the_shape_of_a_record() -> None:
    assert len(RECORDS) > 50
    for path in RECORDS:
        assert files.misshapen(listed(json.loads(path.read_text())), record.Record) == "", path


@pytest.mark.parametrize("key", FIELDS)
def test_what_is_not_of_its_type_is_left_out(key: str) -> None:
    """A text may be made from anything, and a flag."""
    found = cases.fields({key: object()}).get(FIELDS[key])
    assert not found or isinstance(found, str) or key == "again"


def test_an_unknown_verdict_is_none_and_an_entry_of_another_shape_is_left_out() -> None:
    found = cases.fields(
        {
            "verdict": "GOOD",
            "metrics": {
                "a": 7,
                "b": {"value": float("nan"), "verdict": "PASS", "samples": [1, "x"]},
            },
            "accused": [3, {"nodes": "n1"}, {"nodes": ["n1"], "problem": 5}],
            "figures": [{"kind": "none"}, {"kind": "curve", "name": 3}],
        }
    )
    assert "verdict" not in found
    odd, known = found["metrics"]
    assert (odd.name, odd.verdict) == ("a", Verdict.FAIL)
    assert (known.value, known.verdict, known.samples) == (None, Verdict.PASS, (1.0,))
    assert [(one.nodes, one.problem) for one in found["accused"]] == [(("n1",), "5")]
    assert [figure.name for figure in found["figures"]] == ["3"]


def test_what_is_written_is_read_again_and_what_is_not_known_has_no_key() -> None:
    """Numbers and texts of other classes are written as such: those of formulas, units, paths."""
    metric = record.Metric("rate", Number(2.5, ["cell", 0, "rate"]), Unit("MIPS", "rate"))
    written = msgspec.structs.replace(
        record.NONE,
        unique_name="Test",
        parameters={"at": Path("/tmp"), "n": 3},
        parsed=record.of_output(Parsed("osu", "osu_bw", None, True, ({"size": 1},), {"size": "B"})),
        metrics=(metric,),
        accused=accusations([Against("n1: slow", ["n1"], How.SLOW)]),
        others=busy.Others(1.5, 4),
        settings=record.Settings("00", {"A": "\udc80"}),
        more={"drift": {7: None}},
    )
    raw = json.loads(record.as_text(written))
    assert raw["schema"] == record.SCHEMA
    assert raw["metrics"] == {
        "rate": {
            "value": 2.5, "unit": "MIPS", "verdict": "FAIL", "why": "", "samples": [], "source": "",
        }
    }  # fmt: skip
    assert (raw["drift"], raw["parameters"]) == ({"7": None}, {"at": "/tmp", "n": 3})
    assert (raw["settings"], raw["verdict"]) == ({"sha256": "00", "machine": {"A": "\udc80"}}, None)
    assert not raw.keys() & {"busy", "again", "curve", "once", "proof", "second_look", "more"}
    found = cases.fields(raw)
    assert found["parsed"].rows == ({"size": 1},)
    assert (found["metrics"][0].value, found["others"]) == (2.5, written.others)
    assert found["accused"] == written.accused
    bare = json.loads(record.as_text(record.NONE))
    assert bare.keys() == {"schema", *record.ALWAYS}
