"""The file of a certificate: a zip archive whose every byte is covered by a hash.

Ordinary programs can read and check it: ``unzip``, ``sha256sum -c SHA256SUMS`` and ``ssh-keygen -Y
verify``. :data:`SUMS` is the first member; it lists the SHA-256 of every other member but the
signature, in the order of the archive, which is the order of their names. :data:`SIGNATURE` signs
:data:`SUMS` and is the last member. The comment of the archive is the SHA-256 of all bytes before
it, so that a damaged header is found as well.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"

#: The largest member, all members together, and the file [B]; and the number of members.
MOST_OF_MEMBER, MOST_OF_ALL, MOST_OF_FILE, MOST_MEMBERS = 2**26, 2**29, 2**28, 50_000

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")

_DIGEST = 64


class CertificateError(Exception):
    """A certificate cannot be written or checked; one line with the file and the remedy."""


class Refused(Exception):
    """A certificate is not what was written; each argument is one line that names what differs."""


@dataclass(frozen=True)
class Archive:
    """The content of a certificate.

    :ivar members: name -> content; without sums and signature.
    :ivar sums: the signed text.
    :ivar signature: None for an unsigned certificate.
    """

    members: Mapping[str, bytes]
    sums: bytes
    signature: bytes | None


def pack(members: Mapping[str, bytes], sign: Callable[[bytes], bytes] | None) -> bytes:
    """The file of a certificate.

    :param sign: gives the signature of a text; None for an unsigned certificate.
    :raises CertificateError: a member is too large, or its name is not plain.
    """
    ordered = {name: members[name] for name in sorted(members)}
    for name, content in ordered.items():
        if not _plain(name):
            raise CertificateError(f"{name!r}: a certificate cannot have a file of this name")
        if len(content) > MOST_OF_MEMBER:
            raise CertificateError(
                f"{name}: {len(content)} B are more than a certificate takes for one file "
                f"({MOST_OF_MEMBER} B); shorten the output of this case, and run it again"
            )
    if len(ordered) > MOST_MEMBERS or sum(map(len, ordered.values())) > MOST_OF_ALL:
        raise CertificateError(
            f"{len(ordered)} files of {sum(map(len, ordered.values()))} B are more than a "
            f"certificate takes ({MOST_MEMBERS} files, {MOST_OF_ALL} B); certify a shorter session"
        )
    sums = "".join(f"{_sha256(content)}  {name}\n" for name, content in ordered.items()).encode()
    ordered = {SUMS: sums, **ordered}
    if sign:
        ordered[SIGNATURE] = sign(sums)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ordered.items():
            # Without times of files, the same session gives the same archive.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        archive.comment = b"0" * _DIGEST
    packed = stream.getvalue()[:-_DIGEST]
    return packed + _sha256(packed).encode()


def read(path: Path) -> Archive:
    """The content of a certificate; every byte of the file was checked against a hash.

    :raises CertificateError: the file cannot be read.
    :raises Refused: it is not a certificate, or not as it was written.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_OF_FILE + 1)
    except OSError as error:
        raise CertificateError(
            f"{path}: {error.strerror}; name the file of a certificate"
        ) from None
    if len(data) > MOST_OF_FILE:
        raise Refused(f"the file is larger than {MOST_OF_FILE} B, the most of a certificate")
    whole = data[-_DIGEST:] == _sha256(data[:-_DIGEST]).encode()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = dict(_members(archive))
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise Refused(
            f"the file is truncated, or is no certificate ({error}); fetch it again"
        ) from None
    sums, signature = members.pop(SUMS, None), members.pop(SIGNATURE, None)
    if sums is None:
        raise Refused(f"{SUMS} is missing: nothing says what the certificate holds")
    wrong = [*_compared(sums, members)]
    if wrong:
        raise Refused(*wrong)
    if not whole:
        raise Refused(
            "a byte of the archive outside of its members was changed (a header, or its directory)"
        )
    return Archive(members, sums, signature)


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    entries = archive.infolist()
    if len(entries) > MOST_MEMBERS or sum(entry.file_size for entry in entries) > MOST_OF_ALL:
        raise Refused(
            f"it claims more than {MOST_MEMBERS} files or {MOST_OF_ALL} B: no certificate has them"
        )
    seen: set[str] = set()
    for entry in entries:
        name = entry.filename
        if name in seen:
            raise Refused(f"{name}: is in the archive twice")
        if not _plain(name):
            raise Refused(f"{name!r}: is not a plain name below the certificate")
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
    lines = sums.decode("utf-8", errors="replace").splitlines()
    listed: dict[str, str] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or match[2] in listed:
            yield f"{SUMS}: {line!r:.120} is not a line of a certificate, or names a file again"
            return
        listed[match[2]] = match[1]
    for name, digest in listed.items():
        if name not in members:
            yield f"{name}: is missing; {SUMS} lists it"
        elif _sha256(members[name]) != digest:
            yield f"{name}: was changed; its SHA-256 is not that of {SUMS}"
    for name in members:
        if name not in listed:
            yield f"{name}: was added; {SUMS} does not list it"
    for place, (name, expected) in enumerate(zip(members, sorted(members))):
        if name != expected:
            yield f"{name}: is in place {place + 1}, where {expected} belongs"
            return
    if list(listed) != sorted(listed):
        yield f"{SUMS}: its lines are not in the order of their names"


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


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def unpack(members: Mapping[str, bytes], folder: Path) -> None:
    """Writes the members below an empty folder."""
    for name, content in members.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
