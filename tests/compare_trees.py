"""Compare what two trees say of the same inputs: rows, verdicts, metrics and job scripts.

    .venv/bin/python tests/compare_trees.py TREE [TEST...]

TREE is the tree before a change that must not alter behaviour: a commit, or the folder of a
checkout. The tree after the change is this checkout. Both trees run in the Python environment of
this checkout. The script observes

- `assay parse` of every recorded output in tests/data (the files that both trees have);
- every run of ReFrame that a test of TREE makes on a throw-away site (tests/programs/bench.py).
  After each run, the tree after the change repeats it, on a copy of the same folder with the same
  command line. Result, verdict and problems of each case must be equal; the values of metrics too,
  if the programs only replay recorded runs. TESTs restrict the tests, as words for pytest. Sites
  with test files of their own are left out, because these import the library by its old names; so
  are sites with a file system mounted below them;
- the job script of every case of every site, from dry runs.

It prints every difference. Exit code 1 if there is one: each is either intended, and belongs into
the commit message, or a fault of the change.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

SCONTROL = (
    '#!/bin/sh\necho "slurm_load_node error: Unable to contact slurm controller" >&2\nexit 1\n'
)

#: Parts of a text that differ from run to run.
_VOLATILE = (
    (re.compile(r"/[\w./-]*/(pytest-of-\w+|assay-compare)[\w./-]*?/(?=\w+$|\w+[ :,;)'\"])"), "…/"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "HASH"),
    (re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?"), "N"),
)


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--observed", type=Path, help="folder for what the plugin observes")


def pytest_configure(config: Any) -> None:
    """As a plugin of pytest: repeats every run on a throw-away site with this checkout."""
    sys.path.insert(0, str(config.rootpath / "tests/programs"))
    import bench

    run, folder = bench.run_reframe, config.option.observed
    count: Counter[str] = Counter()

    def twice(site: Path, results: Path, *arguments: str, **variables: str) -> Any:
        place = site.parents[2]
        if not _repeatable(site, place):
            return run(site, results, *arguments, **variables)
        shutil.copytree(place, copy := place.with_name(f"{place.name}-after"), symlinks=True)
        done = run(site, results, *arguments, **variables)
        exact = (place / "recorded").is_dir()
        with _exchanged(place, copy), _of_this_tree(bench, place):
            again = run(site, results, *arguments, PYTHONPATH=str(ROOT / "src"), **variables)
            said = [
                {"code": each.returncode, "cases": _cases(each, exact)} for each in (done, again)
            ]
        test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        count[test] += 1
        text = json.dumps({"run": f"{test}, run {count[test]}", "said": said}, sort_keys=True)
        (folder / f"{os.getpid()}-{sum(count.values())}.json").write_text(text)
        return done

    bench.run_reframe = twice


def _repeatable(site: Path, place: Path) -> bool:
    """Whether a copy of the folder would run the same: it has neither own tests nor a mount."""
    if not (site.parent / "site.json").is_file():
        return False
    files = [path for path in place.rglob("*") if path != site]
    return not any(path.suffix == ".py" or path.is_mount() for path in files)


@contextmanager
def _exchanged(place: Path, copy: Path) -> Any:
    """Puts the copy of a folder into its place; afterwards the folder is back, the copy is gone."""
    aside = place.with_name(f"{place.name}-before")
    place.rename(aside)
    copy.rename(place)
    try:
        yield
    finally:
        shutil.rmtree(place)
        aside.rename(place)


@contextmanager
def _of_this_tree(bench: Any, place: Path) -> Any:
    """Lets `bench` run this checkout, on the files that the sites of this checkout share."""
    before = bench.ROOT
    for link in (place / "site-config").iterdir():
        if link.is_symlink() and link.readlink().is_relative_to(before):
            target = ROOT / link.readlink().relative_to(before)
            link.unlink()
            link.symlink_to(target)
    bench.ROOT = ROOT
    try:
        yield
    finally:
        bench.ROOT = before


def _cases(run: Any, exact: bool) -> dict[str, Any]:
    found = {}
    for key, outcome in run.cases.items():
        record = outcome.record
        metrics = {
            name: metric if exact else [metric.get("unit"), metric.get("verdict")]
            for name, metric in (record.get("metrics") or {}).items()
        }
        found[" ".join(key)] = {
            "result": outcome.result,
            "verdict": record.get("verdict"),
            "reason": _steady(outcome.reason),
            "problems": [_steady(str(problem)) for problem in record.get("problems") or []],
            "metrics": metrics,
        }
    return found


def _steady(text: str) -> str:
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text


def environment(tree: Path, *more: str) -> dict[str, str]:
    """The environment in which Python imports the library of a tree."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "RFM_"))}
    return {**clean, "PYTHONPATH": ":".join((str(tree / "src"), *more))}


