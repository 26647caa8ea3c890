#!/usr/bin/env python3
"""How wide the house is: what a reader must open for one thing, counted.

ci/width.py                  one line a count, with its budget; 1 if one is exceeded that is no aim
ci/width.py --against TREE   a table of both: TREE is a commit, or the folder of a checkout
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

#: The rooms beside the core: the core runs without them.
BESIDE = ("fleet", "gpu", "archive", "describe", "opinions")

#: The tests whose bases are counted: file below reframe/, and class.
TESTS = {
    "Osu": "network/osu.py",
    "Hpl": "compute/hpl.py",
    "Iozone": "storage/iozone.py",
    "Nccl": "network/nccl.py",
}

#: The decorators of methods that ReFrame calls.
HOOKS = {"run_before", "run_after", "sanity_function", "performance_function", "require_deps"}

#: A recorded session; the first value of its case of OSU is followed.
SESSION = "tests/data/report/results"

#: What is counted -> its budget; a count without one is only printed.
BUDGETS = {
    "lines of src/assay": 36_000,
    "lines of the core": 20_000,
    "words of docs, with those of studies": 36_000,
    "words of the longest page of docs": 4_500,
    **{
        f"{what} above {test}": most
        for test in TESTS
        for what, most in (("classes", 6), ("files", 6), ("hooks", 10))
    },
    "modules that a test of OSU loads": 60,
    "lines that a test of OSU loads": 10_000,
    "lines that a site file loads": 5_000,
    "changes of room of a value from record to page": 5,
    "functions that see a value from record to page": 40,
    "lines of the site ibisco": 110,
    "functions of one name in three modules or more": 12,
    "modules without a test at their path": 50,
}


#: A budget that is an aim: a count above it is said, and is not red.
AIMS = ("lines of src/assay",)


def modules(tree: Path) -> dict[str, int]:
    """Each module of the library, as a path below src/assay, and its lines."""
    home = tree / "src/assay"
    found = sorted(home.rglob("*.py"))
    return {p.relative_to(home).as_posix(): len(p.read_bytes().splitlines()) for p in found}


def pages(tree: Path) -> dict[str, int]:
    """The words of each page of docs and of each study."""
    found = (*(tree / "docs").rglob("*.md"), *tree.glob("studies/*/README.md"))
    return {path.relative_to(tree).as_posix(): len(path.read_text().split()) for path in found}


def shared_names(tree: Path) -> Counter[str]:
    """How many modules define each public function, for names of three modules or more.

    A function that runs on a compute node stands in a script of its own.
    """
    found: Counter[str] = Counter()
    for path in (tree / "src/assay").rglob("*.py"):
        if path.parent.name != "node":
            body = ast.parse(path.read_text()).body
            found.update({n.name for n in body if isinstance(n, ast.FunctionDef)})
    return Counter({n: c for n, c in found.items() if c >= 3 and not n.startswith("_")})


def untested(tree: Path) -> list[str]:
    """The modules of the library that have no test at their path."""
    folders = [*tree.glob("tests/*"), *tree.glob("lab/tests/*")]
    return [
        module
        for module, lines in modules(tree).items()
        if lines > 1
        and (path := Path(module)).stem not in ("__init__", "__main__")
        and not any((at / path.parent / f"test_{path.name}").exists() for at in folders)
    ]


def site_lines(tree: Path, site: str) -> int:
    """The lines that describe a site: its configuration, without references and promise."""
    folder = tree / "site-config" / site
    found = (path for name in ("reframe.py", "assay.yaml") for path in folder.glob(name))
    return sum(len(path.read_text().splitlines()) for path in found)


def child(tree: Path, what: str, *words: str) -> Any:
    """What a function of this file finds in a process that imports the library of the tree."""
    place = {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", what, str(tree), *words]
    done = subprocess.run(
        command, cwd=tree, env={**os.environ, **place}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"ci/width.py: {what} of {tree}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout.splitlines()[-1])


def load(path: Path) -> Any:
    """A file as a module, as ReFrame loads it."""
    name = f"loaded_{path.stem}"  # a site's file has the name of ReFrame's package
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decorator(node: ast.expr) -> str:
    """The name of a decorator."""
    called = node.func if isinstance(node, ast.Call) else node
    return called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")


def above(tree: Path, name: str) -> dict[str, int]:
    """Classes of ours above a test, their files and lines, their methods, and their hooks."""
    test = getattr(load(tree / "reframe" / TESTS[name]), name)
    places = {c: getattr(sys.modules[c.__module__], "__file__", None) for c in test.__mro__[1:]}
    mine = (tree / "src/assay", tree / "reframe")
    ours = {c: at for c, at in places.items() if at and {*mine} & {*Path(at).resolve().parents}}
    bodies = {path: ast.parse(Path(path).read_text()).body for path in {*ours.values()}}
    classes = [
        node
        for each, path in ours.items()
        for node in bodies[path]
        if isinstance(node, ast.ClassDef) and node.name == each.__name__
    ]
    methods = [n for node in classes for n in node.body if isinstance(n, ast.FunctionDef)]
    hooks = [n for n in methods if {*map(decorator, n.decorator_list)} & HOOKS]
    return {
        "classes": len(ours),
        "files": len(bodies),
        "hooks": len(hooks),
        "methods": len(methods),
        "lines": sum((c.end_lineno or 0) - c.lineno + 1 for c in classes),
    }


def closure(tree: Path, name: str) -> dict[str, int]:
    """The modules of the library that a file loads, and their lines."""
    load(tree / name)
    home, lines = tree / "src/assay", modules(tree)
    files = (getattr(module, "__file__", None) or "" for module in [*sys.modules.values()])
    found = {Path(path).resolve() for path in files if path}
    ours = [path.relative_to(home).as_posix() for path in found if home in path.parents]
    return {"modules": len(ours), "lines": sum(lines[each] for each in ours)}


def holds(thing: Any, value: float, depth: int = 7) -> bool:
    """Whether a thing is a value, or has it somewhere inside, as a number or as a text."""
    if isinstance(thing, float):
        return thing == value
    if isinstance(thing, (str, bytes, int, type(None), Path)) or depth == 0:
        return False
    inside: Iterable[Any] = ()
    if isinstance(thing, Mapping):
        inside = thing.values()
    elif isinstance(thing, (list, tuple, set, frozenset)):
        inside = thing
    elif type(thing).__module__.startswith("assay"):
        kind = type(thing)
        fields = getattr(kind, "__struct_fields__", None) or getattr(kind, "__slots__", ())
        inside = [getattr(thing, name, None) for name in fields] or vars(thing).values()
    return any(holds(each, value, depth - 1) for each in inside)


def way(tree: Path) -> dict[str, int]:
    """How many functions of the library see a value on its way from the record to the page."""
    from assay import cli  # noqa: PLC0415

    home, seen, rooms = str(tree / "src/assay") + "/", set(), []
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        shutil.copytree(tree / SESSION, results)
        record = json.loads(min(results.rglob("Osu_*/assay.json")).read_text())
        value = next(iter(record["metrics"].values()))["value"]
        os.environ["ASSAY_RESULTS"] = str(results)

        def called(frame: Any, event: str, _: object) -> None:
            code = frame.f_code
            if event != "call" or not code.co_filename.startswith(home) or code.co_name[0] == "<":
                return
            arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(holds(frame.f_locals.get(name), value) for name in arguments):
                room = code.co_filename.removeprefix(home).split("/")[0]
                seen.add((code.co_filename, code.co_firstlineno))
                rooms.append(room)

        sys.setprofile(called)
        try:
            cli.main(["report", "--output", str(Path(folder, "page.html"))])
        finally:
            sys.setprofile(None)
    changes = sum(one != other for one, other in zip(rooms, rooms[1:]))
    return {"functions": len(seen), "changes": changes}


CHILDREN = {"above": above, "closure": closure, "way": way}


def counts(tree: Path) -> Iterator[tuple[str, int]]:
    """What is counted, and the count."""
    lines, words = modules(tree), pages(tree)
    yield "lines of src/assay", sum(lines.values())
    core = (number for path, number in lines.items() if path.split("/")[0] not in BESIDE)
    yield "lines of the core", sum(core)
    yield "words of docs, with those of studies", sum(words.values())
    yield "words of the longest page of docs", max(words.values(), default=0)
    for test in TESTS:
        for what, number in child(tree, "above", test).items():
            yield f"{what} above {test}", number
    for name, path in (
        ("a test of OSU", "reframe/network/osu.py"),
        ("a site file", "site-config/ibisco/reframe.py"),
    ):
        for what, number in child(tree, "closure", path).items():
            yield f"{what} that {name} loads", number
    found = child(tree, "way")
    yield "changes of room of a value from record to page", found["changes"]
    yield "functions that see a value from record to page", found["functions"]
    yield "lines of the site ibisco", site_lines(tree, "ibisco")
    yield "functions of one name in three modules or more", sum(shared_names(tree).values())
    yield "modules without a test at their path", len(untested(tree))


def against(tree: str) -> Iterator[str]:
    """The counts of another tree and of this one, as a table."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(tree)
        if not other.is_dir():
            other = Path(folder, "tree")
            git = ("git", "-C", str(ROOT), "worktree")
            subprocess.run([*git, "add", "--detach", str(other), tree], check=True)
        before = dict(counts(other.resolve()))
        if other.parent == Path(folder):
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
    yield f"| count | {tree} | now | budget |"
    yield "|---|---:|---:|---:|"
    for name, now in counts(ROOT):
        yield f"| {name} | {before.get(name, '')} | {now} | {BUDGETS.get(name, '')} |"


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--child"]:
        what, tree, *words = arguments[1:]
        print(json.dumps(CHILDREN[what](Path(tree), *words)))  # type: ignore[operator]
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", metavar="TREE", help="a commit, or the folder of a checkout")
    options = parser.parse_args(arguments)
    if options.against:
        print("\n".join(against(options.against)))
        return 0
    above_budget, lacking = 0, {*BUDGETS}
    for name, found in counts(ROOT):
        lacking.discard(name)
        most = BUDGETS.get(name)
        over = most is not None and found > most
        above_budget += over and name not in AIMS
        of = f"of {most:6,}" if most is not None else " " * 9
        print(f"width: {found:8,} {of}  {name}{'  above its budget' if over else ''}")
    if lacking:
        print(f"width: not counted: {', '.join(sorted(lacking, key=[*BUDGETS].index))}")
    return 1 if above_budget or lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
