"""``assay expect``: writes the list of the cases of the suite, and the words that a site promises.

Neither depends on the machine: the tests are loaded for a system that has nothing, and a site that
describes itself keeps the words that a person wrote.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from reframe.core.exceptions import ReframeError
from reframe.core.runtime import temp_runtime

from assay import files
from assay.describe import listing
from assay.exits import Exit
from assay.reframe_compat import testcase
from assay.store import promise
from assay.store.promise import Listed, PromiseError

CASES = """\
# Every case of the suite, with the features of a partition and the programs of a stack that select
# it. Of `assay expect`; review what changes: docs/sites.md.
"""

SITE = """\
# What this site promises: docs/sites.md. `partitions` and `stacks` are of `assay expect {option}
# {site}`, but for a site that describes itself; review what changes.
"""

#: What a new site, or one beside a configuration of its own, says beside its words. It has no
#: reference yet that a complete run would need.
NEW = {"nothing_judged": "allowed", "may_skip": {kind: ["*"] for kind in promise.KINDS}}


def expect_command(args: argparse.Namespace) -> int:
    """Write the files, or with ``--check`` compare with them; returns the exit code."""
    suite = files.repository(args.folder / "any site") / "reframe"
    try:
        texts = {}
        if args.site or args.config:
            site_file = args.config or args.folder / args.site / "reframe.py"
            if not site_file.is_file():
                known = ", ".join(path.parent.name for path in listing.find(args.folder)) or "none"
                no = f"no site {args.site or site_file!r}; known are {known}"
                print(f"assay expect: {no}", file=sys.stderr)
                return Exit.USAGE
            path = site_file.with_name(promise.FILE)
            if listing.words_found(site_file)[0].itself:
                promise.load_promise(path)  # a person wrote it
            else:
                raw = NEW if args.config else {}
                raw = files.read_shape(path, dict[str, Any], PromiseError) if path.exists() else raw
                texts[path] = of_site(site_file, raw)
        if suite.parent != files.CARRIED and not args.config:  # nobody changes those of a package
            texts[suite / promise.CASES] = CASES + "".join(f"{one}\n" for one in listed(suite))
    except (PromiseError, ReframeError, OSError) as error:
        print(f"assay expect: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    old = False
    for path, text in texts.items():
        same = path.exists() and path.read_text(encoding="utf-8") == text
        old |= not same
        if not (same or args.check):
            files.write_file(path, text)
        said = "is not current" if args.check else "written; review it, and commit it"
        print(f"{path}: {'is current' if same else said}")
    return Exit.FAIL if args.check and old else Exit.PASS


def listed(suite: Path) -> list[Listed]:
    found = {}
    with temp_runtime("<builtin>", "generic"):
        for path in sorted(suite.rglob("*.py")):
            try:
                for test, variants in testcase.declared(path):
                    for given, named in variants:
                        one = _listed(test(*given, **{**named, "reset_sysenv": 0}))
                        found[one.name] = one
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise PromiseError(f"{path}: cannot be loaded: {what}; mend it") from error
    return [one for _, one in sorted(found.items()) if one.systems and one.stacks]


def _listed(test: Any) -> Listed:
    name = str(test.display_name)
    for parameter in getattr(test, "grows", ()):
        name = re.sub(rf"%{parameter}=\S+", f"%{parameter}=*", name)
    smoke = "smoke" in test.tags
    return Listed(name, tuple(test.valid_systems), tuple(test.valid_prog_environs), smoke)


def of_site(site_file: Path, raw: Mapping[str, Any]) -> str:
    """The content of the file of a site that does not describe itself.

    :param raw: the present content. What a person writes in it is kept.
    """
    site, _ = listing.words_found(site_file)
    partitions = {
        name: {"stacks": sorted(site.environs[name]), "words": sorted(words)}
        for name, words in site.partitions.items()
    }
    stacks = {name: sorted(words) for name, words in site.stacks.items()}
    said = {**raw, "partitions": partitions, "stacks": stacks}
    if fault := files.misshapen(said, promise.File):
        raise PromiseError(f"{site_file.with_name(promise.FILE)}: {fault}")
    shown = {key: said[key] for key in promise.File.__struct_fields__ if said.get(key)}
    text = yaml.safe_dump(shown, default_flow_style=None, sort_keys=False, width=96)
    beside = site_file.name != "reframe.py"
    option, name = ("-C", site_file.name) if beside else ("--site", site_file.parent.name)
    schema = files.repository(site_file.parent) / "site-config/schemas/promise.json"
    editors = f"# yaml-language-server: $schema={os.path.relpath(schema, site_file.parent)}\n"
    return editors * (not beside) + SITE.format(option=option, site=name) + text
