"""A bundle: the files of a run in one zip archive whose every byte is covered by a hash.

``unzip``, ``sha256sum -c SHA256SUMS`` and ``ssh-keygen -Y verify`` can check it. The first member,
:data:`SUMS`, has the SHA-256 of every other one but :data:`SIGNATURE`, which signs it. The comment
of the archive is the SHA-256 of all bytes before it, so that a damaged header is found as well.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from assay import files

SUMS, SIGNATURE = _FIRST = ("SHA256SUMS", "SHA256SUMS.sig")

#: The folder in a bundle that holds the results of the run.
RESULTS = "results"

#: The largest member, all members together, and the file [B]; and the number of members.
MOST_OF_MEMBER, MOST_OF_ALL, MOST_OF_FILE, MOST_MEMBERS = 2**26, 2**28, 2**26, 50_000

#: What begins the entry of a member in the directory of a zip archive. Compressed bytes may look
#: like it by chance.
_ENTRY, _BY_CHANCE = b"PK\1\2", 100

_DIGEST = 64


class BundleError(Exception):
    """A bundle cannot be written or checked; one line with the file and the remedy."""


class Refused(Exception):
    """A bundle is not what was written; each argument is one line that names what differs."""


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle.

    :ivar members: name -> content; without sums and signature.
    :ivar sums: the text that is signed.
    :ivar signature: None for an unsigned bundle.
    """

    members: Mapping[str, bytes]
    sums: bytes
    signature: bytes | None


def pack(members: Mapping[str, bytes], sign: Callable[[bytes], bytes] | None = None) -> bytes:
    """The file of a bundle. The same members give the same bytes.

    :param sign: gives the signature of a text; None for an unsigned bundle.
    :raises BundleError: a member is too large, or its name is not plain.
    """
    ordered = {name: members[name] for name in sorted(members)}
    for name, content in ordered.items():
        if not _plain(name) or _is_folder(name, members):
            raise BundleError(f"{name!r}: a bundle cannot have a file of this name")
        if len(content) > MOST_OF_MEMBER:
            raise BundleError(
                f"{name}: {len(content)} B are more than a bundle takes for one file "
                f"({MOST_OF_MEMBER} B); shorten the output of this case, and run it again"
            )
    if len(ordered) + 2 > MOST_MEMBERS or sum(map(len, ordered.values())) > MOST_OF_ALL:
        raise BundleError(
            f"{len(ordered)} files of {sum(map(len, ordered.values()))} B are more than a bundle "
            f"takes ({MOST_MEMBERS} files, {MOST_OF_ALL} B); take a shorter session"
        )
    sums = "".join(f"{sha256(content)}  {name}\n" for name, content in ordered.items()).encode()
    ordered = {SUMS: sums, **ordered}
    if sign:
        ordered[SIGNATURE] = sign(sums)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ordered.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        archive.comment = b"0" * _DIGEST
    packed = stream.getvalue()[:-_DIGEST]
    if len(packed) + _DIGEST > MOST_OF_FILE:
        raise BundleError(f"{len(packed)} B are more than a bundle takes; take a shorter session")
    return packed + sha256(packed).encode()


