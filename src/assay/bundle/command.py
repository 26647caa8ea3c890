"""What ``assay archive``, ``assay certify`` and ``assay verify`` do."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from assay import __version__, files
from assay.bundle import contents, signature
from assay.bundle.again import OUTPUTS
from assay.bundle.contents import STATEMENT
from assay.exits import Exit
from assay.judge import ReferencesError
from assay.store import bundle, session
from assay.store.bundle import BundleError, Refused
from assay.store.cases import Session

UNSIGNED = "UNSIGNED: nobody vouches for it, and anybody could have written it"

#: What reading a session may raise if somebody changed its files.
_NO_SESSION = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, OSError),
)


def write(args: argparse.Namespace) -> int:
    """Write a bundle, signed if there is ``args.key``; returns the exit code."""
    key = getattr(args, "key", None)
    name = "certify" if key else "archive"
    results = session.results()
    try:
        run = session.load(args.session or session.newest(results))
        said, wrong, packed = _packed(run, contents.site_of(run, args.folder), key)
        for line in wrong:
            print(f"assay {name}: this verdict does not follow: {line}", file=sys.stderr)
        if wrong and key:
            raise BundleError("nothing was written")
        output = args.output or results / ("certificate.zip" if key else f"{_name(run)}.zip")
        files.write(output, packed, BundleError, files.ELSEWHERE)
    except (BundleError, ReferencesError, session.ReportError) as error:
        print(f"assay {name}: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    for line in said["causes"]:
        print(f"cause: {line}")
    print(*_of_again(said), sep="\n")
    signed = f"signed with {said['signer']}" if key else "UNSIGNED"
    print(f"{name}: {said['verdict']}, {signed}: {output} ({len(packed) / 1e6:.1f} MB)")
    return Exit[said["verdict"]] if key else Exit.PASS


def _name(run: Session) -> str:
    """The name of an archive: the site and the time."""
    when = run.start.strftime("%Y%m%dT%H%M%S") if run.start else run.file.stem
    return "-".join(filter(None, ("assay", files.slug(*run.systems), when)))


def _packed(
    run: Session, site: Path, key: Path | None
) -> tuple[Mapping[str, Any], list[str], bytes]:
    """The statement of a bundle, what does not follow, and the file.

    :raises BundleError, ReferencesError: a file cannot be used.
    """
    from assay.show import figure, figures, page, validation  # noqa: PLC0415

    own: dict[str, Any] = {"schema": contents.SCHEMA, "assay": __version__}
    own["written"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    own["signer"] = signature.fingerprint(key) if key else None
    members = contents.collect(run, site)
    site_name = f"{contents.SITE}/{site.resolve().parent.name}/{site.resolve().name}"
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve()
        bundle.unpack(members, root)
        try:
            copy, follows, found = contents.opened(root, contents.name_of(run), site_name)
        except Refused as refused:
            raise BundleError("; ".join(refused.args)) from None
        except _NO_SESSION as error:
            raise BundleError(f"{run.file}: is not that of a session: {error!r:.200}") from None
        said = {**own, **follows}
        # The page of the report, with links to the files of the bundle.
        sections = figures.sections(copy.cases)
        absent = validation.incomplete(figure.of(sections))
        text = page.render(copy, sections, absent, root / contents.PAGE)
        members[contents.PAGE] = text.encode()
    members[STATEMENT] = (json.dumps(said, indent=1) + "\n").encode()
    members[contents.IN_TOTO] = contents.in_toto(said, members)
    wrong = [*found, *_otherwise(run, copy)]
    return said, wrong, bundle.pack(members, partial(signature.sign, key) if key else None)


def _otherwise(here: Session, there: Session) -> Iterator[str]:
    """The cases that have another verdict where only the files of the bundle are."""
    copied = {(case.unique_name, case.where): case for case in there.cases}
    for case in here.cases:
        other = copied.get((case.unique_name, case.where))
        if other is None or (other.verdict, other.why) != (case.verdict, case.why):
            verdict = case.verdict.value if case.verdict else "not run"
            yield f"{case.title} @{case.where}: {verdict} only where it was measured: {case.why}"


def verify(args: argparse.Namespace) -> int:
    """Check a bundle; returns the exit code."""
    try:
        said, signer, known = _checked(args.file, args.signers)
    except Refused as found:
        for line in found.args:
            print(f"{args.file}: refused: {line}")
        return Exit.FAIL
    except BundleError as error:
        print(f"assay verify: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    print(f"{args.file}: {signer}")
    print(*_of_again(said), sep="\n")
    print(f"{args.file}: the same verdict follows: {said['verdict']}")
    if known or args.any_signer:
        return Exit[said["verdict"]]
    print(f"{args.file}: not accepted, see above; --signers names who may sign")
    return Exit.FAIL


def _checked(path: Path, signers: Path | None) -> tuple[Mapping[str, Any], str, bool]:
    """The statement of a bundle whose contents were checked, who signed it, and if that is known.

    :raises Refused: it is not as it was written, or its verdict does not follow.
    :raises BundleError: it cannot be checked.
    """
    packed = bundle.read(path)
    said = _statement(packed)
    signer, known = _signer(packed, said, signers)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve()
        bundle.unpack(packed.members, root)
        try:
            _, follows, found = contents.opened(root, said["file"], said["site"])
            if found:
                raise Refused(*found)
            own = {key: said.get(key) for key in contents.OWN}
            follows = json.loads(json.dumps({**own, **follows}))
        except _NO_SESSION as error:
            raise Refused(f"its files are not those of a session: {error!r:.200}") from None
    if wrong := [*_differences(said, follows, STATEMENT)]:
        raise Refused(*wrong)
    told = contents.in_toto(said, packed.members)
    if packed.members.get(contents.IN_TOTO, told) != told:  # an older bundle has none
        raise Refused(f"{contents.IN_TOTO}: does not follow from {STATEMENT}")
    return said, signer, known


def _statement(packed: bundle.Bundle) -> Mapping[str, Any]:
    try:
        said = json.loads(packed.members[STATEMENT])
        if said["schema"] != contents.SCHEMA:
            raise Refused(
                f"{STATEMENT}: is of schema {said['schema']!r:.20}, this assay knows "
                f"{contents.SCHEMA}; verify it with assay {said.get('assay')!r:.20}"
            )
        for key in ("file", "site", "cases", "verdict", "signer"):
            said[key]
        if not isinstance(said["file"], str) or not isinstance(said["site"], str):
            raise TypeError("file or site is no text")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Refused(f"{STATEMENT}: is not the statement of a bundle ({error})") from None
    return dict(said)


def _signer(
    packed: bundle.Bundle, said: Mapping[str, Any], signers: Path | None
) -> tuple[str, bool]:
    """Who signed, in words, and whether it is one of the signers.

    :raises Refused: the signature is wrong, or was removed.
    """
    if packed.signature is None:
        if said["signer"]:
            raise Refused(f"{bundle.SIGNATURE}: the signature of {said['signer']} was removed")
        return UNSIGNED, False
    key, name = signature.check(packed.signature, packed.sums, signers)
    if key != said["signer"]:
        raise Refused(
            f"{bundle.SIGNATURE}: is of {key}, and {STATEMENT} says that "
            f"{said['signer'] or 'nobody'} signed"
        )
    if name:
        return f"signed by {name!r}, known to {signers}, key {key}", True
    of = f"{signers} does not have it" if signers else "no --signers were named"
    return f"signed with the UNKNOWN KEY {key} ({of}); the signature itself is right", False


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
    return f"{len(value)} entries" if isinstance(value, list) else f"{value!r:.200}"


def _of_again(said: Mapping[str, Any]) -> list[str]:
    """How many metrics follow from outputs, and why others do not."""
    count = Counter(
        metric["judged_from"] for case in said["cases"] for metric in case["metrics"].values()
    )
    return [
        f"metrics: {times} "
        + ("follow from the outputs" if how == OUTPUTS else f"rest on the record: {how}")
        for how, times in sorted(count.items())
    ] or ["metrics: none was measured"]
