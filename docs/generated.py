"""The parts of the pages that the build writes. Each fact has one place, and is read from there.

A page has a comment where such a part belongs: `<!-- generated: NAME -->`. The names are those of
`PARTS`, at the end of this file.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import yaml
from sphinx.util import logging

from assay import catalogue, cli, sites
from assay.judge import peaks, reference_files
from studies import claims

ROOT = Path(__file__).resolve().parents[1]
SITES = ROOT / "site-config"
LAB = ROOT / "lab/sites"


def fill(_app: Any, page: str, source: list[str]) -> None:
    """Writes the generated parts of a page; `source` holds its text. Warns of an unknown name."""

    def part(at: re.Match[str]) -> str:
        if at[1] in PARTS:
            return PARTS[at[1]]()
        known = ", ".join(PARTS)
        logging.getLogger(__name__).warning(
            "no generated part %r; there are %s", at[1], known, location=page
        )
        return at[0]

    source[0] = re.sub(r"<!-- generated: (.*?) -->", part, source[0])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in line) + " |"
        for line in lines
    )


def code(*words: str) -> str:
    """Each word as code."""
    return ", ".join(f"`{word}`" for word in words if word)


# --- the command line -----------------------------------------------------------------------------


def command_line() -> str:
    with mock.patch.dict(os.environ, COLUMNS="88"):
        return "\n\n".join(_described(_parser()))


def _parser() -> argparse.ArgumentParser:
    """The parser that `assay.cli.main` builds before it reads the command line."""
    built: list[argparse.ArgumentParser] = []

    def keep(self: argparse.ArgumentParser, *_given: object) -> None:
        built.append(self)
        raise SystemExit

    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", keep),
        contextlib.suppress(SystemExit),
    ):
        cli.main([])
    return built[0]


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## `{parser.prog}`\n\n```text\n{parser.format_help()}```"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _described(command)


def make_help() -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return f"```text\n{done.stdout}```"


# --- words ----------------------------------------------------------------------------------------


def words(owner: str, kind: str) -> str:
    known = sites.vocabulary(SITES / "vocabulary.yaml")[owner][kind]
    return table(["word", "meaning"], [[code(word), said] for word, said in known.items()])


def programs() -> str:
    return table(
        ["word", "program", "executables", "Spack", "Debian", "why no test runs it"],
        [
            [code(p.word), p.descr, code(*p.executables), code(p.spack), code(p.debian), p.untested]
            for p in catalogue.PROGRAMS.values()
        ],
    )


def hardware() -> str:
    rows = []
    for role, parts in peaks.hardware(SITES / "local").items():
        for name, part in parts.items():
            entry = msgspec.to_builtins(part)
            numbers = [f"{key} {value:g}" for key, value in entry.items() if type(value) is float]
            stated = code(*entry.get("names", ()))
            rows.append([role, code(name), ", ".join(numbers), stated, part.source])
    return table(["role", "name", "peaks", "how a machine states it", "source"], rows)


# --- sites, tests, references ---------------------------------------------------------------------


def all_sites() -> str:
    rows = []
    for path in sorted(SITES.glob("*/assay.yaml")) + sorted(LAB.glob("*/assay.yaml")):
        text = path.read_text(encoding="utf-8")
        head = text.partition("\n")[2].partition("\n\n")[0]
        said = re.sub("^# ?", "", head, flags=re.M)
        rows.append([code(path.parent.name), said, code(*yaml.safe_load(text)["stacks"])])
    return table(["site", "what it is", "stacks"], rows)


def tests() -> str:
    parts = []
    for path in [*sorted(ROOT.glob("reframe/*/*.py")), *sorted(ROOT.glob("studies/*/*.py"))]:
        module = ast.parse(path.read_text(encoding="utf-8"))
        rows = [
            [code(node.name), (ast.get_docstring(node) or "").split("\n\n")[0]]
            for node in module.body
            if isinstance(node, ast.ClassDef)
            and "rfm.simple_test" in map(ast.unparse, node.decorator_list)
        ]
        if not rows:
            continue  # of the library of a study
        name = path.relative_to(ROOT).as_posix()
        said, *more = (ast.get_docstring(module) or "").split("\n\n")
        cards = [f"```text\n{text}\n```" for text in more if text.startswith("Tests: ")]
        parts += [f"## `{name}`", said, *cards, table(["test", "what it is"], rows)]
    return "\n\n".join(parts)


def references_file() -> str:
    schema = msgspec.json.schema(reference_files.Document)
    rows = list(_keys(_resolved(schema, schema), schema, ""))
    return table(["key", "value", "required", "meaning"], rows)


_KINDS = {
    "string": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
    "null": "null",
}


def _keys(schema: dict[str, Any], top: dict[str, Any], above: str) -> Iterator[list[str]]:
    """A row for each key that a mapping of this schema may have, and for those below it."""
    for name, given in schema.get("properties", {}).items():
        yield from _key(f"{above}{name}", given, top, name in schema.get("required", ()))


def _key(
    path: str, given: dict[str, Any], top: dict[str, Any], needed: bool
) -> Iterator[list[str]]:
    rule = _resolved(given, top)
    either = [rule, *rule.get("anyOf", ())]
    said = next((each["description"] for each in either if "description" in each), "")
    yield [code(path), _kind(rule, top), "yes" if needed else "", said]
    for each in (e for one in either for e in (one, one.get("items"))):
        if isinstance(each, dict):
            yield from _keys(_resolved(each, top), top, f"{path}/")
    if path.endswith(("metrics", "curves")) and isinstance(rule.get("additionalProperties"), dict):
        yield from _key(f"{path}/NAME", rule["additionalProperties"], top, False)


def _resolved(rule: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in rule:
        return rule
    found: dict[str, Any] = top["$defs"][rule["$ref"].rpartition("/")[2]]
    return {**found, **rule}  # what stands beside the reference says more than what it refers to


def _kind(rule: dict[str, Any], top: dict[str, Any]) -> str:
    if "enum" in rule:
        return code(*rule["enum"])
    if "anyOf" in rule:
        return " or ".join(_kind(each, top) for each in rule["anyOf"])
    given = _resolved(rule, top)["type"]
    return " or ".join(_KINDS[kind] for kind in ([given] if isinstance(given, str) else given))


# --- the claims of the documents ------------------------------------------------------------------

#: The number of each document -> the folder of its claims.
DOCUMENTS = {"000": ROOT / "studies", **{f.name[-3:]: f for f in sorted(ROOT.glob("studies/doc*"))}}


def claims_of(number: str) -> str:
    """The claims of a document, with what judges them."""
    rows = []
    for one in claims.read(DOCUMENTS[number] / "claims.yaml"):
        relation = one.relation
        judged = f"{claims.band(relation)}; {relation.source}" if relation else one.why
        test = one.test if one.test == "none" else code(one.test)
        rows.append((one.claim, one.measurement, one.figure, test, judged, one.ran,
                     f"{one.hardware}: {one.command}"))  # fmt: skip
    head = ("claim", "measurement", "figure", "test", "must be, and why", "ran", "needs")
    return table(head, rows)


PARTS = {
    **{f"claims {number}": partial(claims_of, number) for number in DOCUMENTS},
    "command line": command_line,
    "make": make_help,
    "features of partitions": lambda: words("partition", "features"),
    "extras of partitions": lambda: words("partition", "extras"),
    "extras of stacks": lambda: words("environment", "extras"),
    "programs": programs,
    "hardware": hardware,
    "sites": all_sites,
    "tests": tests,
    "references": references_file,
}
