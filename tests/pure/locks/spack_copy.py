"""A copy of the real Spack locks, manifests and recipes, to which a test adds one fault.

The hashes and the seal reveal any fault that an edit leaves in them. To test another rule, the test
gives the edited lock new hashes and forges its seal, as an attacker would.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from shell import ROOT, module

checker = module("ci/spack-check.py")
digest, Lock = checker.digest, checker.Checked

ENVIRONMENTS = checker.environments(ROOT)
#: The environment at the top level, which has GPUs, and one without GPUs.
REFERENCE = next(site for site, folder in ENVIRONMENTS.items() if folder == Path())
HOST = next(
    site
    for site, folder in ENVIRONMENTS.items()
    if (path := ROOT / folder / "spack.lock").exists() and not Lock(path, site).named("cuda")
)

Document = dict[str, Any]


class Copy:
    """A copy of the files that ``spack-check.py`` reads, to be damaged."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        self.root = root
        self._capsys = capsys
        ignored = shutil.ignore_patterns(".spack-env", "__pycache__")
        for folder in (*ROOT.glob("site-config/*/spack*"), ROOT / "spack-repo"):
            shutil.copytree(folder, root / folder.relative_to(ROOT), ignore=ignored)
        for file in ROOT.glob("spack.*"):
            shutil.copy(file, root)

    def path(self, name: str, site: str = REFERENCE) -> Path:
        return self.root / ENVIRONMENTS[site] / name

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        """Exit code and lines of stderr of ``spack-check.py``."""
        assert self._capsys is not None
        self._capsys.readouterr()
        code = checker.main([*arguments, "--root", str(self.root)])
        return code, self._capsys.readouterr().err.splitlines()

    def faults(self, site: str = REFERENCE) -> list[str]:
        """Fault lines about one site, without their common beginning. There is at least one."""
        code, lines = self.run("--site", site)
        assert code == 1
        assert lines
        assert all(line.startswith("spack-check: ") for line in lines)
        return [line[len("spack-check: ") :] for line in lines]

    def lock(self, site: str = REFERENCE) -> Document:
        return json.loads(self.path("spack.lock", site).read_text())

    def seal(self, site: str = REFERENCE) -> Document:
        return yaml.safe_load(self.path("spack.lock.seal.yaml", site).read_text())

    def forge(self, site: str = REFERENCE, **changes: Any) -> None:
        """Seals the files as they are now, and changes some facts of the seal."""
        lock = self.path("spack.lock", site)
        sealed = {**self.seal(site), "lock": digest.of(lock.read_bytes()), **changes}
        folder = ENVIRONMENTS[site]
        names = digest.inputs(self.root, (folder / "spack.yaml").as_posix(), sealed["scopes"])
        sealed["files"] = {
            name: digest.of_file(self.root / name, lambda path: yaml.safe_load(path.read_text()))
            for name in [(folder / "spack.lock").as_posix(), *names]
        }
        self.path("spack.lock.seal.yaml", site).write_text(json.dumps(sealed))

    def relock(self, document: Document, site: str = REFERENCE, *, fresh: bool = True) -> None:
        """Writes a lock, with fresh hashes or its own, and forges its seal."""
        views = self.seal(site)["views"]
        if fresh:
            new = rehash(document)
            views = {name: [new[key] for key in keys if key in new] for name, keys in views.items()}
        self.path("spack.lock", site).write_text(json.dumps(document))
        self.forge(site, views=views)

    def edit(self, name: str, old: str, new: str) -> None:
        """Replaces a text in a file of the copy. The text must exist."""
        path = self.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


def node_of(document: Document, name: str) -> Document:
    return next(node for node in document["concrete_specs"].values() if node["name"] == name)


def without_edge(node: Document, name: str) -> None:
    """Removes the dependency on a package. The node must have one."""
    edges = node["dependencies"]
    node["dependencies"] = [edge for edge in edges if edge["name"] != name]
    assert node["dependencies"] != edges


def ordinary(document: Document) -> tuple[str, Document]:
    """A node that is built, is no root, and has dependencies and a switch; with its key."""
    roots = {root["hash"] for root in document["roots"]}
    return next(
        (key, node)
        for key, node in document["concrete_specs"].items()
        if key not in roots
        and "external" not in node
        and len(node.get("dependencies", ())) > 1
        and any(isinstance(value, bool) for value in node["parameters"].values())
    )


def own_hash(node: Document) -> str:
    """The hash of a node's content, as Spack 1.1.0 makes it: externals without their namespace."""
    left_out = ("hash", "namespace") if "external" in node else ("hash",)
    content = {name: value for name, value in node.items() if name not in left_out}
    text = json.dumps(content, separators=(",", ":"))
    return base64.b32encode(hashlib.sha1(text.encode()).digest()).decode().lower()


def rehash(document: Document) -> dict[str, str]:
    """Gives each node, and each mention of it, the hash of its content; old hash -> new hash.

    Nodes that no root needs any more are removed, as Spack does when it solves.
    """
    assert document["spack"]["version"] == "1.1.0"
    old, new = document["concrete_specs"], {}

    def settle(key: str) -> str:
        if key not in new:
            for edge in old[key].get("dependencies", []):
                edge["hash"] = settle(edge["hash"])
            new[key] = old[key]["hash"] = own_hash(old[key])
        return new[key]

    for root in document["roots"]:
        root["hash"] = settle(root["hash"])
    document["concrete_specs"] = {new[key]: node for key, node in old.items() if key in new}
    return new
