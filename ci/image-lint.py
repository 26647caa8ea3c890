#!/usr/bin/env python3
"""Lint Apptainer definition files without a network.

    ci/image-lint.py [FILE.def ...]     default: containers/*.def

Each objection is a line `FILE:LINE: the fault and its remedy`. The exit code is 1 if there is an
objection. Three checks read a file: our own rules; `sh -n` and shellcheck, which read each section
that is a script; and Apptainer's own parser, if it is there (ci/apptainer.sh --no-build).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Sections that Apptainer gives to a shell.
SCRIPTS = ("setup", "post", "test", "runscript", "startscript", "environment", "pre")
APP_SCRIPTS = ("apprun", "apptest", "appinstall", "appenv", "appstart")

#: An address without a server: Apptainer's build then ends right after it has read the file.
NOWHERE = "127.0.0.1:9/nothing"

VARIABLE = re.compile(r"\{\{ *(\w+) *\}\}")


@dataclass
class Section:
    """One section: `kind` is its word after %, `of` is the rest of that line, `line` its number."""

    kind: str
    of: str
    line: int
    lines: list[str] = field(default_factory=list)

    @property
    def script(self) -> str:
        """Its text with every argument of the build replaced by a word."""
        return VARIABLE.sub("argument", "\n".join(self.lines)) + "\n"


@dataclass
class Stage:
    """One stage: the lines of its header, and its sections."""

    line: int
    header: dict[str, str] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)

    def all(self, *kinds: str) -> list[Section]:
        """Its sections of these kinds."""
        return [section for section in self.sections if section.kind in kinds]


def stages(text: str) -> list[Stage]:
    """The stages of a definition file."""
    found: list[Stage] = []
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"(?i)bootstrap:", line):
            found.append(Stage(number))
        if not found:
            continue
        stage = found[-1]
        if match := re.match(r"%(\w+) *(.*)", line):
            stage.sections.append(Section(match[1], match[2].strip(), number))
        elif stage.sections:
            stage.sections[-1].lines.append(line)
        elif match := re.match(r"(\w+): *(.*)", line):
            stage.header[match[1].lower()] = match[2]
    return found


Objections = Iterator[tuple[int, str]]

#: Patterns that a line of a script must not contain, each with the reason.
FORBIDDEN = (
    (
        re.compile(r"\bcommand -v (?:--? )?[^\s;&|<>)]+ +[^\s;&|<>()\d#]"),
        "of several names dash's `command -v` looks at the first: one name at a time",
    ),
    (
        re.compile(r"--(?:cleanenv|containall)\b|\b(?:exec|run|shell) +-[eC]\b"),
        "takes PMIX_* from the ranks, which then are N worlds of one: leave it out",
    ),
    (
        re.compile(r"--no-(?:check-certificate|verify-ssl|gpg-check|checksum)\b|--insecure\b"),
        "what is fetched is not verified: leave it out",
    ),
)

#: Programs of a stack. In a build, those with CUDA do not start: they need libcuda, or load modules
#: that do, and leave them out.
OF_A_STACK = re.compile(
    r"(?<![\w/-])(?<!command -v )(?:mpirun|ompi_info|ucx_info|ucx_perftest|osu_\w+)(?= |$)"
)

#: Programs that fetch, each with what must be in the same section to verify the download.
FETCHERS = (
    (
        re.compile(r"(?<![\w-])(?:curl|wget) +[-\"'$h]"),
        re.compile(r"\bsha(?:256|512)sum +(?:-c|--check)"),
    ),
    (
        re.compile(r"\bgit +(?:\S+ +)*(?:clone|fetch|pull)\b"),
        re.compile(r"\brev-parse\b"),
    ),
    (
        re.compile(r"\bpip3? +(?:\S+ +)*install\b"),
        re.compile(r"--require-hashes|--no-index|PIP_NO_INDEX=1"),
    ),
)


def rules(text: str) -> Objections:
    """The objections of our own rules to a definition file: line and text."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\b(?:https?|ftp)://", line.split("#", 1)[0]):
            yield number, "names a host: let a build argument or a file of the build say it"
    found = stages(text)
    if not found:
        yield 1, "no header: a definition begins with Bootstrap:"
        return
    for stage in found:
        base = stage.header.get("from", "")
        if not re.fullmatch(r"\{\{ *\w+ *\}\}", base) and "@sha256:" not in base:
            yield stage.line, "From: is neither a build argument nor pinned by @sha256:"
        for section in stage.sections:
            if section.kind in (*SCRIPTS, *APP_SCRIPTS):
                yield from _script_rules(section)
    last = found[-1]
    for kind, why in (
        ("test", "nothing shows that the image works"),
        ("help", "users do not see how to run it"),
        ("labels", "users cannot see what it contains"),
    ):
        if not last.all(kind):
            yield last.line, f"the last stage has no %{kind}: {why}"
    tested = {section.of for section in last.all("apptest")}
    for app in last.all("apprun"):
        if app.of not in tested:
            yield app.line, f"%apprun {app.of} has no %apptest: a missing program stays unseen"


