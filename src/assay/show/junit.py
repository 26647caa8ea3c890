"""The JUnit file of a run, for GitLab and Jenkins. It has the verdicts and counts of the page."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree as Xml

from assay import files
from assay.judge import Verdict
from assay.show import summary
from assay.show.strength import least_loss, said_loss
from assay.show.view import View
from assay.store.cases import Case


def render_junit(view: View) -> str:
    """The file: one suite, one case a name, and the case ``run`` for faults of the whole run."""
    run = view.session
    name, seconds = f"assay {'/'.join(run.systems)}", f"{run.elapsed:.3f}"
    top = Xml.Element("testsuites")
    suite = Xml.SubElement(top, "testsuite", name=name, hostname=run.host, time=seconds)
    if run.start:
        suite.set("timestamp", f"{run.start:%Y-%m-%dT%H:%M:%S}")
    for case in run.cases:
        _add(suite, case)
    if whole := summary.without_cases(run):
        entry = Xml.SubElement(suite, "testcase", classname="assay", name="run")
        _end(entry, whole.word, whole.faults or run.partial)
    for tags in ("testcases", "failures", "errors", "skipped"):
        suite.set(tags.replace("case", ""), str(len([*suite.iter(tags.removesuffix("s"))])))
    Xml.indent(top)
    return files.clean(Xml.tostring(top, encoding="unicode", xml_declaration=True)) + "\n"


def _add(suite: Xml.Element, case: Case) -> None:
    name, seconds = f"{case.title} @{case.where}", f"{case.seconds.benchmark:.3f}"
    entry = Xml.SubElement(suite, "testcase", classname=case.test, name=name, time=seconds)
    word = case.verdict.value if case.verdict else "not run"
    properties = Xml.SubElement(entry, "properties")
    said = {f"{m.name} [{m.unit}]": repr(m.value) for m in case.metrics if m.value is not None}
    for m in case.metrics:
        its = least_loss(m)
        loss = f", {said_loss(its)} is red" if its else ""
        said |= {f"{m.name} judged by": f"{m.yardstick}{loss}"} if m.yardstick else {}
    for name, value in {"verdict": word, **said}.items():
        Xml.SubElement(properties, "property", name=name, value=value)
    if case.verdict is None:
        Xml.SubElement(entry, "skipped", message=case.why)
    elif case.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        _end(entry, word, (case.why, *case.problems))
    if case.outputs:
        # GitLab looks for attachments below the checkout of the job.
        root = Path(os.environ.get("CI_PROJECT_DIR", "")).resolve()
        places = (os.path.relpath(path.resolve(), root) for path in case.outputs)
        Xml.SubElement(entry, "system-out").text = "\n".join(f"[[ATTACHMENT|{p}]]" for p in places)


def _end(entry: Xml.Element, word: str, lines: tuple[str, ...]) -> None:
    """JUnit has two ends that are red: a failure, and an error for what nobody could decide."""
    kind = "failure" if word == Verdict.FAIL.value else "error"
    Xml.SubElement(entry, kind, type=word, message=lines[0]).text = "\n".join(dict.fromkeys(lines))
