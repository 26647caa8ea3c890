"""Keeps a session of the emulated cluster as test data: tests/data/faults/NAME.

`python lab/tests/clusters/keep_session.py NAME results/vcluster/output/TIME` keeps the run report,
the plan, the lines of the log about skipped cases, and the record of each case. It leaves out
verbatim outputs, the traces of errors, and what the census found on each node, which names the
mounts of the host. Paths are rewritten to /srv/assay.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from checkout import ROOT

from assay.store import run_folder

DATA = ROOT / "tests/data/faults"

#: What the report reads of a case of a run report.
CASE = (
    *("display_name", "unique_name", "hashcode", "system", "partition", "environ", "fixture"),
    *("result", "fail_phase", "fail_reason", "outputdir", "stagedir", "kind", "transport"),
)
SESSION = (
    *("cmdline", "hostname", "prefix_output", "prefix_stage", "time_elapsed", "time_start"),
    *("time_start_unix", "uuid", "version", "log_files"),
)

#: Parts of a record and of a provenance that describe the host and not the cluster.
LEFT_OUT = ("nodes_found", "mounts", "variables", "programs", "python", "hung")


def trimmed(text: str, results: Path) -> str:
    """A text without paths of this machine."""
    text = text.replace(str(results), "/srv/assay/results")
    text = text.replace(str(results.parents[1]), "/srv/assay")  # results/vcluster of a checkout
    return re.sub(r"/[\w./-]*/\.venv/", "/srv/assay/.venv/", text)


def without(tree: object) -> object:
    """JSON without the keys that are left out, at any depth."""
    if isinstance(tree, dict):
        return {key: without(value) for key, value in tree.items() if key not in LEFT_OUT}
    return [without(value) for value in tree] if isinstance(tree, list) else tree


def keep(name: str, session: Path) -> Path:
    """Writes the folder; returns it."""
    results, target = session.resolve().parents[1], DATA / name
    report = run_folder.run_report(session.resolve())
    if report is None:
        sys.exit(f"{session}: no run report of this session in {results / 'reports'}")
    read = json.loads(report.read_text())
    root = Path(read["session_info"]["prefix_output"]).parents[1]
    runs = [
        {"testcases": [{key: case.get(key) for key in CASE} for case in run["testcases"]]}
        for run in read["runs"]
    ]
    info = {key: read["session_info"].get(key) for key in SESSION}
    files = {Path("reports/run-report-0.json"): json.dumps({"session_info": info, "runs": runs})}
    place = Path("output", session.name)
    files[place / run_folder.PLAN] = (session / run_folder.PLAN).read_text()
    log = (session / run_folder.LOG).read_text().splitlines(keepends=True)
    files[place / run_folder.LOG] = "".join(
        line for line in log if re.search(r"\[ *SKIP *\]", line)
    )
    for kind in ("output", "stage"):
        for path in (results / kind / session.name).rglob("assay.json"):
            record = without(json.loads(path.read_text()))
            files[path.relative_to(results)] = json.dumps(record, indent=1) + "\n"
    for path, text in files.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(trimmed(text, root))
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("session", type=Path)
    options = parser.parse_args()
    print(keep(options.name, options.session))
