"""Bundles of the recorded session in tests/data/certificate, and changed ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.archive import bundle
from assay.archive.certificate.contents import STATEMENT
from assay.cli import main

DATA = Path(__file__).parents[1] / "data" / "certificate"
REPORT = DATA / "results" / "reports" / "run-report-0.json"
SITES = DATA / "site-config"

#: A session with a ratio of two cases.
UCX = DATA.with_name("certificate-ucx")

#: Beginning of the names of the cases' files in a bundle.
OUTPUT = "results/output/"


def archive(output: Path, *, session: Path = REPORT, folder: Path = SITES) -> int:
    """Writes a bundle of the recorded session; returns the exit code."""
    words = ("--session", session, "--folder", folder, "--output", output)
    return main(["archive", *map(str, words)])


def certify(output: Path, key: Path, *, session: Path = REPORT, folder: Path = SITES) -> int:
    """Writes a signed bundle of the recorded session; returns the exit code."""
    words = ("--session", session, "--folder", folder, "--output", output, "--key", key)
    return main(["certify", *map(str, words)])


def verify(path: Path, *more: object) -> int:
    return main(["verify", *map(str, (path, *more))])


class Open:
    """The content of a bundle. It can be changed, and packed again with the right hashes."""

    def __init__(self, path: Path) -> None:
        read = bundle.read_bundle(path)
        self.members = dict(read.members)
        self.signature = read.signature

    def name(self, ending: str) -> str:
        """The only member with a name that ends like this."""
        (found,) = (name for name in self.members if name.endswith(ending))
        return found

    def edit(self, ending: str, old: str, new: str) -> None:
        """Replaces the first `old` in a member."""
        name = self.name(ending)
        text = self.members[name].decode()
        assert old in text, f"{name} has no {old!r}"
        self.members[name] = text.replace(old, new, 1).encode()

    def json(self, ending: str, change: Callable[[Any], Any]) -> None:
        """Changes a member that is JSON."""
        name = self.name(ending)
        content = json.loads(self.members[name])
        change(content)
        self.members[name] = (json.dumps(content, indent=1) + "\n").encode()

    def state(self, **said: Any) -> None:
        """Changes keys of the statement."""
        self.json(STATEMENT, lambda content: content.update(said))

    def pack(self, path: Path) -> Path:
        sign = (lambda _sums: self.signature) if self.signature else None
        path.write_bytes(bundle.pack(self.members, sign))
        return path