def read_bundle(
    path: Path, accept: Callable[[bytes, bytes | None], object] | None = None
) -> Bundle:
    """The content of a bundle; every byte of the file was checked against a hash.

    :param accept: looks at the sums and the signature (None if there is none) before any other
        member is unpacked, and raises an error if these others are not to be read.
    :raises BundleError: the file cannot be read.
    :raises Refused: it is no bundle, or not as it was written.
    """
    try:
        data = files.read_bytes(path, MOST_OF_FILE, os.O_NOFOLLOW)
    except OSError as error:
        why = "is a symbolic link" if path.is_symlink() else error.strerror
        raise BundleError(f"{path}: {why}; name the file of a bundle") from None
    if data.count(_ENTRY) > MOST_MEMBERS + _BY_CHANCE:
        raise Refused(f"it has more than {MOST_MEMBERS} files: no bundle has them")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = _members(archive)
            head = dict(islice(unpacked, len({*_FIRST} & {*archive.namelist()})))
            sums, signature = map(head.get, _FIRST)
            if sums is None:
                raise Refused(f"{SUMS} is missing: nothing says what the bundle holds")
            if accept:
                accept(sums, signature)
            members = dict(unpacked)
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise Refused(f"the file is truncated, or is no bundle ({error}); fetch it again") from None
    if wrong := [*_compared(sums, members)]:
        raise Refused(*wrong)
    if both := next((name for name in members if _is_folder(name, members)), None):
        raise Refused(f"{both}: is a file and a folder")
    if data[-_DIGEST:] != sha256(data[:-_DIGEST]).encode():
        raise Refused(
            "a byte of the archive outside of its members was changed (a header, or its directory)"
        )
    return Bundle(members, sums, signature)


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """The members and their contents: :data:`_FIRST`, then the others."""
    entries = sorted(archive.infolist(), key=lambda entry: entry.filename not in _FIRST)
    if len(entries) > MOST_MEMBERS or sum(entry.file_size for entry in entries) > MOST_OF_ALL:
        raise Refused(
            f"it claims more than {MOST_MEMBERS} files or {MOST_OF_ALL} B: no bundle has them"
        )
    seen: set[str] = set()
    for entry in entries:
        name = entry.filename
        if name in seen:
            raise Refused(f"{name}: is in the archive twice")
        if not _plain(name):
            raise Refused(f"{name!r}: is not a plain name below the bundle")
        if entry.file_size > MOST_OF_MEMBER:
            raise Refused(f"{name}: claims {entry.file_size} B, at most {MOST_OF_MEMBER} are read")
        seen.add(name)
        try:
            with archive.open(entry) as stream:
                # It may have more than it claims.
                content = stream.read(entry.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise Refused(f"{name}: was changed or is torn ({error})") from None
        if len(content) != entry.file_size:
            raise Refused(f"{name}: has not the {entry.file_size} B that it claims")
        yield name, content


def _compared(sums: bytes, members: Mapping[str, bytes]) -> Iterator[str]:
    """What differs from the sums, one line each."""
    listed: dict[str, str] = {}
    for line in sums.decode("utf-8", errors="replace").splitlines():
        match = re.fullmatch(r"([0-9a-f]{64})  (.+)", line)
        if match is None or match[2] in listed:
            yield f"{SUMS}: {line!r:.120} is not a line of a bundle, or names a file again"
            return
        listed[match[2]] = match[1]
    for name, digest in listed.items():
        if name not in members:
            yield f"{name}: is missing; {SUMS} lists it"
        elif sha256(members[name]) != digest:
            yield f"{name}: was changed; its SHA-256 is not that of {SUMS}"
    for name in members:
        if name not in listed:
            yield f"{name}: was added; {SUMS} does not list it"


def _plain(name: str) -> bool:
    """Whether the name is a path below a folder on any system."""
    parts = PurePosixPath(name).parts
    return (
        0 < len(name) <= 400
        and name.isprintable()
        and name.isascii()
        and not set(name) & set('\\:*?"<>|')
        and str(PurePosixPath(name)) == name
        and not name.startswith("/")
        and ".." not in parts
        and len(parts) <= 30
    )


def _is_folder(name: str, members: Container[str]) -> bool:
    """Whether a folder of the name is itself a member."""
    return any(str(above) in members for above in PurePosixPath(name).parents)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def unpack(members: Mapping[str, bytes], folder: Path) -> None:
    """Writes the members below an empty folder.

    :raises BundleError: the folder cannot hold them.
    """
    try:
        for name, content in members.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise BundleError(
            f"{folder.parent}: the files of the bundle cannot be written there ({error.strerror}); "
            "set TMPDIR to a folder with more space"
        ) from None
