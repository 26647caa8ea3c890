"""Whether an image is the one that is meant: a digest, a signature, and the lock of its label.

Three things can say which image is meant. Each one that is there must hold:

=======================  ======================================================================
``IMAGE.sha256``         a file beside the image, as ``sha256sum`` writes it and ``make image``
``ASSAY_IMAGE_SHA256``   the digest itself
``ASSAY_IMAGE_KEY``      a public key (PEM): the image must have a signature by its owner
=======================  ======================================================================

A file beside the image finds a damaged copy. Only a digest or a key from another place finds an
image that somebody exchanged together with that file.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from reframe.core.exceptions import ConfigError

#: Runs a command and captures its output.
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def check(path: Path, sha256: str, apptainer: str, run: Run) -> str:
    """What verified an image, in words; "" if nothing says which image is meant.

    :raises ConfigError: something that says which image is meant does not hold or cannot be read.
    """
    held = []
    for wanted, source in _digests(path):
        if wanted != sha256:
            raise ConfigError(
                f"image {path}: its sha256 is {sha256}, {source} says {wanted}: "
                "it is damaged or another image; copy it again, or correct the digest"
            )
        held.append(source)
    if key := os.environ.get("ASSAY_IMAGE_KEY", ""):
        if not Path(key).is_file():
            raise ConfigError(f"ASSAY_IMAGE_KEY: {key} is no file; name a public key (PEM)")
        done = run([apptainer, "verify", "--key", key, str(path)])
        if done.returncode:
            said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            raise ConfigError(
                f"image {path}: is not what the owner of {key} signed "
                f"({said[-1] if said else 'apptainer verify failed'}); get the image again"
            )
        held.append(f"the signature of {Path(key).name}")
    return " and ".join(held)


def _digests(path: Path) -> list[tuple[str, str]]:
    """The digests that the image must have, and where each comes from."""
    found = []
    beside = path.with_name(path.name + ".sha256")
    if beside.exists():
        try:
            text = beside.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ConfigError(f"{beside}: {error.strerror}; make it readable") from None
        found.append((text.partition(" ")[0], beside.name))
    if text := os.environ.get("ASSAY_IMAGE_SHA256", ""):
        found.append((text, "ASSAY_IMAGE_SHA256"))
    cleaned = [(text.strip().lower(), source) for text, source in found]
    for text, source in cleaned:
        if not re.fullmatch("[0-9a-f]{64}", text):
            raise ConfigError(
                f"image {path}: the digest in {source} is {text[:70]!r}; write 64 hexadecimal "
                f"digits: sha256sum {path.name} > {path.name}.sha256"
            )
    return cleaned


def of_another_lock(lock: str, repository: Path) -> bool:
    """Whether no lock of the checkout has the hash that the label of an image states.

    :param lock: name and hash of the label; "" where the image has none.
    """
    name, _, stated = lock.partition(" ")
    if not stated:
        return False
    files = [repository / "requirements.lock"]
    if name.endswith(".spack"):
        files = [
            repository / "spack.lock",
            *repository.glob("site-config/*/spack/env/spack.lock"),
        ]
    there = [file for file in files if file.is_file()]
    return bool(there) and stated not in {
        hashlib.sha256(file.read_bytes()).hexdigest() for file in there
    }
