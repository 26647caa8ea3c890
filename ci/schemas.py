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

from assay import metrics
from assay.judge import peaks, reference_files
from assay.sites import Vocabulary, foreign
from assay.store import promise

FOLDER = Path(__file__).resolve().parents[1] / "site-config/schemas"

KINDS: dict[str, Any] = {
    "assay": foreign.Words,
    "calibrated": reference_files.Included,
    "hardware": peaks.Known,
    "promise": promise.File,
    "references": reference_files.Document,
    "tolerances": metrics.Tolerances,
    "vocabulary": Vocabulary,
}

#: A site changes single keys of these, so none is required.
LAYERED = ("hardware", "tolerances")


def without_required(schema: Any) -> Any:
    """A schema in which no key is required, at any depth."""
    if isinstance(schema, list):
        return [without_required(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_required(value) for key, value in schema.items() if key != "required"}


def text(kind: str) -> str:
    """The file of one kind."""
    schema = msgspec.json.schema(KINDS[kind])
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
