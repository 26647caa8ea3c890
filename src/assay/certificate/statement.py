"""What a certificate states, as JSON and as a page of text. Both follow from its other files."""

from __future__ import annotations

import hashlib
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assay import __version__
from assay.certificate import power
from assay.certificate.again import OUTPUTS, keys
from assay.certificate.contents import Opened
from assay.judge import LAUNCHES_FOR_95_PERCENT, Reference, ReferencesError
from assay.report import summary
from assay.results import promise
from assay.results.cases import Case
from assay.results.sanitize import finite, line, mapping

FILE, TEXT = "certificate.json", "certificate.txt"

#: Version of the statement. Increase it by one whenever a key changes its meaning.
SCHEMA = 1

#: Of the certificate, not of the session: nothing else in the certificate gives them.
OWN = ("schema", "assay", "written", "signer")

PROVISIONAL = "PROVISIONAL"


def of(opened: Opened) -> dict[str, Any]:
    """The statement on a session, without the keys of :data:`OWN`."""
    run, root = opened.session, opened.root
    counts, outcome = summary.Counts.of(run.cases), summary.outcome(run)
    suites = _distinct(mapping(case.provenance.get("suite")) for case in run.cases)
    state = opened.plan.promise
    doubts = _provisional(suites)
    if not (opened.promise and "promised" in state):
        doubts.append("nothing says which cases were promised")
    word = outcome.word
    if word == "PASS" and doubts:
        word = PROVISIONAL
    expected = opened.site / promise.FILE
    again = {id(one.case.record): one for one in opened.judge.cases}
    cases = [_case(case, again.get(id(case.record))) for case in run.cases]
    return {
        "verdict": word,
        "causes": [*outcome.faults, *run.partial, *(doubts if word == PROVISIONAL else [])],
        "session": {
            "file": run.file.relative_to(root).as_posix(),
            "uuid": run.uuid,
            "start": run.start.isoformat() if run.start else None,
            "seconds": run.elapsed,
            "host": run.host,
            "nodes": sorted({line(node) for case in run.cases for node in _nodes(case)}),
            "command": run.command,
            "reframe": run.reframe,
            "profiles": sorted({str(case.record["profile"]) for case in run.cases
                                if "profile" in case.record}),
        },
        "suite": suites,
        "stacks": _stacks(run.cases),
        "settings": _settings(run.cases),
        "site": {
            "folder": opened.site.relative_to(root).as_posix(),
            "references": _hashes(root, opened.references.files),
            "promise": _hashes(root, [expected] if opened.promise else []),
        },
        "promised": {key: state[key] for key in
                     ("promised", "there", "narrowed", "changed", "given") if key in state},
        "reacceptance": opened.promise.reacceptance if opened.promise else promise.REACCEPTANCE,
        "counts": {
            **{key: getattr(counts, key) for key in
               ("passed", "failed", "inconclusive", "recorded", "not_run", "unfinished")},
            "judged": summary.judged(run.cases),
        },
        "judged_again": dict(sorted(Counter(
            how for one in opened.judge.cases for how in one.metrics.values()
        ).items())),
        "skips": {
            why: [f"{case.title} @{case.where}" for case in skipped]
            for why, skipped in summary.reasons_not_run(run.cases).items()
        },
        "power": _power(opened),
        "cases": cases,
    }  # fmt: skip


def _provisional(suites: list[Mapping[str, Any]]) -> list[str]:
    """Why nobody could repeat the run exactly, one line each."""
    if not suites:
        return ["no case says of which commit the suite was"]
    commits = {line(suite.get("commit")) for suite in suites}
    found = []
    if "" in commits:
        found.append("the commit of the suite is not known")
    if dirty := sorted(commit for commit in commits if commit.endswith("-dirty")):
        found.append(f"the suite had changes that are in no commit: {dirty[0]}")
    if len(commits) > 1:
        found.append(f"{len(commits)} commits of the suite measured")
    return found


def _case(case: Case, again: Any) -> dict[str, Any]:
    read_from = list(again.read_from) if again else []
    judged = again.metrics if again else {}
    return {
        "name": case.title,
        "where": case.where,
        "verdict": case.verdict.value if case.verdict else None,
        "why": case.why,
        "program": f"{case.program} {case.version}".strip(),
        "launches": case.launches,
        "read_from": read_from,
        "metrics": {
            metric.name: {
                "value": metric.value,
                "unit": metric.unit,
                "samples": list(metric.samples),
                "verdict": metric.verdict.value,
                "why": metric.why,
                "judged_from": judged.get(metric.name, ""),
            }
            for metric in case.metrics
        },
    }


def _nodes(case: Case) -> Iterable[Any]:
    hosts, nodes = case.proof.get("hosts"), case.record.get("nodes")
    return [*(hosts if isinstance(hosts, Mapping) else ()),
            *(nodes if isinstance(nodes, list) else ())]  # fmt: skip


