"""An image is verified before it is started: digest, signature, lock (by a fake Apptainer)."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import shell
from shell import ROOT

pytest.importorskip("reframe")

from reframe.core.exceptions import ConfigError

from assay.describe import container

#: Answers what is asked of an image, and notes each start. It verifies by the key `good.pub` alone.
APPTAINER = """\
echo "$1" >>"$(dirname "$0")/calls"
case $1 in
inspect) echo '{"data": {"attributes": {"labels": {"assay.lock.requirements": "LOCK"}}}}' ;;
verify)
    case $3 in *good.pub) exit 0 ;; esac
    echo "FATAL:   Failed to verify container: integrity: signature not found" >&2
    exit 255
    ;;
esac
"""


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lock = hashlib.sha256((ROOT / "requirements/run.lock").read_bytes()).hexdigest()
    shell.program(tmp_path / "bin", "apptainer", APPTAINER.replace("LOCK", lock))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("ASSAY_IMAGE_KEY", raising=False)
    path = tmp_path / "assay.sif"
    path.write_bytes(b"an image")
    return path


def look(image: Path) -> container.Image:
    return container.look(image, ROOT)


def started(image: Path) -> bool:
    return "exec" in (image.parent / "bin/calls").read_text().split()


def test_an_image_that_nothing_verifies_is_named_so(image: Path) -> None:
    assert look(image).provenance.endswith("; unverified")


def test_a_flipped_byte_is_refused_before_the_image_starts(image: Path) -> None:
    done = shell.run("bash", ROOT / "ci/image-sign.sh", "digest", image)
    assert done.returncode == 0, done.stdout
    assert look(image).provenance.endswith("; verified by assay.sif.sha256")
    (image.parent / "bin/calls").write_text("")
    image.write_bytes(b"an imagf")
    with pytest.raises(ConfigError, match=r"assay\.sif\.sha256 says .* damaged or another image"):
        look(image)
    assert not started(image)


def test_a_digest_that_is_none_is_one_line(image: Path) -> None:
    (image.parent / "assay.sif.sha256").write_text("")
    with pytest.raises(ConfigError, match=r"the digest in assay\.sif\.sha256 is ''; write 64"):
        look(image)


def test_a_signature_must_be_of_the_owner(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (
        ("good.pub", None),
        ("other.pub", "is not what the owner of .*other.pub signed .*signature not found"),
        ("none.pub", "none.pub is no file; name a public key"),
    ):
        key = image.parent / name
        if name != "none.pub":
            key.write_text("a key")
        monkeypatch.setenv("ASSAY_IMAGE_KEY", str(key))
        if said is None:
            assert look(image).verified == "the signature of good.pub"
        else:
            (image.parent / "bin/calls").write_text("")
            with pytest.raises(ConfigError, match=said):
                look(image)
            assert not started(image)


def test_the_label_of_another_lock_is_named(image: Path, tmp_path: Path) -> None:
    assert not look(image).foreign
    other = tmp_path / "checkout"
    shutil.copytree(ROOT / "requirements", other / "requirements")
    with (other / "requirements/run.lock").open("a") as file:
        file.write("# another\n")
    found = container.look(image, other)
    assert "(no lock of this checkout); unverified" in found.provenance
