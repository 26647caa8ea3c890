"""``assay certify`` and ``assay verify``: a signed file about a session, and the check of it."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-commands ``certify`` and ``verify`` to the command ``assay``."""
    certify = commands.add_parser(
        "certify",
        help="write a signed certificate of a run",
        description="Write one file about a session: what was promised, run and judged, by which "
        "references, and the verbatim outputs from which the verdict follows. Exit code 0 when the "
        "certificate says PASS, 1 when it says anything else, 2 when no certificate was written.",
    )
    certify.add_argument(
        "--session",
        type=Path,
        metavar="FILE",
        help="a run report of ReFrame, or the folder output/TIME of a session (default: the last "
        "one in $ASSAY_RESULTS)",
    )
    certify.add_argument(
        "--key",
        type=Path,
        metavar="KEY",
        help="private key of OpenSSH that signs, or the public key of one that an agent holds; "
        "without it the certificate is UNSIGNED",
    )
    certify.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="default: $ASSAY_RESULTS/certificate.zip; $ASSAY_RESULTS is results/ if unset",
    )
    certify.add_argument(
        "--folder", type=Path, default=Path("site-config"), help="default: site-config"
    )
    certify.set_defaults(run=_certify)
    verify = commands.add_parser(
        "verify",
        help="check a certificate and judge its session again",
        description="Check every byte of a certificate and its signature, and judge the session "
        "again from the verbatim outputs. Exit code 0 when nothing was changed, a known signer "
        "signed it, and the verdict that it states follows, which may be FAIL; 1 when it is "
        "refused; 2 when it could not be checked.",
    )
    verify.add_argument("file", type=Path, metavar="FILE", help="the certificate")
    verify.add_argument(
        "--signers",
        type=Path,
        metavar="FILE",
        help="the known signers, as ssh-keygen takes them: NAME, and the public key, on each line",
    )
    verify.add_argument(
        "--any-signer",
        action="store_true",
        help="accept an unknown signer, or none: only the contents are checked",
    )
    verify.add_argument(
        "--against",
        type=Path,
        metavar="OLD",
        help="the certificate of an earlier acceptance, which must be reached again",
    )
    verify.set_defaults(run=_verify)


def _certify(args: argparse.Namespace) -> int:
    from assay.certificate import command  # noqa: PLC0415

    return command.certify(args)


def _verify(args: argparse.Namespace) -> int:
    from assay.certificate import command  # noqa: PLC0415

    return command.verify(args)