def _distinct(found: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    different: list[Mapping[str, Any]] = []
    for one in found:
        if one and one not in different:
            different.append(one)
    return different


def _settings(cases: Iterable[Case]) -> list[Mapping[str, Any]]:
    """The settings of the machine that the cases ran under, each once, with their hash."""
    said = (mapping(case.record.get("settings")) for case in cases)
    return _distinct({key: one[key] for key in ("sha256", "machine") if key in one} for one in said)


def _stacks(cases: Iterable[Case]) -> dict[str, list[Any]]:
    """What each stack was: its lock, its image, its versions, as the records say."""
    found: dict[str, list[Any]] = {}
    for case in cases:
        said = mapping(case.provenance.get("stack")) or case.record.get("stack")
        known = found.setdefault(case.environ, [])
        if said and said not in known:
            known.append(said)
    return {
        name: [one for one in known if isinstance(one, dict)] or known
        for name, known in found.items()
        if known
    }


def _hashes(root: Path, paths: Iterable[Path]) -> dict[str, str]:
    top = root.resolve()
    return {
        path.resolve().relative_to(top).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def _power(opened: Opened) -> dict[str, str]:
    """The power of each judged metric, in words."""
    found = {}
    for case in opened.session.cases:
        for metric in case.metrics:
            if metric.reference is None:
                continue
            name = f"{metric.name} of {case.title} @{case.where}"
            number = len(metric.samples)
            if not power.enough(metric.samples):
                found[name] = f"not known: {number} of {LAUNCHES_FOR_95_PERCENT} samples"
                continue
            try:
                expected = opened.references.find(keys(case), metric.name, metric.unit, metric.peak)
            except ReferencesError:
                continue  # a contradiction, which is named elsewhere
            least = int(finite(case.record.get("least_launches")) or 1)
            percent = (
                power.least_fault(metric.samples, expected, least)
                if isinstance(expected, Reference)
                else None
            )
            found[name] = (
                "no fault below 100 % would have been found with 95 %"
                if percent is None
                else f"on this machine's own noise ({number} launches) a fault of >= {percent:g} % "
                "would have been found with 95 %"
            )
    return found


def complete(said: Mapping[str, Any], written: str, signer: str | None) -> dict[str, Any]:
    """The statement with the keys of :data:`OWN`.

    :param written: the date of the certificate.
    :param signer: the fingerprint of the key that signs; None for an unsigned certificate.
    """
    own = {"schema": SCHEMA, "assay": __version__, "written": written, "signer": signer}
    return {**own, **said}


def text(said: Mapping[str, Any]) -> str:
    """The statement for readers."""
    session, site, counts = said["session"], said["site"], said["counts"]
    signed = (
        f"signed with the key {said['signer']}"
        if said["signer"]
        else "UNSIGNED: nobody vouches for this certificate, and anybody could have written it"
    )
    lines = [
        f"CERTIFICATE OF AN ACCEPTANCE: {said['verdict']}",
        signed,
        "",
        *(f"cause: {cause}" for cause in said["causes"]),
        f"written   {said['written']} by assay {said['assay']}",
        f"session   {session['start']}, {session['seconds']:.0f} s, on {session['host']}",
        f"nodes     {', '.join(session['nodes']) or 'not known'}",
        f"command   {session['command']}",
        *(f"suite     commit {one.get('commit')}, Python lock {one.get('requirements_sha256')}, "
          f"ReFrame {one.get('reframe')}" for one in said["suite"]),
        *(f"stack     {name}: {_short(one)}" for name, many in said["stacks"].items()
          for one in many),
        *(text for one in said["settings"] for text in
          (f"settings  of the machine, sha256:{one.get('sha256')}",
           *(f"          {where} {what}" for where, what in mapping(one.get("machine")).items()))),
        *(f"{kind:<10} {name} sha256:{digest}" for kind in ("references", "promise")
          for name, digest in site[kind].items()),
        f"promised  {said['promised'].get('promised', 'nothing')} cases",
        "ran       " + ", ".join(f"{number} {key.replace('_', ' ')}" for key, number in
                                 counts.items()),
        "",
        "Metrics that follow from the verbatim outputs in this certificate, and others:",
        *(f"  {number} {'follow' if how == OUTPUTS else 'rest on the record: ' + how}"
          for how, number in said["judged_again"].items()),
        "",
        "Not run:",
        *(f"  {why}: {len(names)}: {', '.join(names)}" for why, names in said["skips"].items()),
        "",
        "Power:",
        *_powers(said["power"]),
        "",
        "Cases:",
    ]  # fmt: skip
    for case in said["cases"]:
        lines.append(f"  {case['verdict'] or 'not run'}  {case['name']} @{case['where']}"
                     + (f": {case['why']}" if case["why"] else ""))  # fmt: skip
        for name, metric in case["metrics"].items():
            lines.append(f"      {metric['verdict']}  {name} {metric['value']} {metric['unit']}")
    return "\n".join(
        part for whole in lines for part in (_wrapped(whole) if len(whole) > 100 else [whole])
    ) + "\n"  # fmt: skip


def _wrapped(long: str) -> list[str]:
    return textwrap.wrap(long, 100, subsequent_indent=" " * 10, break_on_hyphens=False)


def _short(stack: Any) -> str:
    if isinstance(stack, dict):
        return ", ".join(f"{key} {line(value)}" for key, value in stack.items() if key != "name")
    return line(stack)


def _powers(said: Mapping[str, str]) -> list[str]:
    """The metrics of which the power is known, and a count of the others by reason."""
    unknown = Counter(how for how in said.values() if how.startswith("not known"))
    known = [f"  {name}: {how}" for name, how in said.items() if how not in unknown]
    return [*known, *(f"  {how}: {number} metrics" for how, number in unknown.items())] or [
        "  no metric was judged"
    ]