def parsed(tree: Path, files: list[str]) -> dict[str, str]:
    """File -> what `assay parse` prints for it."""
    words = [sys.executable, "-m", "assay", "parse", *files]
    done = subprocess.run(
        words, cwd=tree, env=environment(tree), capture_output=True, text=True, check=False
    )
    return {json.loads(line)["file"]: line for line in done.stdout.splitlines()}


def runs(tree: Path, folder: Path, tests: list[str]) -> list[dict[str, Any]]:
    """Test and number of a run -> exit code and cases, of both trees."""
    folder.mkdir()
    log = folder.with_suffix(".log")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "compare_trees"]
    words += ["-p", "no:cacheprovider", f"--observed={folder}"]
    with log.open("w") as output:
        subprocess.run(
            [
                *words,
                "-n",
                str(min(2, os.cpu_count() or 1)),
                *(tests or ["tests/programs", "lab/tests/programs"]),
            ],
            cwd=tree,
            env=environment(tree, str(ROOT / "tests")),
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    print(log.read_text().strip().splitlines()[-1], flush=True)
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [{each["run"]: each["said"][side] for each in found} for side in (0, 1)]


def scripts(tree: Path, folder: Path) -> dict[str, str]:
    """Site, partition, stack and case with its hash -> job script, without time and folders."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/scontrol").write_text(SCONTROL)
    (folder / "bin/scontrol").chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    reframe = Path(sys.executable).with_name("reframe")
    found = {}
    files = [*tree.glob("site-config/*/reframe.py"), *tree.glob("lab/sites/*/reframe.py")]
    for file in sorted(files, key=lambda path: path.parent.name):
        site = file.parent.name
        results = folder / site
        words = [str(reframe), "-C", str(file), f"--system={site}"]
        fixed = {"ASSAY_RESULTS": str(results), "HOME": str(folder), "PATH": path}
        subprocess.run(
            [*words, "-c", "reframe", "-R", "--dry-run"],
            cwd=tree,
            env={**environment(tree), **fixed},
            capture_output=True,
            check=False,
        )
        for script in results.glob("stage/*/**/rfm_job.sh"):
            text = script.read_text()
            for path, word in ((results, "RESULTS"), (folder, "HOME"), (tree, "TREE")):
                text = text.replace(str(path), word)
            _, *where = script.parent.relative_to(results / "stage").parts  # without the time
            found["/".join(where)] = re.sub(r"\b\d{8}T\d{6}\b", "TIME", text)
    return found


def differences(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Prints each difference of one kind of observation once; returns their number."""
    both = before.keys() & after.keys()
    print(f"{kind}: {len(both)} compared, {len(before) - len(both)} only before, "
          f"{len(after) - len(both)} only after", flush=True)  # fmt: skip
    for key in sorted(before.keys() ^ after.keys()):
        print(f"--- {kind}: only {'before' if key in before else 'after'}: {key}")
    found: dict[tuple[str, ...], list[str]] = {}
    for key in sorted(both):
        old, new = (
            (text if isinstance(text, str) else json.dumps(text, indent=1, sort_keys=True)).split(
                "\n"
            )
            for text in (before[key], after[key])
        )
        for tag, *at in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag != "equal":
                gone, come = old[at[0] : at[1]], new[at[2] : at[3]]
                lines = (*(f"-{line}" for line in gone), *(f"+{line}" for line in come))
                found.setdefault(lines, []).append(key)
    for lines, keys in found.items():
        print(f"--- {kind}: {len(keys)} times, first in {keys[0]}", *lines, sep="\n")
    return len(found) + len(before.keys() ^ after.keys())


@contextmanager
def checkout(tree: str, work: Path) -> Any:
    """The folder of a tree, which is one or is a commit."""
    if Path(tree).is_dir():
        yield Path(tree).resolve()
        return
    git, folder = ["git", "-C", str(ROOT), "worktree"], work / "before"
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), tree], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=False)


def main(tree: str, tests: list[str]) -> int:
    """Observe both trees and print how they differ."""
    with tempfile.TemporaryDirectory(prefix="assay-compare") as temporary:
        work = Path(temporary)
        with checkout(tree, work) as before:
            files = sorted(
                str(path.relative_to(before))
                for path in (before / "tests/data").rglob("*")
                if path.is_file() and (ROOT / path.relative_to(before)).is_file()
            )
            found = {
                "outputs": [parsed(each, files) for each in (before, ROOT)],
                "job scripts": [
                    scripts(each, work / f"scripts-{n}") for n, each in enumerate((before, ROOT))
                ],
                "runs": runs(before, work / "runs", tests),
            }
        return min(1, sum(differences(kind, *each) for kind, each in found.items()))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
