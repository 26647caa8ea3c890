#!/usr/bin/env python3
"""Write a JSON Schema for each kind of YAML file that people write, from the types that check it.

ci/schemas.py            writes site-config/schemas/KIND.json
ci/schemas.py --check    writes nothing; ends with 1 if a file is not current

Editors take them for completion: each file names its own in its first line. A schema allows a
little more than Assay, which also knows rules between keys.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from assay.judge import peaks, published, reference_files
from assay.opinions.answered import Answer
from assay.sites import Vocabulary, site_yaml, vocabulary
from assay.store import promise
from assay.tolerances import Tolerances

SITES = Path(__file__).resolve().parents[1] / "site-config"
FOLDER = SITES / "schemas"

KINDS: dict[str, Any] = {
    "answer": Answer,
    "assay": site_yaml.SiteFile,
    "calibrated": reference_files.Included,
    "hardware": peaks.Known,
    "floors": published.FloorsFile,
    "hardware-kind": peaks.Parts,
    "promise": promise.File,
    "references": reference_files.Document,
    "tolerances": Tolerances,
    "vocabulary": Vocabulary,
}

#: A site changes single keys of these, so none is required.
LAYERED = ("hardware", "hardware-kind", "tolerances")


def without_required(schema: Any) -> Any:
    """A schema in which no key is required, at any depth."""
    if isinstance(schema, list):
        return [without_required(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_required(value) for key, value in schema.items() if key != "required"}


#: A name that stands for a value: see the module `assay.sites.site_yaml`.
VALUE = {"type": "string", "pattern": r"^\$\{\w+"}


def of_sites(schema: Any) -> Any:
    """The schema of a site with its words, and with names that may stand for values."""
    words = vocabulary(SITES / "vocabulary.yaml")
    known = {"Nodes": words["partition"], "Stack": words["environment"]}
    for name, struct in schema["$defs"].items():
        keys = struct["properties"]
        if name in known:
            features, extras = known[name]["features"], known[name]["extras"]
            # Any other word belongs to the site.
            keys["features"]["items"] = {"anyOf": [{"enum": sorted(features)}, {"type": "string"}]}
            keys["extras"]["properties"] = {w: {"description": said} for w, said in extras.items()}
        for key, rule in keys.items():
            if name != "SiteFile" and rule.get("type") not in (None, "string"):
                keys[key] = {"anyOf": [rule, VALUE]}
            elif "additionalProperties" in rule and "anyOf" in rule["additionalProperties"]:
                rule["additionalProperties"]["anyOf"].append(VALUE)
    return schema


def text(kind: str) -> str:
    """The file of one kind."""
    schema = msgspec.json.schema(KINDS[kind])
    if kind == "assay":
        schema = of_sites(schema)
    if kind in LAYERED:
        schema = without_required(schema)
    top = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{kind}.yaml"}
    return json.dumps({**top, **schema}, indent=1, sort_keys=True) + "\n"


def main(check: bool) -> int:
    old = 0
    for kind in KINDS:
        path = FOLDER / f"{kind}.json"
        if path.is_file() and path.read_text() == text(kind):
            continue
        old = 1
        print(f"{path}: {'is not current; run ci/schemas.py' if check else 'written'}")
        if not check:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text(kind))
    return old if check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
