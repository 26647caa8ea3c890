"""What ``assay archive``, ``assay certify`` and ``assay verify`` do."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from assay import __version__, files, metrics
from assay.bundle import contents, signature
from assay.bundle.again import OUTPUTS
from assay.bundle.contents import STATEMENT
from assay.exits import Exit
from assay.judge import Reference, ReferencesError, Verdict, judge
from assay.quantities import number
from assay.store import bundle, session
from assay.store.bundle import BundleError, Refused
from assay.store.cases import Session

UNSIGNED = "UNSIGNED: nobody vouches for it, and anybody could have written it"

#: Least share of an earlier performance that is accepted.
SHARE = 0.9

#: What reading a session may raise if somebody changed its files.
_NO_SESSION = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, OSError),
)


def write(args: argparse.Namespace) -> int:
    """Write a bundle, signed if there is ``args.key``; returns the exit code."""
    key = getattr(args, "key", None)
    name = "certify" if key else "archive"
    results = Path(os.environ.get("ASSAY_RESULTS") or "results")
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
    from assay.show.figure import slug  # noqa: PLC0415 - imports matplotlib

    when = run.start.strftime("%Y%m%dT%H%M%S") if run.start else run.file.stem
    return "-".join(filter(None, ("assay", slug(*run.systems), when)))


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
    refused = False
    said: dict[Path, Mapping[str, Any]] = {}
    try:
        for path in filter(None, (args.file, args.against)):
            try:
                said[path], signer, known = _checked(path, args.signers)
            except Refused as found:
                for line in found.args:
                    print(f"{path}: refused: {line}")
                return Exit.FAIL
            print(f"{path}: {signer}")
            refused = refused or not (known or args.any_signer)
            print(*_of_again(said[path]), sep="\n")
            print(f"{path}: the same verdict follows: {said[path]['verdict']}")
        if args.against:
            refused = _lower(said[args.file], said[args.against], args.against) or refused
    except BundleError as error:
        print(f"assay verify: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    if refused and not args.any_signer:
        print(f"{args.file}: not accepted, see above; --signers names who may sign")
    return Exit.FAIL if refused else Exit[said[args.file]["verdict"]]


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


def compared(new: Mapping[str, Any], old: Mapping[str, Any]) -> tuple[int, list[str], list[str]]:
    """Compares the statements of two acceptances: what the machine still reaches.

    Every metric that the earlier acceptance judged must reach :data:`SHARE` of its earlier value.
    The launches are judged by :func:`assay.judge.judge`, as by any other reference.

    :returns: number of metrics that were compared; those that do not reach the share, or that
        nobody measured again, one line each; the same of metrics that were recorded and not judged.
    """
    there = dict(_metrics(new))
    red: list[str] = []
    noted: list[str] = []
    count = 0
    for key, before in _metrics(old):
        if before["value"] is None or metrics.fault(before["unit"]) == "both":
            continue
        judged = before["verdict"] != Verdict.RECORDED.value
        now = there.get(key)
        name, where, metric = key
        line = f"{metric} of {name} @{where}"
        if now is None or not now["samples"] or now["unit"] != before["unit"]:
            if judged:
                red.append(f"{line}: was not measured again")
            continue
        count += 1
        longer = metrics.lower_is_better(before["unit"])
        low, high = (None, 1 / SHARE - 1) if longer else (SHARE - 1, None)
        earlier = Reference(before["value"], before["unit"], low, high, "the earlier acceptance")
        follows = judge(now["samples"], earlier)
        if follows.verdict is not Verdict.PASS:
            a, b = (before, now) if longer else (now, before)
            reached = a["value"] / b["value"] if b["value"] else 0.0
            (red if judged else noted).append(
                f"{line}: {reached:.1%} of {number(before['value'], 6)} {before['unit']}: "
                f"{follows.why}"
            )
    return count, red, noted


def _metrics(said: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], Mapping[str, Any]]]:
    for case in said["cases"]:
        for name, metric in case["metrics"].items():
            yield (case["name"], case["where"], name), metric


def _lower(new: Mapping[str, Any], old: Mapping[str, Any], name: Path) -> bool:
    """Prints the comparison with an earlier acceptance; whether it is red."""
    count, red, noted = compared(new, old)
    print(*(f"not judged: {line}\n" for line in noted), sep="", end="")
    print(*(f"lower than before: {line}\n" for line in red), sep="", end="")
    print(
        f"{count} metrics compared with {name} of {old['start']}: "
        f"{len(red)} do not reach {SHARE:.0%} of it"
    )
    if not count:
        print("nothing was compared: the two sessions have no rate or time in common")
    return bool(red) or not count
