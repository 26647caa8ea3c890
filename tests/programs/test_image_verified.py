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

from assay.sites import auto, container, detect, verified

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
    lock = hashlib.sha256((ROOT / "requirements.lock").read_bytes()).hexdigest()
    shell.program(tmp_path / "bin", "apptainer", APPTAINER.replace("LOCK", lock))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    for name in ("ASSAY_IMAGE_SHA256", "ASSAY_IMAGE_KEY"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "assay.sif"
    path.write_bytes(b"an image")
    return path


def digest(image: Path) -> str:
    return hashlib.sha256(image.read_bytes()).hexdigest()


def look(image: Path, **demand: object) -> container.Image:
    return container.look(image, ROOT, verified.Demand(**demand))  # type: ignore[arg-type]


def started(image: Path) -> bool:
    return "exec" in (image.parent / "bin/calls").read_text().split()


def test_an_image_that_nothing_verifies_is_named_so(image: Path) -> None:
    assert look(image).provenance.endswith("; unverified")


def test_a_site_may_refuse_an_image_that_nothing_verifies(image: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing verifies it.*write its digest to assay\.sif\."):
        look(image, required=True)
    (image.parent / "assay.sif.sha256").write_text(f"{digest(image)}  assay.sif\n")
    assert look(image, required=True).verified == "assay.sif.sha256"


def test_a_flipped_byte_is_refused_before_the_image_starts(image: Path) -> None:
    done = shell.run("bash", ROOT / "ci/image-sign.sh", "digest", image)
    assert done.returncode == 0, done.stdout
    assert look(image).provenance.endswith("; verified by assay.sif.sha256")
    (image.parent / "bin/calls").write_text("")
    image.write_bytes(b"an imagf")
    with pytest.raises(ConfigError, match=r"assay\.sif\.sha256 says .* damaged or another image"):
        look(image)
    assert not started(image)


@pytest.mark.parametrize("by", ["variable", "site"])
def test_a_digest_from_another_place_must_hold_as_well(
    image: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    (image.parent / "assay.sif.sha256").write_text(f"{digest(image)}  assay.sif\n")
    sources = {"variable": "ASSAY_IMAGE_SHA256", "site": "the site"}
    for wanted in (digest(image), "0" * 64):
        demand = {"sha256": wanted} if by == "site" else {}
        if by == "variable":
            monkeypatch.setenv("ASSAY_IMAGE_SHA256", wanted)
        if wanted == digest(image):
            assert look(image, **demand).verified == f"assay.sif.sha256 and {sources[by]}"
        else:
            with pytest.raises(ConfigError, match=f"{sources[by]} says 0000"):
                look(image, **demand)


def test_a_digest_that_is_none_is_one_line(image: Path) -> None:
    (image.parent / "assay.sif.sha256").write_text("")
    with pytest.raises(ConfigError, match=r"the digest in assay\.sif\.sha256 is ''; write 64"):
        look(image)


@pytest.mark.parametrize("by", ["variable", "site"])
def test_a_signature_must_be_of_the_owner(
    image: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    for name, said in (
        ("good.pub", None),
        ("other.pub", "is not what the owner of .*other.pub signed .*signature not found"),
        ("none.pub", "none.pub is no file; name a public key"),
    ):
        key = image.parent / name
        if name != "none.pub":
            key.write_text("a key")
        demand = {"key": str(key)} if by == "site" else {}
        if by == "variable":
            monkeypatch.setenv("ASSAY_IMAGE_KEY", str(key))
        if said is None:
            assert look(image, required=True, **demand).verified == "the signature of good.pub"
        else:
            (image.parent / "bin/calls").write_text("")
            with pytest.raises(ConfigError, match=said):
                look(image, **demand)
            assert not started(image)


def test_the_label_of_another_lock_is_named(image: Path, tmp_path: Path) -> None:
    assert not look(image).foreign
    other = tmp_path / "checkout"
    other.mkdir()
    shutil.copy(ROOT / "requirements.lock", other)
    with (other / "requirements.lock").open("a") as file:
        file.write("# another\n")
    found = container.look(image, other)
    assert "(no lock of this checkout); unverified" in found.provenance


def test_the_demand_of_a_site_that_describes_itself_holds(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a site whose file says auto.configuration(__file__, Demand(required=True))."""
    (tmp_path / "site-config").symlink_to(ROOT / "site-config")
    (tmp_path / "ci").mkdir()
    monkeypatch.setenv("ASSAY_IMAGE", str(image))
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    for name in ("ASSAY_STACK", "ASSAY_PARTITION", "RFM_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(detect, "output", lambda *_: "")  # no Slurm
    with pytest.raises(ConfigError, match="nothing verifies it, and the site demands that"):
        auto.configuration(tmp_path / "site-config/any/reframe.py", verified.Demand(required=True))
