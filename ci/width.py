#!/usr/bin/env python3
"""How wide the house is: what a person must hold in the head, counted, each with its budget.

ci/width.py --print    one line a count; ends with 0
ci/width.py --check    the same; ends with 1 if a count is above its budget
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]

#: Folders that a checkout has beside its files.
MADE = {
    *(".git", ".venv", ".cache", "results", "build", "public", "__pycache__", ".hypothesis"),
    *(".pytest_cache", ".mypy_cache", ".ruff_cache", ".gitlab-ci-local"),
}

#: Records of what was, and inputs of tests. They may name a variable that is no more.
RECORDS = ("docs/runs.csv", "tests/data/")

#: A variable of ours: what reads it is in the repository, and docs/variables.md explains it.
VARIABLE = re.compile(r"\b(?:ASSAY|GPUEMU|VCLUSTER)_[A-Z0-9_]*[A-Z0-9]\b")

#: Kind of rule files -> the files that have its shape. Any other YAML file that the suite reads is
#: a kind of its own, with the name of the file. Files of Spack are not ours.
SHAPES = {
    "references": ("references.yaml", "ratios.yaml", "calibrated.yaml"),
}
OF_SPACK = {"spack.yaml", "packages.yaml", "concretizer.yaml"}


def lines(root: Path) -> int:
    """Lines of Python of the library."""
    return sum(len(path.read_bytes().splitlines()) for path in (root / "src/assay").rglob("*.py"))


def words(root: Path) -> int:
    """Words of the pages, with those of the studies."""
    pages = (*(root / "docs").rglob("*.md"), *root.glob("studies/*/README.md"))
    return sum(len(path.read_text().split()) for path in pages)


def rooms(root: Path) -> set[str]:
    """The packages of the library: folders with Python."""
    library = root / "src/assay"
    folders = {path.parent.relative_to(library).as_posix() for path in library.rglob("*.py")}
    return folders - {"."}


def words_of_a_site(root: Path) -> list[str]:
    """The words that a site may use, but for the programs of a stack."""
    said = yaml.safe_load((root / "site-config/vocabulary.yaml").read_text())
    parts = (("partition", "features"), ("partition", "extras"), ("environment", "extras"))
    return [f"{owner}.{kind}.{word}" for owner, kind in parts for word in said[owner][kind]]


def files(root: Path) -> Iterator[Path]:
    """All files of a checkout, but for records and what tools left."""
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name not in MADE and not name.endswith(".egg-info")]
        for path in (Path(folder, name) for name in names):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not name.startswith(RECORDS) and path.suffix != ".jsonl":
                yield path


def variables(root: Path) -> set[str]:
    """Our variables of the environment and of make that a file reads, sets or explains."""
    return {
        name
        for path in files(root)
        for name in VARIABLE.findall(path.read_bytes().decode(errors="ignore"))
    }


def kinds_of_rules(root: Path) -> set[str]:
    """The kinds of YAML files that the suite reads: in its folders, or named by its code."""
    library = root / "src/assay"
    folders = (library, root / "site-config", root / "lab/sites", root / "examples")
    names = {path.name for each in folders for path in each.rglob("*.yaml")}
    for path in library.rglob("*.py"):
        names |= set(re.findall(r'"(\w[\w-]*\.yaml)"', path.read_text()))
    # assay.yaml describes a site, as its reframe.py does.
    names = {name for name in names if not name.endswith(".seal.yaml")} - OF_SPACK - {"assay.yaml"}
    # Of the settings of Spack, every file is below a folder of that name.
    names -= {
        path.name for path in (root / "site-config").rglob("*.yaml") if "spack" in str(path.parent)
    }
    return {next((kind for kind, same in SHAPES.items() if name in same), name) for name in names}


#: Names of ReFrame that our classes set.
OF_REFRAME = {
    *("descr", "env_vars", "exclusive_access", "executable", "executable_opts", "keep_files"),
    *("local", "num_cpus_per_task"),
    *("max_pending_time", "num_tasks", "num_tasks_per_node", "postrun_cmds"),
    *("prerun_cmds", "tags", "time_limit", "valid_prog_environs", "valid_systems"),
}


def names_above(root: Path) -> set[str]:
    """The public names that classes of ours define above a test of OSU; of the widest test."""
    tests = root / "reframe/network/osu.py"
    paths = [*(root / "src/assay/run").glob("*.py"), *tests.parent.glob("*.py")]
    found = (node for path in paths for node in ast.parse(path.read_text()).body)
    classes = {node.name: node for node in found if isinstance(node, ast.ClassDef)}

    def above(name: str) -> set[str]:
        bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)]
        return {n for b in bases if b in classes for n in defined(classes[b]) | above(b)}

    every = ast.parse(tests.read_text()).body if tests.exists() else []
    widest = [above(node.name) for node in every if isinstance(node, ast.ClassDef)]
    return max(widest, key=len, default=set())


def defined(of: ast.ClassDef) -> set[str]:
    """The public names that a class defines in its body, or sets in its methods."""
    names = {node.name for node in of.body if isinstance(node, ast.FunctionDef)}
    for node in of.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = (part for target in targets for part in ast.walk(target))
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    for node in ast.walk(of):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= {node.attr} if getattr(node.value, "id", "") == "self" else set()
    return {name for name in names if not name.startswith("_")} - OF_REFRAME


def inputs(root: Path) -> list[Path]:
    """The recorded inputs of tests."""
    return [path for path in (root / "tests/data").rglob("*") if path.is_file()]


def megabytes(root: Path) -> float:
    """The size of the recorded inputs [MB]."""
    return sum(path.stat().st_size for path in inputs(root)) / 1e6


def targets(root: Path) -> set[str]:
    """The targets of make."""
    found = re.search(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE)
    return set(found[1].split()) if found else set()


#: What is counted -> its budget, and the function that counts it.
BUDGETS: dict[str, tuple[float, Callable[[Path], object]]] = {
    "lines of Python in src/assay": (36_000, lines),
    "words of docs": (37_000, words),
    "rooms below src/assay": (20, rooms),
    "words of a site": (55, words_of_a_site),
    "environment variables of ours": (40, variables),
    "kinds of rule files": (9, kinds_of_rules),
    "public names above a test of OSU": (41, names_above),
    "files in tests/data": (900, inputs),
    "MB in tests/data": (9, megabytes),
    "make targets": (24, targets),
}


def count(root: Path) -> Iterator[tuple[str, float, float]]:
    """What is counted, the count, and the budget."""
    for name, (budget, of) in BUDGETS.items():
        found = of(root)
        yield name, found if isinstance(found, (int, float)) else len(found), budget  # type: ignore[arg-type]


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--print", action="store_true", help="end with 0, whatever is counted")
    parser.add_argument("--check", action="store_true", help="end with 1 above a budget")
    options = parser.parse_args(arguments)
    above = 0
    for name, found, budget in count(root):
        above += found > budget
        mark = "  above its budget" if found > budget else ""
        print(f"width: {found:8,.{int(found % 1 > 0)}f} of {budget:6,}  {name}{mark}")
    return 1 if options.check and above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
