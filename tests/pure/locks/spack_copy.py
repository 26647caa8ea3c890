"""A copy of the real Spack locks, manifests and recipes, to which a test adds one fault.

The hashes reveal any fault that an edit leaves in them. To test another rule, the test gives the
edited lock new hashes and a new seal, as an attacker would.
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

from assay.cli import main
from assay.locks import command, manifest, seal
from assay.locks.lockfile import Lock

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENTS = command.environments(ROOT)
#: The environment at the top level, which has GPUs, and one without GPUs.
REFERENCE = next(site for site, each in ENVIRONMENTS.items() if each.folder == Path())
HOST = next(
    site
    for site, each in ENVIRONMENTS.items()
    if (path := each.file("spack.lock")[0]).exists() and not Lock.load(path, site).named("cuda")
)

Document = dict[str, Any]


class Copy:
    """A copy of the files that ``assay lock`` reads, to be damaged."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        self.root = root
        self._capsys = capsys
        for site in {folder.parent for folder in ROOT.glob("site-config/*/spack*")}:
            for folder in site.glob("spack*"):
                shutil.copytree(
                    folder,
                    root / folder.relative_to(ROOT),
                    ignore=shutil.ignore_patterns(".spack-env", "__pycache__"),
                )
        shutil.copytree(
            ROOT / "spack-repo", root / "spack-repo", ignore=shutil.ignore_patterns("__pycache__")
        )
        for file in ROOT.glob("spack.*"):
            shutil.copy(file, root)

    def path(self, name: str, site: str = REFERENCE) -> Path:
        return self.root / ENVIRONMENTS[site].folder / name

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        """Exit code and lines of stderr of ``assay lock``."""
        assert self._capsys is not None
        self._capsys.readouterr()
        code = main(["lock", *arguments, "--root", str(self.root)])
        return code, self._capsys.readouterr().err.splitlines()

    def faults(self, site: str = REFERENCE) -> list[str]:
        """Fault lines about one site, without their common beginning. There is at least one."""
        code, lines = self.run("check", "--site", site)
        assert code == 1
        assert lines
        assert all(line.startswith("assay lock: ") for line in lines)
        return [line[len("assay lock: ") :] for line in lines]

    def lock(self, site: str = REFERENCE) -> Document:
        return json.loads(self.path("spack.lock", site).read_text())

    def relock(self, document: Document, site: str = REFERENCE) -> None:
        """Writes a lock and a matching seal. Everything else stays as it is."""
        self.path("spack.lock", site).write_text(json.dumps(document))
        files = manifest.Manifest(self.root, self.path("spack.yaml", site)).files
        pins = seal.load_pins(self.root / "spack-repo/pins.yaml", "pins")
        sealed = seal.of(self.root, site, self.path("spack.lock", site), files, pins)
        self.path("spack.lock.seal.yaml", site).write_text(yaml.safe_dump(sealed))

    def edit(self, name: str, old: str, new: str) -> None:
        """Replaces a text in a file of the copy. The text must exist."""
        path = self.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def set(self, package: str, key: str, value: Any, site: str = REFERENCE) -> None:
        """Changes a setting of the site for a package. `key` may belong to its first external."""
        path = self.root / f"site-config/{site}/spack/packages.yaml"
        document = yaml.safe_load(path.read_text())
        holder = document["packages"].setdefault(package, {})
        if key in ("spec", "prefix", "modules", "extra_attributes"):
            holder = holder["externals"][0]
        holder[key] = value
        path.write_text(yaml.safe_dump(document, sort_keys=False))


def node_of(document: Document, name: str) -> Document:
    return next(node for node in document["concrete_specs"].values() if node["name"] == name)


def ordinary(document: Document, copy: Copy) -> Document:
    """A node that is built, has dependencies and a switch, and appears in no manifest."""
    spoken = manifest.Manifest(copy.root, copy.path("spack.yaml")).packages()
    roots = {root["hash"] for root in document["roots"]}
    return next(
        node
        for key, node in document["concrete_specs"].items()
        if key not in roots
        and node["name"] not in spoken
        and "external" not in node
        and node.get("dependencies")
        and any(isinstance(value, bool) for value in node["parameters"].values())
    )


def rehash(document: Document) -> None:
    """Gives each node, and each mention of it, the hash of its content. Dependencies come first.

    This is for locks of Spack 1.1.0, which leaves the namespace of an external out.
    """
    assert document["spack"]["version"] == "1.1.0"
    old, new = document["concrete_specs"], {}

    def settle(key: str) -> str:
        if key not in new:
            node = old[key]
            for edge in node.get("dependencies", []):
                edge["hash"] = settle(edge["hash"])
            left_out = ("hash", "namespace") if "external" in node else ("hash",)
            content = {name: value for name, value in node.items() if name not in left_out}
            text = json.dumps(content, separators=(",", ":"))
            node["hash"] = base64.b32encode(hashlib.sha1(text.encode()).digest()).decode().lower()
            new[key] = node["hash"]
        return new[key]

    for root in document["roots"]:
        root["hash"] = settle(root["hash"])
    # Nodes that no root needs any more are removed, as Spack does when it solves.
    document["concrete_specs"] = {new[key]: node for key, node in old.items() if key in new}
