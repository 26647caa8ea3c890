"""Files that are missing or make no sense: one line each, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spack_copy import ENVIRONMENTS, REFERENCE, Copy

from assay.cli import main


def test_an_unknown_site_is_wrong_usage(copy: Copy) -> None:
    known = ", ".join(ENVIRONMENTS)
    assert copy.run("check", "--site", "nowhere") == (
        2,
        [f"assay lock: unknown site 'nowhere'; known are {known}"],
    )


def test_no_repository_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "check", "--root", str(tmp_path)]) == 2
    assert "run from the repository, or give --root" in capsys.readouterr().err
    (tmp_path / "site-config").mkdir()
    assert main(["lock", "check", "--root", str(tmp_path)]) == 2
    assert "no site has a stack" in capsys.readouterr().err


def test_no_action_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as stop:
        main(["lock"])
    assert stop.value.code == 2


def test_a_site_without_manifest(copy: Copy) -> None:
    (copy.root / "site-config/new/spack").mkdir(parents=True)
    code, lines = copy.run("check")
    assert code == 1
    assert lines == ["assay lock: site-config/new/spack/env/spack.yaml: No such file or directory"]


@pytest.mark.parametrize(
    "name", ["spack.yaml", "spack.lock", "spack.lock.seal.yaml", "spack-repo/pins.yaml"]
)
@pytest.mark.parametrize(
    "content",
    [None, b"", b"{", b"[]", b"{}", b"\xff", b"a: [", b"a: 2001-13-41", b"[" * 5000, b"? {a}: 1"],
)
def test_a_file_that_is_missing_or_broken(copy: Copy, name: str, content: bytes | None) -> None:
    path = copy.root / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    code, lines = copy.run("check", "--site", REFERENCE)
    if name == "spack.yaml" and content is None:
        # Without this file, nothing says which site the environment at the top level belongs to.
        name = f"site-config/{REFERENCE}/spack/env/spack.yaml"
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"assay lock: {name}:")
    if content in (b"{", b"\xff", b"a: [", b"a: 2001-13-41"):
        assert "not valid " in lines[0] or "not a text in UTF-8" in lines[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("specs:", "specs: []\n  other:", "specs: none"),
        ("- $gpu", "- $gpus", "specs: $gpus is not defined; known are "),
        ("- $gpu", "- [gpu]", "is not a spec, a $name or a matrix"),
        ("- $gpu", "- hpl hpcc", "two names, 'hpl' and 'hpcc'"),
        ("- $gpu", "- hpl&", "not understood from '&' on"),
        ("include:", "include:\n  - $HOME/x", "depends on the machine that solves it"),
        ("include:", "include:\n  - {path: x, when: 'True'}", "only path and optional"),
        ("include:", "include:\n  - nowhere", "include: nowhere does not exist"),
        ("include:", "include:\n  - 1", "include: '1' is not a path"),
        ("specs:", "definitions: [{a: b}]\n  specs:", "definitions:a: must be a list"),
        ("include:", "include:\n  - ../..", "outside of the repository"),
        ("include:", "include:\n  - spack.yaml", "includes itself"),
        ("include:", "include::", "include:: hides what other files say"),
        ("specs:", "definitions: [{a: [$a], when: 'True'}]\n  specs:", "`when` makes the lock"),
        ("specs:", "definitions: [{gpu: [$gpu]}]\n  specs:", "$gpu is defined by itself"),
        ("specs:", "packages: {hpl: {require: 1}}\n  specs:", "packages/hpl/require: "),
    ],
)
def test_a_manifest_that_is_not_understood(copy: Copy, old: str, new: str, said: str) -> None:
    copy.edit("spack.yaml", old, new)
    code, lines = copy.run("check", "--site", REFERENCE)
    assert code == 1
    assert len(lines) == 1
    assert said in lines[0]
    assert ".yaml: " in lines[0]


def test_an_optional_include_may_be_missing(copy: Copy) -> None:
    copy.edit("spack.yaml", "include:", "include:\n  - {path: nowhere, optional: true}")
    copy.relock(copy.lock())
    assert copy.run("check", "--site", REFERENCE) == (0, [])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"lockfile-version": 6', '"lockfile-version": 7', "_meta/lockfile-version: "),
        ('"version": "1.1.0"', '"version": "1.2.0"', "spack/version: "),
        ('"roots":', '"roots": [], "root":', "roots: "),
        ('"roots":', '"roots": [], "roots":', "key 'roots' stands twice"),
        ('"roots":', '"number": NaN, "roots":', "NaN is no JSON"),
    ],
)
def test_a_lock_that_is_not_understood(copy: Copy, old: str, new: str, said: str) -> None:
    path = copy.path("spack.lock")
    text = json.dumps(copy.lock())
    assert old in text
    path.write_text(text.replace(old, new, 1))
    (fault,) = copy.faults()
    assert fault.startswith("spack.lock: ")
    assert said in fault


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["", "a\nb", "\ud800", "mpi", "ucx@1", "a" * 32, "@", "^", "$x"]),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def spoil(document: Any, data: st.DataObject) -> Any:
    """Replaces, drops or renames one item anywhere in a document."""
    junk = data.draw(JUNK)
    holder, key, value = None, None, document
    while isinstance(value, (dict, list)) and value and data.draw(st.integers(0, 5)):
        holder = value
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = data.draw(st.sampled_from(keys))
        value = value[key]
    how = data.draw(st.sampled_from(["replace", "drop", "rename"]))
    if holder is None:
        return junk
    if how == "replace":
        holder[key] = junk
    else:
        del holder[key]
        if how == "rename" and isinstance(holder, dict):
            holder[data.draw(st.text(max_size=5))] = value
    return document


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("spoilt"))


@pytest.mark.parametrize(
    "name",
    [
        "spack.lock",
        "spack.yaml",
        "spack.lock.seal.yaml",
        "spack-repo/pins.yaml",
        "site-config/common/spack/packages.yaml",
        "site-config/common/spack/definitions.yaml",
        f"site-config/{REFERENCE}/spack/packages.yaml",
    ],
)
@settings(max_examples=settings().max_examples // 5, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_a_file_holds_there_are_lines_and_no_traceback(
    spoilt: Copy, capsys: pytest.CaptureFixture[str], name: str, data: st.DataObject
) -> None:
    path = spoilt.root / name
    before = path.read_bytes()
    try:
        if data.draw(st.booleans()):
            document = json.loads(before) if name.endswith(".lock") else yaml.safe_load(before)
            # JSON is YAML, and it escapes characters that UTF-8 cannot hold.
            path.write_text(json.dumps(spoil(document, data)))
        else:
            at = data.draw(st.integers(0, len(before) - 1))
            path.write_bytes(before[:at] + data.draw(st.binary(max_size=3)) + before[at + 1 :])
        capsys.readouterr()
        code = main(["lock", "check", "--root", str(spoilt.root)])
        out, err = capsys.readouterr()
        assert code in (0, 1)
        assert (code == 0) == (not err)
        assert all(line.startswith("assay lock: ") for line in err.split("\n")[:-1])
        assert code == 1 or len(out.splitlines()) == len(ENVIRONMENTS)
    finally:
        path.write_bytes(before)
