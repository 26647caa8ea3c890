"""The JSON Schemas that editors read are those of the types, and our files are valid by them."""

import json
import shutil

import jsonschema
import pytest
import shell
import yaml
from shell import ROOT

schemas = shell.module("ci/schemas.py")

HEAD = "# yaml-language-server: $schema="
FOLDERS = (ROOT / "site-config", ROOT / "examples", ROOT / "lab/sites")
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (*folder.glob("*.yaml"), *folder.glob("*/*.yaml"))
    if path.parent.name != "spack"
    # `assay calibrate` writes this file, and nobody edits it.
    and path.name != "calibrated.yaml"
)


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_names_its_schema_and_is_valid_by_it(file):
    text = file.read_text()
    first = text.partition("\n")[0]
    assert first.startswith(HEAD)
    schema = file.parent / first.removeprefix(HEAD)
    assert schema.resolve().parent == schemas.FOLDER
    jsonschema.Draft202012Validator(json.loads(schema.read_text())).validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("references", {"references": [{"for": {}, "metrics": {}, "source": "a document"}]}),
        ("references", {"refrences": []}),
        ("promise", {"partitions": {"node": {"wrods": []}}}),
        ("tolerances", {"plannd": []}),
        ("hardware", {"gpu": {"mine": {"bandwidth": "fast"}}}),
        ("assay", {"system": "x", "places": {"a": {"off": "b"}}, "stacks": {}}),
    ],
)
def test_a_wrong_key_or_value_is_seen_by_an_editor(kind, wrong):
    schema = json.loads(schemas.text(kind))
    assert [*jsonschema.Draft202012Validator(schema).iter_errors(wrong)]


def test_the_schemas_are_current_and_a_check_names_one_that_is_not(monkeypatch, tmp_path, capsys):
    assert schemas.main(check=True) == 0
    monkeypatch.setattr(schemas, "FOLDER", shutil.copytree(schemas.FOLDER, tmp_path / "schemas"))
    (tmp_path / "schemas/promise.json").write_text("{}")
    assert schemas.main(check=True) == 1
    assert capsys.readouterr().out.count("promise.json: is not current") == 1
    assert schemas.main(check=False) == 0
    assert schemas.main(check=True) == 0
