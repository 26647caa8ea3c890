"""Compare what two trees say of the same inputs: rows, verdicts, metrics and job scripts.

    .venv/bin/python tests/compare_trees.py REV [BENCH TEST...]

REV is the tree before a change that must not alter behaviour. The tree after it is this checkout.
The script makes a worktree of REV with its own Python environment in a temporary folder, and
observes both trees:

- `assay parse` of every recorded output in tests/data (the files that both trees have);
- every run of ReFrame that a test of tests/programs makes on a throw-away site (tests/programs/
  bench.py). Two runs are the same if site, programs and command line are equal. The result, the
  verdict and the problems of each case must then be equal; the values of metrics too, if the
  programs only replay recorded runs. BENCH TESTs restrict the tests, as words for pytest;
- the job script of every case of every site, from dry runs.

It prints every difference. Exit code 1 if there is one: each is either intended, and belongs into
the commit message, or a fault of the change.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

#: Folder into which the plugin below writes what it observed.
OBSERVED = "ASSAY_OBSERVED"

SCONTROL = (
    '#!/bin/sh\necho "slurm_load_node error: Unable to contact slurm controller" >&2\nexit 1\n'
)

#: Parts of a text that differ from run to run.
_VOLATILE = (
    (re.compile(r"/[\w./-]*/(pytest-of-\w+|assay-compare)[\w./-]*?/(?=\w+$|\w+[ :,;)'\"])"), "…/"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "HASH"),
    (re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?"), "N"),
)


def pytest_configure(config: Any) -> None:
    """As a plugin of pytest: records every run of ReFrame on a throw-away site."""
    folder = Path(os.environ[OBSERVED])
    import bench  # on pytest's path only

    run = bench.run_reframe

    def recording(site: Path, results: Path, *arguments: str, **variables: str) -> Any:
        inputs = _inputs(site.parents[2], arguments, variables)
        done = run(site, results, *arguments, **variables)
        if inputs is not None:
            digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]
            exact = any("recorded" in name for name in inputs["files"])
            name = os.environ.get("PYTEST_CURRENT_TEST", "?").split("::")[-1].split(" ")[0]
            said = {"test": name, "code": done.returncode, "cases": _cases(done, exact)}
            (folder / f"{digest}.json").write_text(json.dumps(said, sort_keys=True))
        return done

    bench.run_reframe = recording


def _inputs(bench: Path, arguments: Any, variables: Any) -> dict[str, Any] | None:
    """All that decides about a run on a throw-away site, without the folder of the site."""
    if not (bench / "site-config/bench/site.json").is_file():
        return None
    files = {}
    for path in sorted(bench.rglob("*")):
        name = str(path.relative_to(bench))
        if path.is_file() and not path.is_symlink() and not name.startswith("results/"):
            files[name] = path.read_text(errors="replace").replace(str(bench), "BENCH")
    clean = [str(word).replace(str(bench), "BENCH") for word in arguments]
    return {"files": files, "arguments": clean, "variables": dict(variables)}


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


def parsed(tree: Path, files: list[str]) -> dict[str, str]:
    """File -> what `assay parse` prints for it."""
    words = [str(tree / ".venv/bin/assay"), "parse"]
    done = subprocess.run([*words, *files], cwd=tree, capture_output=True, text=True, check=False)
    return {json.loads(line)["file"]: line for line in done.stdout.splitlines()}


def runs(tree: Path, folder: Path, tests: list[str]) -> dict[str, Any]:
    """Digest of the inputs -> test, exit code and cases of a run of ReFrame."""
    folder.mkdir()
    environment = {**os.environ, OBSERVED: str(folder), "PYTHONPATH": str(ROOT / "tests")}
    words = [str(tree / ".venv/bin/python"), "-m", "pytest", "-q", "-p", "compare_trees", "-n", "2"]
    log = folder.with_suffix(".log")
    with log.open("w") as output:
        subprocess.run(
            [*words, *(tests or ["tests/programs"])],
            cwd=tree,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    print(log.read_text().strip().splitlines()[-1], flush=True)
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def scripts(tree: Path, folder: Path) -> dict[str, str]:
    """Site, partition, stack and case -> job script, without hashes and folders."""
    folder.mkdir()
    (folder / "bin").mkdir()
    (folder / "bin/scontrol").write_text(SCONTROL)
    (folder / "bin/scontrol").chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "RFM_"))}
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    found = {}
    for site in sorted(path.parent.name for path in tree.glob("site-config/*/reframe.py")):
        results = folder / site
        words = [str(tree / ".venv/bin/reframe"), "-C", f"site-config/{site}/reframe.py"]
        subprocess.run(
            [*words, "-c", "reframe", "-R", "--dry-run", f"--system={site}"],
            cwd=tree,
            env={**environment, "ASSAY_RESULTS": str(results), "HOME": str(folder)},
            capture_output=True,
            check=False,
        )
        for path in results.glob("stage/**/rfm_job.sh"):
            where = path.parent.relative_to(results / "stage")
            text = path.read_text().replace(str(results), "RESULTS").replace(str(tree), "TREE")
            found[re.sub(r"_[0-9a-f]{8}$", "", str(where))] = re.sub(r"_[0-9a-f]{8}\b", "", text)
    return found


def differences(kind: str, before: dict[str, Any], after: dict[str, Any]) -> int:
    """Prints the differences of one kind of observation; returns their number."""
    both = before.keys() & after.keys()
    print(f"{kind}: {len(both)} compared, {len(before) - len(both)} only before, "
          f"{len(after) - len(both)} only after", flush=True)  # fmt: skip
    different = sorted(key for key in both if before[key] != after[key])
    for key in different:
        old, new = (
            text if isinstance(text, str) else json.dumps(text, indent=1, sort_keys=True)
            for text in (before[key], after[key])
        )
        print(f"--- {kind}: {key}")
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
        print(*(line for line in lines if not line.startswith(("---", "+++", "@@"))), sep="\n")
    return len(different)


def main(revision: str, tests: list[str]) -> int:
    """Observe both trees and print how they differ."""
    with tempfile.TemporaryDirectory(prefix="assay-compare") as temporary:
        work = Path(temporary)
        trees = {"before": work / "before", "after": ROOT}
        add = ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(trees["before"])]
        subprocess.run([*add, revision], check=True)
        try:
            subprocess.run(["ci/setup-venv.sh", "dev"], cwd=trees["before"], check=True)
            listed = subprocess.run(
                ["git", "-C", str(trees["before"]), "ls-files", "tests/data"],
                capture_output=True, text=True, check=True,
            ).stdout.splitlines()  # fmt: skip
            files = [name for name in listed if (ROOT / name).is_file()]
            found = {}
            for name, tree in trees.items():
                print(f"== observing the tree {name}", flush=True)
                found[name] = (
                    parsed(tree, files),
                    runs(tree, work / f"runs-{name}", tests),
                    scripts(tree, work / f"scripts-{name}"),
                )
        finally:
            remove = ["git", "-C", str(ROOT), "worktree", "remove", "--force"]
            subprocess.run([*remove, str(trees["before"])], check=False)
        kinds = ("outputs", "runs", "job scripts")
        return 1 if sum(
            differences(kind, before, after)
            for kind, before, after in zip(kinds, found["before"], found["after"])
        ) else 0  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
