"""What a certificate holds: the files of one session, and what the site judged it by."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay import files
from assay.certificate.again import Judge, kept
from assay.certificate.archive import CertificateError, Refused
from assay.judge import References, ReferencesError
from assay.results import promise, run_folder, session
from assay.results.cases import Session

#: The folders in a certificate: the results of the run, and the folder that holds the site.
RESULTS, SITE = "results", "site"


@dataclass(frozen=True)
class Opened:
    """A session that was judged again.

    :ivar root: the folder that holds :data:`RESULTS` and :data:`SITE`.
    :ivar site: the folder of the site.
    :ivar contradictions: what does not follow, one line each; they begin with the case or the file.
    """

    root: Path
    session: Session
    site: Path
    plan: run_folder.Plan
    references: References
    promise: promise.Promise | None
    judge: Judge
    contradictions: tuple[str, ...]


def site_of(run: Session, folder: Path) -> Path:
    """The folder of the site that a session ran on.

    :param folder: holds all sites.
    :raises CertificateError: it is not there.
    """
    plan = run_folder.read_plan(_folder(run.file)) or run_folder.Plan()
    named = str(plan.promise.get("file") or "")
    name = Path(named).parent.name if named else "".join(run.systems[:1])
    site = folder / name
    if not name or not (site / "references.yaml").is_file():
        raise CertificateError(
            f"{site / 'references.yaml'}: no such file; name the folder of the site {name!r} with "
            "--folder"
        )
    return site


def collect(run: Session, site: Path) -> dict[str, bytes]:
    """The files of a session and of its site, by their names in a certificate.

    :raises CertificateError: a file cannot be read, or lies elsewhere.
    :raises ReferencesError: the references of the site are not valid.
    """
    results = _results(run.file)
    top = site.resolve().parent.parent
    found = {}
    for path in _of_session(run):
        found[_named(RESULTS, path, results)] = path
    for path in (*References.load(site / "references.yaml").files, site / promise.FILE):
        if path.is_file():
            found[_named(SITE, path, top)] = path
    members = {}
    for name, path in found.items():
        try:
            members[name] = path.read_bytes()
        except OSError as error:
            raise CertificateError(f"{path}: {error.strerror}; make it readable") from None
    return members


def name_of(run: Session) -> str:
    """The name that the run report of a session, or its folder, has in a certificate."""
    return _named(RESULTS, run.file, _results(run.file))


def _of_session(run: Session) -> Iterator[Path]:
    if run.file.is_file():
        yield run.file
    folder = _folder(run.file)
    logs = [path for path in (folder / run_folder.LOG, _results(run.file) / run_folder.LOG)
            if path.is_file()]  # fmt: skip
    yield from (path for path in (folder / run_folder.PLAN, *logs[:1]) if path.is_file())
    for case in run.attempts:
        yield from case.outputs


def _results(file: Path) -> Path:
    return file.resolve().parent.parent


def _folder(file: Path) -> Path:
    """The folder of a session, from its run report; of a session without one, it is `file`."""
    if file.is_dir():
        return file.resolve()
    try:
        info = json.loads(file.read_text(encoding="utf-8"))["session_info"]
        name = Path(str(info["prefix_output"])).name
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        name = ""
    return _results(file) / "output" / name


def _named(kind: str, path: Path, top: Path) -> str:
    inside = os.path.relpath(os.path.normpath(path.absolute()), top)
    if inside.startswith(".."):
        inside = os.path.relpath(path.resolve(), top)
    if inside.startswith(".."):
        raise CertificateError(f"{path}: lies outside of {top}; move it below, and certify again")
    return f"{kind}/{Path(inside).as_posix()}"


def opened(root: Path, file: str, site: str) -> Opened:
    """Loads a session from the files of a certificate, and judges it again.

    :param root: the folder that the files were unpacked to.
    :param file: the run report, or the folder of the session, below `root`.
    :param site: the folder of the site below `root`.
    :raises Refused: a file is not what it claims to be.
    """
    top = root.resolve()
    for named in (file, site):
        if not (root / named).resolve().is_relative_to(top):
            raise Refused(f"certificate.json: {named} is not in the certificate")
    path = root / site / "references.yaml"
    try:
        _refuse_includes(path, top)
        run = session.load(root / file, sealed=True)
        references = References.load(path)
        expected = path.with_name(promise.FILE)
        promised = promise.load(expected) if expected.is_file() else None
    except (session.ReportError, ReferencesError, promise.PromiseError) as error:
        raise Refused(str(error).replace(f"{root}/", "")) from None
    plan = run_folder.read_plan(_folder(root / file)) or run_folder.Plan()
    judge = Judge(run, references)
    found = [
        f"{one.case.title} @{one.case.where}: {line}"
        for one in judge.cases
        for line in one.contradictions
    ]
    found += _counted(run.file)
    found += kept(plan, expected)
    found = [line.replace(f"{root}/", "") for line in found]
    return Opened(root, run, root / site, plan, references, promised, judge, tuple(found))


def _refuse_includes(references: Path, top: Path) -> None:
    """Refuses references that include a file from outside of the certificate."""
    document = files.read_yaml(references, ReferencesError)
    included = document.get("include") if isinstance(document, dict) else None
    for name in included if isinstance(included, list) else ():
        if not (references.parent / str(name)).resolve().is_relative_to(top):
            raise Refused(f"{references.name}: includes {name}, which is not in the certificate")


def _counted(report: Path) -> list[str]:
    """Whether the run report lists as many cases as it says."""
    if not report.is_file():
        return []
    raw = json.loads(report.read_text(encoding="utf-8"))
    said, listed = raw["session_info"].get("num_cases"), len((raw["runs"] or [{}])[0]["testcases"])
    return [] if said == listed else [f"{report.name}: says {said} cases, and lists {listed}"]
