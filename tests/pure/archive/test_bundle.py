"""The file of a bundle: every byte of it is covered, and nothing large or foreign is read."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.archive import bundle
from assay.archive.bundle import SIGNATURE, SUMS, Bundle, BundleError, Refused

MEMBERS = {"b/two": b"2" * 300, "a.json": b"{}", "c": b"", "b/one": bytes(range(256))}


def seal(packed: bytes) -> bytes:
    """An archive whose last bytes are the hash of all others, as a careful forger writes it."""
    return packed[:-64] + hashlib.sha256(packed[:-64]).hexdigest().encode()


def zipped(*entries: tuple[str, bytes], comment: bytes = b"0" * 64) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name, content in entries:
            made.writestr(zipfile.ZipInfo(name), content)
        made.comment = comment
    return seal(stream.getvalue())


def sums(**members: bytes) -> tuple[str, bytes]:
    lines = [
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in members.items()
    ]
    return SUMS, "".join(lines).encode()


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Bundle]:
    def write_and_read(content: bytes, *accept: Callable[..., object]) -> Bundle:
        path = tmp_path / "bundle.zip"
        path.write_bytes(content)
        return bundle.read_bundle(path, *accept)

    return write_and_read


def test_what_was_packed_is_read(read):
    found = read(bundle.pack(MEMBERS, None))
    assert (dict(found.members), found.signature) == (MEMBERS, None)
    assert list(found.members) == sorted(MEMBERS)


def test_the_signature_is_of_the_sums(read):
    found = read(bundle.pack(MEMBERS, lambda text: b"signed " + text))
    assert found.signature == b"signed " + found.sums


def test_the_same_files_give_the_same_bytes():
    assert bundle.pack(MEMBERS, None) == bundle.pack(dict(reversed(MEMBERS.items())), None)


def test_ordinary_programs_can_check_it(tmp_path):
    (tmp_path / "bundle.zip").write_bytes(bundle.pack(MEMBERS, None))
    with zipfile.ZipFile(tmp_path / "bundle.zip") as found:
        assert found.testzip() is None
        for line in found.read(SUMS).decode().splitlines():
            digest, name = line.split("  ")
            assert hashlib.sha256(found.read(name)).hexdigest() == digest


def test_each_changed_byte_is_refused(read, short):
    """A short run changes every fourth byte."""
    whole = bundle.pack(MEMBERS, lambda text: b"x" * 64)
    for at in range(0, len(whole), 4 if short else 1):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        with pytest.raises(Refused):
            read(bytes(changed))


def test_each_lost_end_is_refused(read, short):
    """A short run makes every fourth cut, and each of the last 64 B."""
    whole = bundle.pack(MEMBERS, None)
    last = len(whole) - 64
    for length in (*range(0, last, 4 if short else 1), *range(last, len(whole))):
        with pytest.raises(Refused):
            read(whole[:length])


def test_added_bytes_are_refused(read):
    whole = bundle.pack(MEMBERS, None)
    for other in (whole + b"\n", b"#!/bin/sh\n" + whole):
        with pytest.raises(Refused):
            read(other)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([sums(a=b"1"), ("a", b"2")], "a: was changed"),
        ([sums(a=b"1", b=b"2"), ("a", b"1")], "b: is missing"),
        ([sums(a=b"1"), ("a", b"1"), ("b", b"2")], "b: was added"),
        ([sums(a=b"1"), ("a", b"1"), ("a", b"1")], "a: is in the archive twice"),
        ([("a", b"1")], "SHA256SUMS is missing"),
        ([(SUMS, b"nothing\n"), ("a", b"1")], "is not a line of a bundle"),
        ([(SUMS, sums(a=b"1")[1] * 2), ("a", b"1")], "names a file again"),
        *(
            ([(SUMS, b""), (name, b"")], "is not a plain name")
            for name in (
                "../a",
                "/a",
                "a/../b",
                "./a",
                "a//b",
                "C:a",
                "a\\b",
                "a\nb",
                "é",
                "a" * 500,
            )
        ),
    ],
)
def test_a_forged_archive_is_refused(read, entries, said):
    with pytest.raises(Refused, match=said):
        read(zipped(*entries))


def test_a_bomb_is_not_unpacked(read, monkeypatch):
    monkeypatch.setattr(bundle, "MOST_OF_MEMBER", 1000)
    monkeypatch.setattr(bundle, "MOST_OF_ALL", 1500)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(SUMS, b"")
        made.writestr("a", b"\0" * 1001)
    with pytest.raises(Refused, match="a: claims 1001 B"):
        read(bomb.getvalue())
    with pytest.raises(Refused, match="it claims more than"):
        read(zipped((SUMS, b""), ("a", b"1" * 800), ("b", b"1" * 800)))
    # It claims 10 B, in both of its headers, and has more.
    small = bomb.getvalue().replace((1001).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(Refused, match="a: "):
        read(small)


def test_too_many_files_and_too_large_a_file_are_not_read(read, monkeypatch):
    monkeypatch.setattr(bundle, "MOST_MEMBERS", 3)
    with pytest.raises(Refused, match="more than 3 files"):
        read(zipped((SUMS, b""), *((f"a{n}", b"") for n in range(3))))
    monkeypatch.setattr(bundle, "MOST_OF_FILE", 100)
    with pytest.raises(BundleError, match="has more than 100 B"):
        read(b"0" * 101)


def test_a_directory_with_too_many_entries_is_not_parsed(read, monkeypatch):
    monkeypatch.setattr(bundle, "MOST_MEMBERS", 3)
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("it was parsed"))
    with pytest.raises(Refused, match="more than 3 files"):
        read(b"PK\1\2" * 200)


def test_only_sums_and_signature_are_unpacked_before_they_are_accepted(read):
    """The other member is torn, which nobody has to find out."""
    torn = zipped((SUMS, b"sums"), ("a", b"1" * 999), (SIGNATURE, b"s")).replace(
        b"1" * 99, b"2" * 99
    )
    seen = []

    def accept(*signed):
        seen.append(signed)
        raise BundleError("nobody that we know")

    with pytest.raises(BundleError, match="nobody that we know"):
        read(torn, accept)
    assert seen == [(b"sums", b"s")]
    with pytest.raises(Refused, match="a: was changed or is torn"):
        read(torn)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BundleError, match="No such file"):
        bundle.read_bundle(tmp_path / "nothing.zip")


def test_what_is_too_large_is_not_packed(monkeypatch):
    monkeypatch.setattr(bundle, "MOST_OF_MEMBER", 10)
    with pytest.raises(BundleError, match="b/one: 256 B are more"):
        bundle.pack(MEMBERS, None)
    monkeypatch.setattr(bundle, "MOST_OF_MEMBER", 1000)
    monkeypatch.setattr(bundle, "MOST_OF_ALL", 10)
    with pytest.raises(BundleError, match="more than a bundle takes"):
        bundle.pack(MEMBERS, None)
    with pytest.raises(BundleError, match="cannot have a file of this name"):
        bundle.pack({"../a": b""}, None)


def test_the_signature_has_its_place(read):
    found = read(zipped(sums(a=b"1"), ("a", b"1"), (SIGNATURE, b"s")))
    assert found.signature == b"s"


def test_a_file_may_not_be_a_folder_of_another(tmp_path):
    both = {"a": b"1", "a/b": b"2"}
    with pytest.raises(bundle.BundleError, match="'a/b': a bundle cannot have a file of this name"):
        bundle.pack(both)


def test_a_folder_that_cannot_hold_the_files_is_no_forgery(tmp_path):
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(bundle.BundleError, match="set TMPDIR to a folder with more space"):
        bundle.unpack({"a/b": b"1"}, tmp_path)
