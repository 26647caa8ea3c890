"""Outputs that somebody sent: ``assay judge``. What is said of each is in ``answered``."""

from __future__ import annotations

import argparse
import functools
import io
import itertools
import re
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from assay import files
from assay.exits import Exit
from assay.judge import ReferencesError, peaks
from assay.opinions.answered import Answer, Asked, answer
from assay.opinions.pasted import Sent, outputs
from assay.parse import ParseError, reading, registry
from assay.store.sanitize import line

#: Most files of a folder or an archive, and the most that all files of an archive hold [B].
MOST_FILES, MOST_BYTES = 20_000, 1 << 30


def parse_command(args: argparse.Namespace) -> int:
    """Print the answer on each output, with its reasons, as text or as JSON."""
    try:
        asked = _asked(args)
    except ReferencesError as error:
        print(f"assay judge: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    ends = []
    for name, raw in _texts(args.files):
        for said in _answers(name, raw, asked, args.last_size):
            if args.json:
                print(msgspec.json.encode(said).decode(), flush=True)
            else:
                _show(said)
            ends.append(Exit.UNKNOWN if said.verdict.startswith("not") else Exit[said.verdict])
    if not ends:
        print(f"assay judge: {' '.join(args.files)}: no file in it", file=sys.stderr)
    worst_first = (Exit.FAIL, Exit.UNKNOWN, Exit.INCONCLUSIVE, Exit.PASS)
    return next((end for end in worst_first if end in ends), Exit.UNKNOWN)


def _asked(args: argparse.Namespace) -> Asked:
    """What the options say. Raises ReferencesError for a site or hardware that is not known."""
    site = args.folder / (args.site or "any")
    hardware = _pairs(args.hardware, "--hardware link=infiniband-hdr")
    if not (site / "references.yaml").exists():
        known = [path.parent.name for path in args.folder.glob("*/references.yaml")]
        raise ReferencesError(f"{site}: no such site; {files.nearest(site.name, known)}")
    peaks.check_hardware(site, hardware)
    case = _pairs(args.case, "--case partition=NAME or --case cores=64")
    return Asked(site, hardware, case, bool(args.site))


def _pairs(words: Sequence[str], like: str) -> dict[str, str]:
    looks = r"(?:sockets|cores)=[1-9]\d{0,6}|(?!(?:sockets|cores)=)\w+=.+"
    if wrong := [word for word in words if not re.fullmatch(looks, word, re.ASCII)]:
        raise ReferencesError(f"{wrong[0]!r}: write it like {like}")
    said = dict(word.split("=", 1) for word in words)
    if len(said) < len({*words}):
        raise ReferencesError(f"{' '.join(words)}: two values of one name")
    return said


# --- the texts


def _texts(names: Sequence[str]) -> Iterator[tuple[str, bytes | OSError]]:
    """Name and content of each file, also in a folder or an archive, and of the standard input."""
    for name in names:
        path = Path(name)
        if name == "-":
            yield name, sys.stdin.buffer.read(reading.MOST + 1)
        elif path.is_dir():
            for each in sorted(path.rglob("*"))[:MOST_FILES]:
                if each.is_file():
                    yield str(each), _bytes(each)
        else:
            raw = _bytes(path)
            yield from _members(name, raw) if isinstance(raw, bytes) else [(name, raw)]


def _bytes(path: Path) -> bytes | OSError:
    try:
        return files.read_bytes(path, reading.MOST)
    except OSError as error:
        return error


def _members(name: str, raw: bytes) -> Iterator[tuple[str, bytes | OSError]]:
    """The files in an archive, read and not unpacked; a file that is no archive is itself."""
    left = MOST_BYTES
    try:
        for of, size, opened in itertools.islice(_packed(raw), MOST_FILES):
            left -= size
            if left < 0:  # to skip a file of tar means to decompress it
                yield f"{name}: {of}", OSError(f"the archive holds over {MOST_BYTES} B")
                return
            with opened() as member:
                yield f"{name}: {of}", member.read(reading.MOST + 1)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError):
        yield name, raw


