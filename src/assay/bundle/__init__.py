"""``assay archive``, ``certify`` and ``verify``: a run in one file, and the check of it."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-commands ``archive``, ``certify`` and ``verify`` to the command ``assay``."""
    archive = commands.add_parser(
        "archive",
        help="write a run into one file, to keep or to send",
        description="Write one zip file about a session: its page, its verbatim outputs and "
        "records, the references of the site, and the hash of each. Exit code 0 when it is "
        "written, whatever the verdict; 2 when it cannot be.",
    )
    _of_session(archive, "assay-SITE-TIME.zip")
    archive.set_defaults(run=_write, name="archive")
    certify = commands.add_parser(
        "certify",
        help="write a run into one file, and sign it",
        description="Write the file of assay archive, judge the session again from it, and sign "
        "it. Exit code 0 when the verdict is PASS, 1 when it is anything else, 2 when nothing was "
        "written, because the verdict does not follow, or a file or the key cannot be used.",
    )
    _of_session(certify, "certificate.zip")
    certify.add_argument(
        "--key",
        type=Path,
        metavar="KEY",
        required=True,
        help="private key of OpenSSH that signs, or the public key of one that an agent holds",
    )
    certify.set_defaults(run=_write, name="certify")
    verify = commands.add_parser(
        "verify",
        help="check the file of a run, and judge the run again",
        description="Check every byte of the file of assay archive or assay certify, and its "
        "signature, and judge the session again from the verbatim outputs. Exit code 0 when "
        "nothing was changed, a known signer signed it, and the verdict that it states follows, "
        "which may be FAIL; 1 when it is refused; 2 when it could not be checked.",
    )
    verify.add_argument("file", type=Path, metavar="FILE")
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
        help="the file of an earlier acceptance, which must be reached again",
    )
    verify.set_defaults(run=_verify)


def _of_session(parser: argparse.ArgumentParser, output: str) -> None:
    parser.add_argument(
        "--session",
        type=Path,
        metavar="FILE",
        help="a run report of ReFrame, or the folder output/TIME of a session (default: the last "
        "one in $ASSAY_RESULTS)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help=f"default: {output} in $ASSAY_RESULTS, which is results/ if unset",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("site-config"),
        help="of the sites (default: site-config)",
    )


def _write(args: argparse.Namespace) -> int:
    from assay.bundle import command  # noqa: PLC0415

    return command.write(args)


def _verify(args: argparse.Namespace) -> int:
    from assay.bundle import command  # noqa: PLC0415

    return command.verify(args)
