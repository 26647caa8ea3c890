"""What ``assay archive``, ``assay certify`` and ``assay verify`` do."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from assay import __version__, files
from assay.archive import bundle
from assay.archive.bundle import BundleError, Refused
from assay.archive.certificate import contents, signature
from assay.archive.certificate.again import OUTPUTS
from assay.archive.certificate.contents import STATEMENT
from assay.exits import Exit
from assay.judge import ReferencesError
from assay.show.strength import Strength
from assay.store import promise, session
from assay.store.cases import Session
from assay.store.sanitize import line

#: How many names one line shows.
SHOWN = 10

UNSIGNED = "UNSIGNED: nobody vouches for it, and anybody could have written it"

#: What reading a session may raise if somebody changed its files.
_NO_SESSION = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, OSError),
)


def write_archive(args: argparse.Namespace) -> int:
    """Write a bundle, signed if there is ``args.key``; returns the exit code."""
    key = getattr(args, "key", None)
    name = "certify" if key else "archive"
    results = session.results()
    try:
        run = session.load_session(args.session or session.newest(results))
        said, wrong, packed = _packed(run, contents.site_of(run, args.folder), key)
        for text in wrong:
            print(f"assay {name}: this verdict does not follow: {text}", file=sys.stderr)
        if wrong and key:
            raise BundleError("nothing was written")
        when = run.start.strftime("%Y%m%dT%H%M%S") if run.start else run.file.stem
        default = "-".join(filter(None, ("assay", files.slug(*run.systems), when)))
        output = args.output or results / f"{'certificate' if key else default}.zip"
        files.write_file(output, packed, BundleError, files.ELSEWHERE)
    except (BundleError, ReferencesError, session.ReportError) as error:
        print(f"assay {name}: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    for text in said["causes"]:
        print(f"cause: {text}")
    print(*_of_again(said), sep="\n")
    signed = f"signed with {said['signer']}" if key else "UNSIGNED"
    print(f"{name}: {said['verdict']}, {signed}: {output} ({len(packed) / 1e6:.1f} MB)")
    return Exit[said["verdict"]] if key else Exit.PASS


def _packed(
    run: Session, site: Path, key: Path | None
) -> tuple[Mapping[str, Any], list[str], bytes]:
    """The statement of a bundle, what does not follow, and the file.

    :raises BundleError, ReferencesError: a file cannot be used.
    """
    from assay.show import figure, figures, page, validation  # noqa: PLC0415
    from assay.show.view import View  # noqa: PLC0415

    own: dict[str, Any] = {"schema": contents.SCHEMA, "assay": __version__}
    own["written"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    own["signer"] = signature.fingerprint(key) if key else None
    members = contents.collect(run, site)
    name = contents.name_in_bundle(bundle.RESULTS, run.file, run.file.resolve().parents[1])
    site_name = f"{contents.SITE}/{site.resolve().parent.name}/{site.resolve().name}"
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve()
        bundle.unpack(members, root)
        try:
            copy, follows, found, _ = contents.open_session(root, name, site_name)
        except Refused as refused:
            raise BundleError("; ".join(refused.args)) from None
        except _NO_SESSION as error:
            raise BundleError(f"{run.file}: is not that of a session: {error!r:.200}") from None
        said = {**own, **follows}
        # The page of the report, with links to the files of the bundle.
        view = View.of(copy)
        sections = figures.sections(copy.cases, view.whole)
        absent = validation.incomplete(figure.all_figures(sections))
        text = page.render_page(view, sections, absent, root / contents.PAGE)
        members[contents.PAGE] = text.encode()
    members[STATEMENT] = (json.dumps(said, indent=1) + "\n").encode()
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
        run, said, signer, evidence = _checked(args)
        others = [*_unexpected(args, run, said["nodes"])]
    except Refused as found:
        for text in found.args:
            print(f"{args.file}: refused: {text}")
        return Exit.NOT_VALID
    except BundleError as error:
        print(f"assay verify: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    print(f"{args.file}: {signer}")
    print(*_of_again(said), *_of_evidence(evidence), *_of_run(run, said["nodes"]), sep="\n")
    print(f"{args.file}: the same verdict follows: {said['verdict']}")
    for text in others:
        print(f"{args.file}: not what was expected: {text}")
    return Exit.UNEXPECTED if others else Exit[said["verdict"]]


def _checked(
    args: argparse.Namespace,
) -> tuple[Session, Mapping[str, Any], str, Counter[tuple[str, bool]]]:
    """What is in a bundle that was checked: session, statement, who signed it, and the evidence.

    :raises Refused: it is not as it was written, nobody known signed it, or its verdict does not
        follow.
    :raises BundleError: it cannot be checked.
    """
    told: list[tuple[str, str | None]] = []
    packed = bundle.read_bundle(args.file, lambda *signed: told.append(accepted(args, *signed)))
    signer, key = told[0]
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve()
        bundle.unpack(packed.members, root)
        said = _statement(root / STATEMENT)
        if key != said["signer"]:
            was = f"is of {key}" if key else "was removed"
            raise Refused(f"{bundle.SIGNATURE}: {was}; {said['signer'] or 'nobody'} was to sign")
        try:
            run, follows, found, evidence = contents.open_session(root, said["file"], said["site"])
            if found:
                raise Refused(*found)
            own = {key: said.get(key) for key in contents.OWN}
            follows = json.loads(json.dumps({**own, **follows}))
        except _NO_SESSION as error:
            raise Refused(f"its files are not those of a session: {error!r:.200}") from None
    if wrong := [*_differences(said, follows, STATEMENT)]:
        raise Refused(*wrong)
    return run, said, signer, evidence


def _statement(file: Path) -> Mapping[str, Any]:
    try:
        said = files.read_json(file)
        if said["schema"] != contents.SCHEMA:
            raise Refused(
                f"{STATEMENT}: is of schema {said['schema']!r:.20}, this assay knows "
                f"{contents.SCHEMA}; verify it with assay {said.get('assay')!r:.20}"
            )
        for key in ("file", "site", "cases", "verdict", "signer"):
            said[key]
        if not isinstance(said["file"], str) or not isinstance(said["site"], str):
            raise TypeError("file or site is no text")
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refused(f"{STATEMENT}: is not the statement of a bundle ({error})") from None
    return dict(said)


def accepted(args: argparse.Namespace, sums: bytes, signed: bytes | None) -> tuple[str, str | None]:
    """Who signed, in words, and the fingerprint of the key; None if nobody did.

    :raises Refused: the signature is wrong, or not of a known signer, who was asked for.
    """
    key, name, said = None, "", UNSIGNED
    if signed is not None:
        key, name = signature.check_signature(signed, sums, args.signers)
        of = f"{args.signers} does not have it" if args.signers else "no --signers were named"
        said = f"signed with the UNKNOWN KEY {key} ({of}); the signature itself is right"
    if name:
        said = f"signed by {name!r}, known to {args.signers}, key {key}"
    elif not args.any_signer:
        mend = "--signers names who may sign, --any-signer checks the contents only"
        raise Refused(f"{said}; nothing of it was read: {mend}")
    return said, key


def _of_run(run: Session, nodes: Sequence[str]) -> Iterator[str]:
    """What was measured, where and when, one line each."""
    stacks = sorted({f"{c.environ} ({c.stack or 'unknown'})" for c in run.cases if c.recorded})
    for what, words in (("site", run.systems), ("stack", stacks), ("node", nodes)):
        yield f"{what}: {', '.join(promise.few([*map(line, words)], SHOWN)) or 'unknown'}"
    yield f"date: {run.start.isoformat() if run.start else 'unknown'}"
    yield from Strength.of(run.cases).said


def _unexpected(args: argparse.Namespace, run: Session, nodes: Sequence[str]) -> Iterator[str]:
    """In what a valid bundle is not what was asked for, one line each."""
    if args.site and run.systems != (args.site,):
        yield f"it is of the site {', '.join(map(line, run.systems))}, not of {args.site}"
    if args.since and (run.start is None or run.start < args.since):
        yield f"it is of {run.start}, older than {args.since}"
    if args.nodes:
        from reframe.utility import nodelist_expand  # noqa: PLC0415 - the only need of ReFrame

        asked = {*nodelist_expand(args.nodes)}
        for how, which in (("lacks", asked - {*nodes}), ("also has", {*nodes} - asked)):
            if which:
                some = ", ".join(promise.few([*map(line, sorted(which))], SHOWN))
                yield f"it {how} the nodes {some}"


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


def _of_evidence(evidence: Counter[tuple[str, bool]]) -> Iterator[str]:
    """How much of the evidence was found again, and what was not."""
    for again, how in ((True, "follow from the files"), (False, "rest on the record")):
        kinds = [f"{kind} ({n})" for (kind, its), n in sorted(evidence.items()) if its == again]
        if kinds:
            yield f"evidence: {', '.join(kinds)} {how}"


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