def _packed(raw: bytes) -> Iterator[tuple[str, int, Callable[[], IO[bytes]]]]:
    """Name and size [B] of each file in an archive, and how it is opened."""
    if zipfile.is_zipfile(io.BytesIO(raw)):
        with zipfile.ZipFile(io.BytesIO(raw)) as zipped:
            for each in zipped.infolist():
                if not each.is_dir():
                    yield each.filename, each.file_size, functools.partial(zipped.open, each)
        return
    with tarfile.open(fileobj=io.BytesIO(raw)) as packed:
        for its in packed:
            if its.isfile():
                yield its.name, its.size, functools.partial(_extracted, packed, its)


def _extracted(packed: tarfile.TarFile, its: tarfile.TarInfo) -> IO[bytes]:
    return packed.extractfile(its) or io.BytesIO()


# --- the answers


def _answers(
    name: str, raw: bytes | OSError, asked: Asked, last_size: int | None
) -> Iterator[Answer]:
    """The answer on each output in a text."""
    try:
        if isinstance(raw, OSError):
            raise ParseError(raw.strerror or str(raw))
        sents = outputs(reading.of_bytes(raw), last_size)
    except ParseError as error:
        yield Answer(file=name, verdict="not read", answer=str(error))
        return
    for sent in sents:
        where = name if len(sents) == 1 else f"{name}, line {sent.line}"
        try:
            said = answer(sent, asked) if sent.parsed else _unread(sent)
        except ReferencesError as error:
            said = Answer(file="", verdict="not judged", answer=str(error))
        said.file = where
        yield said


def _show(said: Answer) -> None:
    """Print an answer: its sentence, then what it rests on."""
    print(f"{said.verdict}: {line(said.file)}: {line(said.answer)}")
    for role, name in said.hardware.items():
        print(f"  hardware: {role} {name}")
    for note in said.notes:
        print(f"  {line(note)}")
    for each in said.evidence:
        print(f"  {each.verdict}: {line(each.why)}")
    for unknown in said.unknown:
        print(f"  not known: {unknown}")
    if said.next:
        print(f"  next: {line(said.next)}")


class _Stranger(msgspec.Struct, forbid_unknown_fields=True):
    """A program without a parser has a name, what a line of it looks like, and what to say."""

    name: str
    looks: list[str]
    say: str


class _Unread(msgspec.Struct, forbid_unknown_fields=True):
    """The file has programs, errors and names: what names a known program in a text."""

    programs: list[_Stranger]
    errors: list[str]
    names: list[str]


@functools.cache
def _strangers() -> _Unread:
    return files.read_shape(Path(__file__).with_name("unread.yaml"), _Unread, ReferencesError)


def _unread(sent: Sent) -> Answer:
    """What helps with a text that no parser reads."""
    known, lines = _strangers(), sent.text.split("\n")
    wrong = re.compile("|".join(known.errors))
    errors = [(n, each) for n, each in enumerate(lines, 1) if wrong.search(each)][:3]
    its = next(
        (s for s in known.programs if re.search("|".join(s.looks), sent.text, re.MULTILINE)), None
    )
    if its:
        said = f"an output of {its.name}, which has no reader: {its.say}"
    elif sent.why != "unknown program":
        said = sent.why
    else:
        near = _nearest(sent.text)
        said = f"no known program printed this{f'; the nearest is {near}' if near else ''}"
    if errors:
        said = f"{said}; line {errors[0][0]} looks like the reason: {errors[0][1].strip()[:160]}"
    more = [f"also line {n}: {each.strip()[:160]}" for n, each in errors[1:]]
    then = f"assay judge reads {', '.join(registry.PARSERS)}: send the whole output of one of them"
    return Answer(file="", verdict="not read", answer=said, notes=more, next=then)


def _nearest(text: str) -> str:
    """The program that a text names most often; empty if it names none."""
    found = Counter(re.findall(rf"\b(?:{'|'.join(_strangers().names)})\b", text[:100_000]))
    return f"{found.most_common(1)[0][0]}, whose first lines are not here" if found else ""
