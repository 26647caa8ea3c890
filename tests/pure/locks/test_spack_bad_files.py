"""Files that are missing or make no sense: one line each, and no traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spack_copy import ENVIRONMENTS, REFERENCE, Copy, checker


def test_an_unknown_site_is_wrong_usage(copy: Copy) -> None:
    known = ", ".join(ENVIRONMENTS)
    assert copy.run("--site", "nowhere") == (
        2,
        [f"spack-check: unknown site 'nowhere'; known are {known}"],
    )


def test_no_repository_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checker.main(["--root", str(tmp_path)]) == 2
    assert "run from the repository, or give --root" in capsys.readouterr().err
    (tmp_path / "site-config").mkdir()
    assert checker.main(["--root", str(tmp_path)]) == 2
    assert "no site has a stack" in capsys.readouterr().err


def test_a_word_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as stop:
        checker.main(["check"])
    assert stop.value.code == 2


def test_a_site_that_was_never_solved(copy: Copy) -> None:
    (copy.root / "site-config/new/spack").mkdir(parents=True)
    code, lines = copy.run()
    assert code == 1
    said = "site-config/new/spack/env/spack.lock: No such file or directory; make lock SITE=new"
    assert lines == [f"spack-check: {said}"]


@pytest.mark.parametrize(
    "name",
    [
        "spack.yaml",
        "spack.lock",
        "spack.lock.seal.yaml",
        "spack-repo/pins.yaml",
        "site-config/common/spack/packages.yaml",
    ],
)
@pytest.mark.parametrize(
    "content",
    [None, b"", b"{", b"[]", b"{}", b"\xff", b"a: [", b"a: 2001-13-41", b"[" * 1000, b"? {a}: 1"],
)
def test_a_file_that_is_missing_or_broken(copy: Copy, name: str, content: bytes | None) -> None:
    path = copy.root / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    faults = copy.faults()
    if name == "spack.yaml" and content is None:
        # Without this file, nothing says which site the environment at the top level belongs to.
        name = f"site-config/{REFERENCE}/spack/env/spack.lock"
    assert all(fault.startswith((f"{name}:", f"{name} is gone since")) for fault in faults)
    if content in (b"{", b"\xff", b"a: [", b"a: 2001-13-41"):
        (fault,) = faults
        assert re.search("not valid YAML|not a text in UTF-8|not a lock of Spack", fault)


@pytest.mark.parametrize("value", ["010", "0o10", "1:30", "no", "on", "Yes", "1_000", ".inf"])
def test_a_text_that_spack_reads_as_another_value(copy: Copy, value: str) -> None:
    """The seal is of what Spack reads, by YAML 1.2. PyYAML reads these texts by YAML 1.1."""
    path = copy.root / "site-config/common/spack/packages.yaml"
    path.write_text(path.read_text() + f"  zz-new: {{require: {value}}}\n")
    (fault,) = copy.faults()
    assert fault.startswith("site-config/common/spack/packages.yaml: line ")
    assert f"{value!r} " in fault
    assert "quote it" in fault


def test_a_recipe_that_cannot_be_read(copy: Copy) -> None:
    path = copy.root / "spack-repo/spack_repo/assay/packages/hpl/package.py"
    path.unlink()
    path.symlink_to("/proc/self/mem")  # even root cannot read its first byte
    (fault,) = copy.faults()
    assert "hpl/package.py: Input/output error;" in fault


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"lockfile-version": 6', '"lockfile-version": 7', "versions (7, 5) of another Spack"),
        ('"version": "1.1.0"', '"version": "1.3.0"', "of another Spack than 1.1 or 1.2"),
        ('"version": "1.1.0"', '"version": "1.20.0"', "of another Spack than 1.1 or 1.2"),
        ('"roots":', '"root":', "not a lock of Spack: KeyError('roots')"),
        ('"roots":', '"roots": [], "roots":', "is not the file that Spack wrote"),
        ('"roots":', '"number": NaN, "roots":', "is not the file that Spack wrote"),
        ('"deptypes":', '"types":', " changed since"),
        ('"arch":', '"march":', "not a lock of Spack: KeyError('arch')"),
    ],
)
def test_a_lock_that_is_not_understood(copy: Copy, old: str, new: str, said: str) -> None:
    path = copy.path("spack.lock")
    text = json.dumps(copy.lock())
    assert old in text
    path.write_text(text.replace(old, new, 1))
    faults = copy.faults()
    assert all(fault.startswith("spack.lock: ") for fault in faults)
    assert any(said in fault for fault in faults)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=8),
    st.sampled_from(["", "a\nb", "\ud800", "a" * 32, "$x"]),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def spoil(document: Any, data: st.DataObject) -> Any:
    """Replaces or drops one item anywhere in a document."""
    if not isinstance(document, (dict, list)) or not document or not data.draw(st.integers(0, 5)):
        return data.draw(JUNK)
    keys = list(document) if isinstance(document, dict) else range(len(document))
    key = data.draw(st.sampled_from(keys))
    document[key] = spoil(document[key], data)
    if data.draw(st.integers(0, 9)) == 0:
        del document[key]
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
        code = checker.main(["--site", REFERENCE, "--root", str(spoilt.root)])
        out, err = capsys.readouterr()
        assert code in (0, 1)
        assert (code == 0) == (not err)
        assert all(line.startswith("spack-check: ") for line in err.split("\n")[:-1])
        assert code == 1 or out == f"{REFERENCE}: spack.lock is sound\n"
    finally:
        path.write_bytes(before)
