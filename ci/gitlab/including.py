#!/usr/bin/env python3
"""Refuse a project whose own file disarms the verdict, or includes another version of the pipeline.

    .venv/bin/python ci/gitlab/including.py

A project that includes ci/gitlab-ci.yml can change its jobs. GitLab merges both files before any
job sees them, and a verdict that may fail is green. So this reads the project's own file, and the
files of the project that it includes. It does not see what a file of another project changes.
"""

import os
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = ROOT / "ci/gitlab-ci.yml"

#: What a project may not change: the job, and the keys that could make it green or leave it out.
DISARMS = {
    "verdict": {
        "allow_failure", "rules", "only", "except", "when", "script", "before_script", "run",
        "extends", "needs", "dependencies", "trigger",
    },
    "plan": {"allow_failure", "script", "run", "extends"},
}  # fmt: skip

VERSION = re.compile(r'^  ASSAY_PIPELINE_VERSION: "(\d+)"$', re.MULTILINE)


class Loader(yaml.SafeLoader):
    """YAML with GitLab's own tags, such as !reference, whose values do not matter here."""


Loader.add_multi_constructor("!", lambda loader, suffix, node: None)


def changes(file, seen=()):
    """What the file and those that it includes change of the jobs above, one line each."""
    try:
        documents = [d for d in yaml.load_all(file.read_text(), Loader) if isinstance(d, dict)]
    except (OSError, yaml.YAMLError) as error:
        yield f"{file}: cannot be read ({str(error).splitlines()[0]})"
        return
    for document in documents:
        for job, keys in DISARMS.items():
            theirs = document.get(job)
            for key in sorted(keys & set(theirs if isinstance(theirs, dict) else ())):
                if (key, theirs[key]) != ("allow_failure", False):
                    yield f"{file}: {job}: {key}: may hide a red verdict; remove it"
        includes = document.get("include", [])
        for entry in includes if isinstance(includes, list) else [includes]:
            local = entry if isinstance(entry, str) else (entry or {}).get("local")
            if not local or ":" in local:
                continue
            if "*" in local or "$" in local:
                yield f"{file}: include: {local}: cannot be followed; name each file"
                continue
            more = project() / local.lstrip("/")
            if more.resolve() != PIPELINE and more not in seen:
                yield from changes(more, (*seen, file, more))


def project():
    """The checkout of the project that runs the pipeline."""
    return Path(os.environ.get("CI_PROJECT_DIR", ROOT))


def faults():
    """All that is wrong, one line each."""
    own = os.environ.get("CI_CONFIG_PATH") or ".gitlab-ci.yml"
    if (project() / own).is_file():
        yield from changes(project() / own)
    here = VERSION.search(PIPELINE.read_text())[1]
    runs = os.environ.get("ASSAY_PIPELINE_VERSION", here)
    if runs != here:
        yield (
            f"the pipeline is of version {runs}, the checkout's {PIPELINE.relative_to(ROOT)} is of "
            f"version {here}: include the file with ref: set to the commit of the submodule"
        )


if __name__ == "__main__":
    found = list(faults())
    for line in found:
        print(f"including: {line}", file=sys.stderr)
    sys.exit(bool(found))
