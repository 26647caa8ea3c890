"""What a bundle holds of one session, and what follows from these files alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from assay import files
from assay.archive import bundle
from assay.archive.bundle import RESULTS, BundleError, Refused
from assay.archive.certificate.again import Again, Judge
from assay.judge import References, ReferencesError
from assay.prove import identity
from assay.show.view import View
from assay.store import promise, run_folder, session
from assay.store.cases import Case, Session
from assay.store.sanitize import line, mapping

#: The folder in a bundle that holds the folder of the site.
SITE = "site"

#: What the bundle states, as JSON, and the page for readers.
STATEMENT, PAGE = "statement.json", "report.html"

#: Version of the statement. Increase it by one whenever a key changes its meaning.
SCHEMA = 3

#: Of the bundle, not of the session: no other file of the bundle gives them.
OWN = ("schema", "assay", "written", "signer")


def site_of(run: Session, folder: Path) -> Path:
    """The folder of the site that a session ran on.

    :param folder: holds all sites.
    :raises BundleError: it is not there.
    """
    named = str(run.plan.promise.get("file") or "")
    name = Path(named).parent.name if named else "".join(run.systems[:1])
    site = folder / name
    if not name or not (site / "references.yaml").is_file():
        raise BundleError(
            f"{site / 'references.yaml'}: no such file; name the folder of the site {name!r} with "
            "--folder"
        )
    return site


def collect(run: Session, site: Path) -> dict[str, bytes]:
    """The files of a session and the references of its site, by their names in a bundle.

    :raises BundleError: a file cannot be read, or lies elsewhere.
    :raises ReferencesError: the references of the site are not valid.
    """
    results, top = run.file.resolve().parents[1], site.resolve().parents[1]
    logs = [path / run_folder.LOG for path in (run.folder, results)]
    own = [run.file, run.folder / run_folder.PLAN, *[log for log in logs if log.is_file()][:1]]
    outputs = [path for case in run.attempts for path in case.outputs]
    there = (*(path for path in own if path.is_file()), *outputs)
    found = {name_in_bundle(RESULTS, path, results): path for path in there}
    references = References.load(site / "references.yaml")
    for path in references.files:
        found[name_in_bundle(SITE, path, top)] = path
    # A suite that knew nothing of the files of all sites judged by no yardstick of them.
    knew = any(metric.yardstick for case in run.attempts for metric in case.metrics)
    for path in references.of_all if knew else ():  # perhaps those of the suite itself
        found[name_in_bundle(SITE, site.resolve().parent / path.name, top)] = path
    if (path := site / promise.FILE).is_file():
        found[name_in_bundle(SITE, path, top)] = path
    members, left = {}, bundle.MOST_OF_ALL
    for name, path in found.items():
        try:
            most = min(bundle.MOST_OF_MEMBER, left)
            members[name] = files.read_bytes(path, most, os.O_NOFOLLOW)
        except OSError as error:
            why = "is a symbolic link" if path.is_symlink() else error.strerror
            raise BundleError(f"{path}: {why}; put a readable file there") from None
        left -= len(members[name])
    return members


def name_in_bundle(kind: str, path: Path, top: Path) -> str:
    """The name of a file in a bundle, by the folder that it really is in."""
    real = path.parent.resolve() / path.name
    if not real.is_relative_to(top):
        raise BundleError(f"{path}: lies outside of {top}; move it below, and try again")
    return f"{kind}/{real.relative_to(top).as_posix()}"


def open_session(
    root: Path, file: str, site: str
) -> tuple[Session, dict[str, Any], list[str], Counter[tuple[str, bool]]]:
    """Loads a session from the files of a bundle, and judges it again.

    :param root: the folder that the files were unpacked to; `file` and `site` lie below it.
    :param file: the run report, or the folder of the session.
    :returns: the session; its statement, without the keys of :data:`OWN`; what does not follow, one
        line each; the evidence, see :class:`assay.archive.certificate.again.Judge`.
    :raises Refused: a file is not what it claims to be.
    """
    top = root.resolve()
    for named in (file, site):
        if not (root / named).resolve().is_relative_to(top):
            raise Refused(f"{STATEMENT}: {named} is not in the bundle")
    path = root / site / "references.yaml"
    try:
        document = files.read_yaml(path, ReferencesError)
        included = document.get("include") if isinstance(document, dict) else None
        for name in included if isinstance(included, list) else ():
            if not (path.parent / str(name)).resolve().is_relative_to(top):
                raise Refused(f"{path.name}: includes {name}, which is not in the bundle")
        run = session.load_session(root / file, sealed=True)
        judge = Judge(run, References.load(path, sealed=True))
    except (session.ReportError, ReferencesError) as error:
        raise Refused(str(error).replace(f"{root}/", "")) from None
    found = [
        f"{one.case.title} @{one.case.where}: {line}"
        for one in judge.cases
        for line in one.contradictions
    ]
    found += _counted(run)
    found += _kept(run.plan, root / site / promise.FILE)
    found = [line.replace(f"{root}/", "") for line in found]
    said = {"file": file, "site": site, **_statement(run, judge.cases)}
    return run, said, found, judge.evidence


def _counted(run: Session) -> Iterator[str]:
    """Whether run report and plan list as many cases as they say."""
    if (there := run.plan.promise.get("there", 0)) > len(run.plan.cases):
        yield f"{run_folder.PLAN}: says {there} promised cases, and lists {len(run.plan.cases)}"
    if run.file.is_file():
        raw = files.read_json(run.file)
        said = raw["session_info"].get("num_cases")
        listed = len((raw["runs"] or [{"testcases": []}])[0]["testcases"])
        if said != listed:
            yield f"{run.file.name}: says {said} cases, and lists {listed}"


def _kept(plan: run_folder.Plan, file: Path) -> Iterator[str]:
    """What the plan says otherwise than the promise of the site, one line each."""
    said = plan.promise
    if "sha256" not in said:
        return
    try:
        promised = promise.load_promise(file)
    except promise.PromiseError:
        yield f"{file.name}: is missing or damaged, and the session was compared with it"
        return
    if bundle.sha256(file.read_bytes()) != said["sha256"]:
        yield f"{file.name}: is not the file that the session was compared with"
    for key in ("may_skip", "nothing_judged"):
        if said.get(key) != getattr(promised, key):
            yield f"{run_folder.PLAN}: {key} is not that of {file.name}"


def _statement(run: Session, again: Iterable[Again]) -> dict[str, Any]:
    outcome = View.of(run).outcome
    suites: list[Mapping[str, Any]] = []
    for case in run.cases:
        suite = mapping(case.provenance.get("suite"))
        if suite and suite not in suites:
            suites.append(suite)
    word = outcome.word
    doubts = [*_provisional(suites, run.plan)] if word == "PASS" else []
    by_case = {id(one.case): one for one in again}
    return {
        "verdict": "PROVISIONAL" if doubts else word,
        "causes": [*outcome.faults, *run.partial, *doubts],
        "start": run.start.isoformat() if run.start else None,
        "host": run.host,
        "nodes": sorted({node for case in run.cases for node in case.hosts}),
        "hardware": identity.kind_of_nodes(group for case in run.cases for group in case.machine),
        "command": run.command,
        "suite": suites,
        "cases": [_case(case, by_case.get(id(case)) or Again(case)) for case in run.cases],
    }


def _provisional(suites: list[Mapping[str, Any]], plan: run_folder.Plan) -> Iterator[str]:
    """Why nobody could repeat the run exactly, one line each."""
    commits = {line(suite.get("commit")) for suite in suites}
    if not suites:
        yield "no case says of which commit the suite was"
    if "" in commits:
        yield "the commit of the suite is not known"
    if dirty := sorted(commit for commit in commits if commit.endswith("-dirty")):
        yield f"the suite had changes that are in no commit: {dirty[0]}"
    if len(commits) > 1:
        yield f"{len(commits)} commits of the suite measured"
    if "promised" not in plan.promise:
        yield "nothing says which cases were promised"


def _case(case: Case, again: Again) -> dict[str, Any]:
    return {
        "name": case.title,
        "where": case.where,
        "verdict": case.verdict.value if case.verdict else None,
        "why": case.why,
        "read_from": list(again.read_from),
        "metrics": {
            metric.name: {
                "value": metric.value,
                "unit": metric.unit,
                "samples": list(metric.samples),
                "verdict": metric.verdict.value,
                "judged_from": again.metrics.get(metric.name, ""),
            }
            for metric in case.metrics
        },
    }
