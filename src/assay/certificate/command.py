"""What ``assay certify`` and ``assay verify`` do."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from assay import __version__, files
from assay.certificate import archive, compare, contents, signature, statement
from assay.certificate.archive import CertificateError, Refused
from assay.judge import ReferencesError
from assay.results import session
from assay.results.cases import Session

UNSIGNED = "UNSIGNED"

#: What reading a session may raise if somebody changed its files.
_NO_SESSION = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, OSError),
)


def certify(args: argparse.Namespace) -> int:
    """Write a certificate; returns the exit code."""
    results = Path(os.environ.get("ASSAY_RESULTS") or "results")
    output = args.output or results / "certificate.zip"
    try:
        said, packed = _certificate(args.session or session.newest(results), args.folder, args.key)
        files.write(output, packed)
    except Refused as refused:
        for line in refused.args:
            print(f"assay certify: this verdict does not follow: {line}", file=sys.stderr)
        print("assay certify: nothing was written", file=sys.stderr)
        return 2
    except (CertificateError, ReferencesError, session.ReportError) as error:
        print(f"assay certify: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"assay certify: {output}: {error.strerror}; name another --output", file=sys.stderr)
        return 2
    for line in said["causes"]:
        print(f"cause: {line}")
    print(*_of_again(said), sep="\n")
    signed = f"signed with {said['signer']}" if said["signer"] else f"{UNSIGNED}: name a --key"
    print(f"certificate: {said['verdict']}, {signed}: {output}")
    return 0 if said["verdict"] == "PASS" else 1


def _certificate(file: Path, folder: Path, key: Path | None) -> tuple[Mapping[str, Any], bytes]:
    """The statement and the file of a certificate.

    :raises Refused: the verdict of the session does not follow from its files.
    :raises CertificateError, ReferencesError, ReportError: a file cannot be used.
    """
    run = session.load(file)
    signer = signature.fingerprint(key) if key else None
    site = contents.site_of(run, folder)
    members = contents.collect(run, site)
    report = contents.name_of(run)
    site_name = f"{contents.SITE}/{site.resolve().parent.name}/{site.resolve().name}"
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve()
        archive.unpack(members, root)
        opened = contents.opened(root, report, site_name)
        wrong = [*opened.contradictions, *_otherwise(run, opened.session)]
        if wrong:
            raise Refused(*wrong)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        said = statement.complete(statement.of(opened), now, signer)
    members[statement.FILE] = (json.dumps(said, indent=1) + "\n").encode()
    members[statement.TEXT] = statement.text(said).encode()
    return said, archive.pack(members, partial(signature.sign, key) if key else None)


def _otherwise(here: Session, there: Session) -> Iterator[str]:
    """The cases that have another verdict where only the files of the certificate are."""
    copied = {(case.unique_name, case.where): case for case in there.cases}
    for case in here.cases:
        other = copied.get((case.unique_name, case.where))
        if other is None or (other.verdict, other.why) != (case.verdict, case.why):
            verdict = case.verdict.value if case.verdict else "not run"
            yield f"{case.title} @{case.where}: {verdict} only where it was measured: {case.why}"


def verify(args: argparse.Namespace) -> int:
    """Check a certificate; returns the exit code."""
    refused = False
    said: dict[Path, Mapping[str, Any]] = {}
    try:
        for path in filter(None, (args.file, args.against)):
            try:
                said[path], signer = _checked(path, args.signers)
            except Refused as found:
                for line in found.args:
                    print(f"{path}: refused: {line}")
                return 1
            print(f"{path}: {signer}")
            known = " known to " in signer
            refused = refused or not (known or args.any_signer)
            print(*_of_again(said[path]), sep="\n")
            print(f"{path}: the same verdict follows: {said[path]['verdict']}")
        if args.against:
            refused = _compared(said[args.file], said[args.against], args.against) or refused
    except CertificateError as error:
        print(f"assay verify: {error}", file=sys.stderr)
        return 2
    if refused and not args.any_signer:
        print(f"{args.file}: not accepted, see above; --signers names who may sign")
    return 1 if refused else 0


def _checked(path: Path, signers: Path | None) -> tuple[Mapping[str, Any], str]:
    """The statement of a certificate whose contents were checked, and who signed it, in words.

    :raises Refused: it is not as it was written, or its verdict does not follow.
    :raises CertificateError: it cannot be checked.
    """
    packed = archive.read(path)
    said = _statement(packed)
    signer = _signer(packed, said, signers)
    own = {key: said.get(key) for key in statement.OWN}
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve()
        try:
            archive.unpack(packed.members, root)
        except OSError as error:
            raise Refused(f"its files cannot be unpacked: {error}") from None
        try:
            opened = contents.opened(root, said["session"]["file"], said["site"]["folder"])
            if opened.contradictions:
                raise Refused(*opened.contradictions)
            follows = json.loads(json.dumps({**own, **statement.of(opened)}))
        except _NO_SESSION as error:
            raise Refused(f"its files are not those of a session: {error!r:.200}") from None
    wrong = [*_differences(said, follows, "certificate.json")]
    if said["assay"] == __version__ and not wrong:
        page = packed.members.get(statement.TEXT)
        if page != statement.text(said).encode():
            wrong = [f"{statement.TEXT}: does not say what {statement.FILE} says"]
    if wrong:
        raise Refused(*wrong)
    return said, signer


def _statement(packed: archive.Archive) -> Mapping[str, Any]:
    try:
        said = json.loads(packed.members[statement.FILE])
        if said["schema"] != statement.SCHEMA:
            raise Refused(
                f"{statement.FILE}: is of schema {said['schema']!r:.20}, this assay knows "
                f"{statement.SCHEMA}; verify it with assay {said.get('assay')!r:.20}"
            )
        for key in ("session", "site", "signer", "assay", "cases", "verdict", "written"):
            said[key]
        if not all(isinstance(s, str) for s in (said["session"]["file"], said["site"]["folder"])):
            raise TypeError("session/file or site/folder is no text")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Refused(
            f"{statement.FILE}: is not the statement of a certificate ({error})"
        ) from None
    return dict(said)


def _signer(packed: archive.Archive, said: Mapping[str, Any], signers: Path | None) -> str:
    """Who signed, in words.

    :raises Refused: the signature is wrong, or was removed.
    """
    if packed.signature is None:
        if said["signer"]:
            raise Refused(f"{archive.SIGNATURE}: the signature of {said['signer']} was removed")
        return f"{UNSIGNED}: nobody vouches for it, and anybody could have written it"
    found = signature.check(packed.signature, packed.sums, signers)
    if found.fingerprint != said["signer"]:
        raise Refused(
            f"{archive.SIGNATURE}: is of {found.fingerprint}, and {statement.FILE} says that "
            f"{said['signer'] or 'nobody'} signed"
        )
    if found.name:
        return f"signed by {found.name!r}, known to {signers}, key {found.fingerprint}"
    of = f"{signers} does not have it" if signers else "no --signers were named"
    return f"signed with the UNKNOWN KEY {found.fingerprint} ({of}); the signature itself is right"


def _differences(said: Any, follows: Any, where: str) -> Iterator[str]:
    """What a statement says that does not follow, one line each, with the key."""
    if isinstance(said, dict) and isinstance(follows, dict):
        for key in [*said, *(key for key in follows if key not in said)]:
            if key not in follows or key not in said:
                lacks = "does not follow" if key in said else "is missing"
                yield f"{where}: {key} {lacks}"
            else:
                yield from _differences(said[key], follows[key], f"{where}: {key}")
    elif isinstance(said, list) and isinstance(follows, list) and len(said) == len(follows):
        for at, (one, other) in enumerate(zip(said, follows)):
            name = one.get("name", at) if isinstance(one, dict) else at
            yield from _differences(one, other, f"{where}: {name}")
    elif said != follows:
        yield f"{where}: says {_shown(said)}, and {_shown(follows)} follows"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} entries"
    return f"{value!r:.200}"


def _of_again(said: Mapping[str, Any]) -> list[str]:
    """How many metrics follow from outputs, and why others do not."""
    lines = []
    for how, number in said["judged_again"].items():
        from_ = "follow from the outputs" if how == "outputs" else f"rest on the record: {how}"
        lines.append(f"metrics: {number} {from_}")
    return lines or ["metrics: none was measured"]


def _compared(new: Mapping[str, Any], old: Mapping[str, Any], name: Path) -> bool:
    """Prints the comparison with an earlier acceptance; whether it is red."""
    found = compare.compare(new, old)
    for line in found.noted:
        print(f"not judged: {line}")
    for line in found.red:
        print(f"lower than before: {line}")
    print(
        f"{found.compared} metrics compared with {name} of {old['session']['start']}: "
        f"{len(found.red)} do not reach {found.share:.0%} of it"
    )
    if not found.compared:
        print("nothing was compared: the two sessions have no rate or time in common")
    return bool(found.red) or not found.compared
