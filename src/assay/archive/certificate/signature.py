"""Signatures by OpenSSH: ``ssh-keygen -Y sign`` and ``-Y verify`` (release 8.1 and newer).

People have such keys, also on hardware tokens, and anybody can check the signature without Assay.
The Python library ``cryptography`` would read private keys, which a token never gives away.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from assay.archive.bundle import SIGNATURE, SUMS, BundleError, Refused

#: What the signatures are for; one for another purpose does not count.
NAMESPACE = "assay-certificate"

#: The largest signature that is read [B].
MOST = 2**16

LIMIT_SECONDS = 120


def fingerprint(key: Path) -> str:
    """The fingerprint of a key.

    :param key: a private or a public key of OpenSSH.
    :raises BundleError: it is none.
    """
    done = _keygen("-l", "-E", "sha256", "-f", str(key))
    found = re.search(rb"SHA256:[\w+/=]+", done.stdout)
    if done.returncode or not found:
        raise BundleError(
            f"{key}: no key of OpenSSH ({_said(done)}); make one: ssh-keygen -t ed25519 -f {key}"
        )
    return found[0].decode()


def sign(key: Path, text: bytes) -> bytes:
    """The signature of a text.

    :param key: the private key, or the public key if an agent holds the private one.
    :raises BundleError: the key cannot sign.
    """
    with tempfile.TemporaryDirectory() as scratch:
        signed = Path(scratch) / "text"
        signed.write_bytes(text)
        done = _keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(signed))
        try:
            return signed.with_name("text.sig").read_bytes()
        except OSError:
            raise BundleError(
                f"{key}: cannot sign ({_said(done)}); name a private key of OpenSSH with --key"
            ) from None


def check_signature(
    signature: bytes, text: bytes, known: Path | None, of: str = SUMS
) -> tuple[str, str]:
    """Who signed the text: the fingerprint of the public key, and the name of a known signer or "".

    :param of: the file that has the text, for messages.
    :param known: the known signers, in the form of OpenSSH: ``NAME ssh-ed25519 AAAA...``.
    :raises Refused: it is not the signature of this text.
    :raises BundleError: there is no OpenSSH, or `known` cannot be read.
    """
    if len(signature) > MOST:
        raise Refused(f"{SIGNATURE}: {len(signature)} B are no signature of OpenSSH")
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "signature"
        file.write_bytes(signature)
        plain = _keygen("-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(file), text=text)
        if plain.returncode:
            raise Refused(f"{SIGNATURE}: is not the signature of {of} ({_said(plain)})")
        found = re.search(rb"SHA256:[\w+/=]+", plain.stdout)
        signer = found[0].decode() if found else ""
        if known is None:
            return signer, ""
        if not known.is_file():
            raise BundleError(
                f"{known}: no such file; a line of it is NAME and the public key of a signer"
            )
        named = _keygen("-Y", "find-principals", "-s", str(file), "-f", str(known))
        for name in named.stdout.decode(errors="replace").splitlines():
            done = _keygen(
                *("-Y", "verify", "-f", str(known), "-I", name, "-n", NAMESPACE, "-s", str(file)),
                text=text,
            )
            if done.returncode == 0:
                return signer, name
        return signer, ""


def _keygen(*arguments: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if not program:
        raise BundleError(
            "ssh-keygen of OpenSSH is missing, so no signature can be made or checked; install it "
            "(Debian: apt-get install openssh-client)"
        )
    try:
        words, limit = [program, *arguments], LIMIT_SECONDS
        return subprocess.run(words, input=text, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        raise BundleError(f"ssh-keygen did not answer within {LIMIT_SECONDS} s") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr or done.stdout).decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no message")
