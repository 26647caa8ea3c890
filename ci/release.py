#!/usr/bin/env python3
"""Make the files of a release, of the commit that is checked out: `make release`.

    ci/release.py [FILE...]     FILEs: what other commands made, such as build/assay.sif

Below build/release/: the wheel, the source archive, the documents as pages, a list of all that the
suite pins (SBOM, CycloneDX 1.6), the files that are named, and SHA256SUMS. The same commit gives
the same bytes: all is made of ``git archive``, and each time in it is that of the commit.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "ci"))
from program_sources import write_archive  # noqa: E402 - beside this script

#: Name and version of a line of a lock of Python, and of the head of a pin of ci/programs.ini.
_PYTHON = re.compile(r"(?m)^([A-Za-z0-9._-]+)==([^ ;\\]+)")

Component = dict[str, Any]


def say(text: str) -> None:
    print(f"release: {text}", flush=True)


def of_python(lock: str) -> Iterator[Component]:
    """The packages of a lock of Python, from its text."""
    for name, version in _PYTHON.findall(lock):
        yield {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
        }


def of_programs(pins: str) -> Iterator[Component]:
    """The programs that `make programs` compiles, from the text of ci/programs.ini."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(pins)
    for section in parser.sections():
        name, version = section.split()
        pin = parser[section]
        yield {
            "type": "application",
            "bom-ref": f"program:{name}@{version}",
            "name": name,
            "version": version,
            "hashes": [{"alg": "SHA-256", "content": pin["sha256"]}] if "sha256" in pin else [],
            "externalReferences": [
                {"type": "source-distribution", "url": url} for url in pin.get("urls", "").split()
            ],
        }


def of_spack(lock: str, where: str) -> Iterator[Component]:
    """What a lock of Spack installs, from its text; packages of the system are marked."""
    for digest, spec in sorted(json.loads(lock)["concrete_specs"].items()):
        properties = {
            "spack:lock": where,
            "spack:hash": digest,
            "spack:namespace": spec["namespace"],
        }
        if "external" in spec:
            properties["spack:external"] = "true"
        yield {
            "type": "library",
            "bom-ref": f"spack:{where}#{digest}",
            "name": spec["name"],
            "version": spec["version"],
            "properties": [{"name": key, "value": value} for key, value in properties.items()],
        }


def bom(name: str, version: str, date: int, components: Iterable[Component]) -> dict[str, Any]:
    """A list of parts in the form of CycloneDX 1.6.

    :param date: of the commit, seconds since 1970.
    """
    own = f"pkg:pypi/{name}@{version}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date)),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"expression": "Apache-2.0 OR MIT"}],
            },
        },
        "components": list({each["bom-ref"]: each for each in components}.values()),
    }


def parts(tree: Path) -> Iterator[Component]:
    """All that a tree pins."""
    for lock in sorted(tree.glob("requirements/*.lock")):
        yield from of_python(lock.read_text())
    yield from of_programs((tree / "ci/programs.ini").read_text())
    for what, pin in yaml.safe_load((tree / "spack-repo/pins.yaml").read_text()).items():
        version = pin["version"]
        yield {
            "type": "application",
            "bom-ref": f"spack:{what}@{version}",
            "name": "spack" if what == "spack" else f"spack-{what}",
            "version": version,
            "externalReferences": [{"type": "vcs", "url": pin["git"], "comment": pin["commit"]}],
        }
    for path in sorted(tree.rglob("spack.lock")):
        yield from of_spack(path.read_text(), str(path.relative_to(tree)))


def git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(files: list[str]) -> int:
    missing = [name for name in files if not Path(name).is_file()]
    if missing:
        say(f"{missing[0]} does not exist")
        return 2
    changed = git("status", "--porcelain")
    if changed:
        say(f"commit first, or stash: {changed.splitlines()[0]}")
        return 2
    date, commit = int(git("log", "-1", "--format=%ct")), git("rev-parse", "HEAD")
    project = (ROOT / "pyproject.toml").read_text()
    name, version = (
        re.search(rf'(?m)^{key} = "(.*)"', project)[1]  # type: ignore[index]
        for key in ("name", "version")
    )
    called = f"{name}-{version}"
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="assay-release-") as folder:
        tree, made = Path(folder, called), Path(folder, "release")
        made.mkdir()
        say(f"{called}: the sources of {commit[:12]}")
        tar = Path(folder, "source.tar")
        git("archive", f"--prefix={called}/", "--output", str(tar), commit)
        subprocess.run(["tar", "-C", folder, "-xf", str(tar)], check=True)
        write_archive(tree, made / f"{called}.tar.gz", date)
        env = {
            **os.environ,
            "SOURCE_DATE_EPOCH": str(date),
            "PYTHONPATH": str(tree / "src"),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }

        def python(*words: str) -> None:
            subprocess.run([sys.executable, "-m", *words], cwd=tree, env=env, check=True)

        say("the documents")
        pages = Path(folder, f"{called}-docs")
        sphinx = ("--quiet", "--fail-on-warning", "--doctree-dir", f"{folder}/doctrees")
        python("sphinx", *sphinx, "docs", str(pages))
        (pages / ".buildinfo").unlink(missing_ok=True)
        write_archive(pages, made / f"{called}-docs.tar.gz", date)
        say("the wheel")
        quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
        python("pip", "wheel", *quiet, "--wheel-dir", str(made), ".")
        say("what it pins")
        listed = json.dumps(bom(name, version, date, parts(tree)), indent=1) + "\n"
        (made / f"{called}.cdx.json").write_text(listed)
        for path in files:
            shutil.copy(path, made)
        sums = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            for path in sorted(made.iterdir())
        ]
        (made / "SHA256SUMS").write_text("".join(sums))
        target = ROOT / "build/release"
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(exist_ok=True)
        shutil.move(made, target)
    print("".join(sums), end="")
    if not files:
        say(
            "without an image or a kit of Spack: make image, ci/spack-offline-kit.sh; "
            "then make release RELEASE_ARGS='build/assay.sif …'"
        )
    say(f"{target.relative_to(ROOT)}/SHA256SUMS")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