def _script_rules(section: Section) -> Objections:
    code = [re.sub(r"(^|\s)#.*", "", line).strip() for line in section.lines]
    for number, line in enumerate(code, section.line + 1):
        for pattern, why in FORBIDDEN:
            if match := pattern.search(line):
                yield number, f"`{match[0].strip()}`: {why}"
        for fetches, proves in FETCHERS:
            if (match := fetches.search(line)) and not any(map(proves.search, code)):
                yield number, f"`{match[0].strip()}`: nothing in this section verifies what came"
        if section.kind in ("post", "appinstall") and (match := OF_A_STACK.search(line)):
            yield (
                number,
                f"`{match[0]}` may need libcuda, which a build lacks: use %test, or the lock",
            )
    first = next(filter(None, code), "")
    if section.kind in ("setup", "post", "test", "apptest") and first != "set -eu":
        yield section.line, f"%{section.kind} does not begin with `set -eu`: its failures can pass"


def shells(text: str) -> Objections:
    """The objections of `sh -n` and shellcheck to the scripts."""
    for stage in stages(text):
        for section in stage.all(*SCRIPTS, *APP_SCRIPTS):
            parsed = subprocess.run(
                ["sh", "-n"], input=section.script, capture_output=True, text=True, check=False
            )
            if parsed.returncode:
                match = re.search(r"(\d+): (.*)", parsed.stderr)
                line, said = (int(match[1]), match[2]) if match else (0, parsed.stderr.strip())
                yield section.line + line, f"sh: {said}"
                continue
            # Not errors: files that exist only in the build, its arguments, Apptainer's variables.
            checked = subprocess.run(
                ["shellcheck", "-s", "sh", "-f", "gcc", "-e", "SC1091,SC2050,SC2154", "-"],
                input=section.script,
                capture_output=True,
                text=True,
                check=False,
            )
            for match in re.finditer(r"^-:(\d+):\d+: (.*)$", checked.stdout, re.MULTILINE):
                yield section.line + int(match[1]), f"shellcheck: {match[2]}"


def parser(apptainer: str, file: Path) -> Objections:
    """Apptainer's objection to the file: a build reads the file first, and then needs a base."""
    # Every other build argument of the file must have a default.
    words = ["bootstrap=docker", f"base={NOWHERE}", f"runtime={NOWHERE}"]
    words = [f"--build-arg={word}" for word in words]
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [apptainer, "build", "--warn-unused-build-args", *words, f"{folder}/x.sif", file],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        except subprocess.TimeoutExpired:
            yield 1, "apptainer: did not read the file within 60 s: is the machine busy? try again"
            return
    said = done.stdout + done.stderr
    # Apptainer asked for the base, so it has read the file.
    if "127.0.0.1:9" in said and "conveyor failed to get" in said:
        return
    fatal = [line for line in said.splitlines() if line.startswith("FATAL")] or said.splitlines()
    yield 1, "apptainer: " + (fatal[-1] if fatal else "ended without a word")


def main() -> int:
    """Lints the files. 1 if there is an objection, 2 if linting is not possible."""
    options = argparse.ArgumentParser(description="Lint Apptainer definition files, offline.")
    options.add_argument("files", nargs="*", type=Path, metavar="FILE.def")
    files = options.parse_args().files or sorted((ROOT / "containers").glob("*.def"))
    if not shutil.which("shellcheck"):
        print("image-lint: no shellcheck on PATH: type make lint", file=sys.stderr)
        return 2
    found = subprocess.run(
        [ROOT / "ci/apptainer.sh", "--no-build"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        print(f"image-lint: without Apptainer's own parser ({found.stderr.strip()})")
    count = 0
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "not a text in UTF-8"
            print(f"image-lint: {file}: {why}", file=sys.stderr)
            return 2
        objections = [*rules(text), *shells(text)]
        if found.returncode == 0:
            objections += parser(found.stdout.strip(), file.resolve())
        for line, objection in sorted(objections):
            print(f"{file}:{line}: {objection}")
        count += len(objections)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
