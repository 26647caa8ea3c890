"""The card at the head of each file of ``reframe/``: what its tests run, where, what they prove.

`python docs/cards.py` writes the cards again, from the classes and from docs/minutes.yaml. A person
writes the first line of the docstring and what stands behind the card. `<word>` is what a case or a
site chooses. `python docs/cards.py RESULTS MACHINE` first enters how long the cases of the newest
session below RESULTS took on a machine, which two or three words name.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from reframe.core.runtime import temp_runtime

import assay.node
from assay import catalogue
from assay.judge import Verdict
from assay.reframe_compat import testcase
from assay.run import StrictCheck
from assay.store import session
from assay.store.promise import few

FILES = sorted(Path(__file__).resolve().parents[1].glob("reframe/*/*.py"))

MINUTES = Path(__file__).with_name("minutes.yaml")

#: A base class of tests -> what it demands beside exit code 0 and a complete output.
EVIDENCE = {
    "MpiCheck": "one world of the ranks asked for",
    "TransportMixin": "the transport that carried the bytes, by the log of UCX",
    "StorageMixin": "the file system, and how the file was open",
    "GpuMixin": "the path of the bytes between GPUs",
    "GpuState": "the health of each GPU",
    "AllNodesCheck": "an answer of every node",
}

_CARD = re.compile(r"\n\nTests: .*?(?=\n\n|\s*\Z)", re.DOTALL)
_FILL = textwrap.TextWrapper(98, subsequent_indent=" " * 11, break_on_hyphens=False)

Cases = list[tuple[type, Any]]

#: Of docs/minutes.yaml.
Entries = list[dict[str, Any]]


def card(path: Path) -> str:
    """The card of the tests in a file: a word, and what it says, on each line."""
    with temp_runtime("<builtin>", "generic"):
        every = [
            (test, test(*given, **{**named, "reset_sysenv": 0}))
            for test, variants in testcase.declared(path)
            for given, named in variants
        ]
        cases = [(test, case) for test, case in every if case.valid_systems]
        limits = sorted({case.time_limit for _, case in cases if case.time_limit})
        most = " or ".join(f"{limit / 60:g}" for limit in limits)
        smoke = sum("smoke" in case.tags for _, case in cases)
        said = {
            "Tests": ", ".join(_once(test.__name__ for test, _ in cases)),
            "Cases": "; ".join(_choices(cases)),
            "Runs": "; ".join(_once(_command(test, case) for test, case in cases)),
            "Where": ", or ".join(_once(_places(cases))),
            "Stacks": ", or ".join(_once(w for _, c in cases for w in c.valid_prog_environs)),
            "Proves": "; ".join(_once(_proofs(cases))),
            "Judged by": "; ".join(_once(_judges(cases))),
            "Takes": "".join(f"{took}; " for took in _measured(cases)),
        }
    said["Stacks"] = said["Stacks"].replace("*", "any")
    said["Takes"] += f"at most {most} min for a launch" if most else "as long as its size needs"
    said["Takes"] += f"; in the smoke profile: {smoke} of {len(cases)} cases"
    return "\n".join(_FILL.fill(f"{word + ':':<11}{text}") for word, text in said.items() if text)


def _once(found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, found)))


def _choices(cases: Cases) -> Iterator[str]:
    """Each parameter with its values."""
    for name in _once(name for test, _ in cases for name in testcase.parameters(test)):
        values = [getattr(c, name) for t, c in cases if name in testcase.parameters(t)]
        if any(name in getattr(case, "grows", ()) for _, case in cases):
            values = ["as the machine has room"]
        texts = _once(" ".join(v) if isinstance(v, tuple) else str(v) for v in values)
        yield f"{name} {', '.join(few(texts, 10))}"


def _command(test: type, case: Any) -> str:
    """How the test starts its program, as far as its class says it."""
    program = _assigned(test, "executable")
    if program == "true":
        return f"no program: it {'compares other cases' if case.user_deps() else 'reads files'}"
    # A script on nodes is what runs, or it starts a program of the stack.
    code = Path(inspect.getfile(test)).read_text(encoding="utf-8")
    named = re.findall(r'"(\w+\.(?:py|sh))"|node\.(\w+)\.__file__', code)
    scripts = [each or f"{stem}.py" for each, stem in named]
    home = Path(assay.node.__file__).parents[3]
    there = [path for n in scripts for path in home.glob(f"src/assay/**/node/{n}")]
    if there:
        names = ", ".join(path.name for path in there)
        return f"{names} of {there[0].parent.relative_to(home)}"
    if program[:1] not in ("<", ".", ""):
        return f"{program} {_assigned(test, 'executable_opts')}".strip()
    words = re.findall(r"\+(?!mpi|ucx\b(?!-p)|ucx-cuda)(\S+)", case.valid_prog_environs[0])
    one = catalogue.PROGRAMS[words[0]] if words else catalogue.Program("the shell", ("a shell",))
    others = ", or others of its kind" * bool(one.family)
    return " or ".join(one.executables) + others or f"what the stack's {one.command_extra} says"


@cache
def _assigned(test: type, name: str) -> str:
    """What the class, or its nearest base class, assigns to the attribute, as words of a shell."""
    for base in test.__mro__[: test.__mro__.index(StrictCheck)]:
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(base)))):
            targets = [ast.unparse(each) for each in getattr(node, "targets", ())]
            if {name, f"self.{name}"} & {*targets} and isinstance(node, ast.Assign):
                return re.sub(r"\.\.\.( \.\.\.)+", "...", " ".join(_words(node.value)))
    return ""


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.List, ast.Tuple)):
        yield from (word for each in node.elts for word in _words(each))
    elif isinstance(node, ast.JoinedStr):
        yield "".join(word for part in node.values for word in _words(part))
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, (ast.Call, ast.Starred)) and not ast.unparse(node).startswith("str("):
        yield "..."
    else:
        yield f"<{re.findall('[a-z]+', ast.unparse(node).lower())[-1]}>"


def _places(cases: Cases) -> Iterator[str]:
    for test, case in cases:
        values = {getattr(case, name): f"<{name}>" for name in testcase.parameters(test)}
        for words in case.valid_systems:
            yield " ".join(w[0] + str(values.get(w[1:], w[1:])) for w in words.split())


def _proofs(cases: Cases) -> Iterator[str]:
    yield "exit code 0 and a complete output"
    for test, _ in cases:
        yield from (EVIDENCE.get(base.__name__, "") for base in test.__mro__)
    clears = _once(what for _, case in cases for what in case.proves)
    yield f"a pass clears {' and '.join(clears)}" if clears else ""


def _judges(cases: Cases) -> Iterator[str]:
    units = {name: unit for _, case in cases for name, unit in case.declares.items()}
    named = few([f"{name} [{unit}]" for name, unit in units.items()], 5)
    yield f"references of {', '.join(named)}" if units else "its evidence alone"
    for test, case in cases:
        sizes = [name for name in case.declares if re.search(r"_\d+\w?i?B\Z", name)]
        yield "the shape of the curve" if len(sizes) > 1 else ""
        yield "the peak of each" if units and test.peaks is not StrictCheck.peaks else ""
        apart = getattr(case, "tolerance", None)
        yield f"the other nodes, of which none may be {100 * apart:g} % better" if apart else ""


@cache
def _minutes() -> Entries:
    return yaml.safe_load(MINUTES.read_text(encoding="utf-8"))


def _measured(cases: Cases) -> Iterator[str]:
    """How long cases of these tests took on each machine where they have run."""
    tests = {test.__name__ for test, _ in cases}
    for each in _minutes():
        took = [seconds for test in tests for seconds in each["seconds"].get(test, ())]
        if took:
            yield f"{_span(min(took), max(took))} a case ({each['profile']}, {each['machine']})"


def _span(least: float, most: float) -> str:
    """Times [s] as a reader wants them: their order of magnitude."""
    if most < 1:
        return "under 1 s"
    unit, length = ("s", 1) if most < 90 else ("min", 60)
    last = f"{most / length:.0f} {unit}"
    if least < length:
        return f"up to {last}"
    first = f"{least / length:.0f}"
    return last if last.startswith(f"{first} ") else f"{first} to {last}"


def entered(known: Entries, run: session.Session, machine: str) -> Entries:
    """The entries of docs/minutes.yaml with a session of a machine in the place of an older one.

    Only sound cases count: one that failed may have ended early, or have waited for its time limit.
    The time is that inside the programs of a case, of all its launches and without a queue [s].
    """
    took: dict[str, dict[str, list[float]]] = {}
    for case in run.cases:
        if case.verdict in (Verdict.PASS, Verdict.RECORDED) and case.seconds.benchmark:
            tests = took.setdefault(case.profile, {})
            tests.setdefault(case.test, []).append(float(f"{case.seconds.benchmark:.2g}"))
    others = [e for e in known if e["machine"] != machine or e["profile"] not in took]
    for profile, tests in took.items():
        span = {test: [min(found), max(found)] for test, found in sorted(tests.items())}
        date = run.start.date().isoformat() if run.start else "unknown"
        entry = {"machine": machine, "profile": profile, "date": date, "seconds": span}
        others.append(entry)
    return others


def written(path: Path) -> str:
    """The text of a file with the card of its tests as they are; a file without one gets it."""
    text = path.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text), clean=False) or ""
    head, _, more = _CARD.sub("", said).partition("\n\n")
    parts = [head.strip(), card(path), *([more.strip()] if more.strip() else [])]
    return text.replace(said, "\n\n".join(parts) + "\n", 1)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        text = MINUTES.read_text(encoding="utf-8")
        newest = session.load_session(session.newest(Path(sys.argv[1])))
        entries = entered(yaml.safe_load(text), newest, sys.argv[2])
        head = "".join(line for line in text.splitlines(keepends=True) if line[0] == "#")
        MINUTES.write_text(head + yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    for one in FILES:
        one.write_text(written(one), encoding="utf-8")
