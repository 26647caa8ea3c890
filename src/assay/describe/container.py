"""The stack ``container``: its programs come from an image of Apptainer.

Tests start programs by name, from PATH. The stack of an image is therefore a directory of wrappers,
one for each program of the image, which launchers and scripts start without any knowledge of it.
Wrappers pass the environment on, because ranks find their MPI world through it. They therefore use
neither ``--cleanenv`` nor ``--contain``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ConfigError

from assay import files, sites
from assay.catalogue import PROGRAMS, VERSIONS
from assay.describe import ask, detect, written
from assay.gpu.accelerator import ACCELERATORS
from assay.node import IN_IMAGE

#: Labels of an image. One of them holds the hash of the lock that its software was installed from.
LOCK_LABELS = ("assay.lock.spack", "assay.lock.requirements")

#: Python and the Python ports of the OSU tests, in an image that contains the suite.
_PORTS = ("/opt/assay/.venv/bin/python", "/opt/assay/.cache/osu-py/osu_latency.py")

#: Names of further programs that get a wrapper, beside the names that programs are detected by.
_FAMILIES = re.compile("|".join(p.family for p in PROGRAMS.values() if p.family))

#: Shows whether the OSU programs were built for GPUs: the stack then has ``osu-cuda``, say.
_LINKED = ("sh", "-c", 'ldd "$(command -v osu_latency)"')

#: Commands that one probe runs inside an image, after the names of all its programs.
_ASKED = (
    *(version.command for version in VERSIONS.values()),
    ("ucx_info", "-d"),
    ("readlink", "/proc/self/ns/user"),
    _LINKED,
)
_MARK = "assay: "


@dataclass(frozen=True)
class Image:
    """An image and what it contains.

    :ivar lock: label and hash of the lock, empty if the image names none.
    :ivar said: output of the commands that ran inside the image, by the words of each command.
    :ivar verified: what showed that it is the image that is meant; "" for nothing.
    :ivar foreign: whether its lock is none of this checkout.
    """

    path: Path
    apptainer: str
    sha256: str
    lock: str
    programs: frozenset[str]
    said: dict[tuple[str, ...], str] = field(repr=False)
    verified: str = ""
    foreign: bool = False

    @property
    def apart(self) -> bool:
        """Whether each of its containers has its own user namespace, as seen on this machine."""
        inside = self.said.get(("readlink", "/proc/self/ns/user"), "").strip()
        return bool(inside) and inside != str(Path("/proc/self/ns/user").readlink())

    @property
    def provenance(self) -> str:
        """Name and hash of the image, the lock of its software, and what verified the image."""
        lock = self.lock or "which names no lock"
        if self.foreign:
            lock += " (no lock of this checkout)"
        verified_by = f"verified by {self.verified}" if self.verified else "unverified"
        return f"image {self.path.name} sha256 {self.sha256}, {lock}; {verified_by}"


def apptainer(repository: Path) -> str:
    """Path of Apptainer: on PATH, or as installed by the repository's ``ci/apptainer.sh``."""
    if found := shutil.which("apptainer"):
        return found
    script = repository / "ci/apptainer.sh"
    if not script.exists():
        raise ConfigError("apptainer is not on PATH; an image cannot be run without")
    done = _run([str(script), "--no-build"])
    if done.returncode:
        raise ConfigError(ask.last_line(done.stderr) or f"{script} failed")
    return done.stdout.strip()


def look(path: str | Path, repository: Path) -> Image:
    """Verifies an image, starts it once, and reads what it contains.

    :raises ConfigError: there is no Apptainer, there is no such file, the file is not an image
        that starts on this machine, or as :func:`_verified`.
    """
    path = Path(path).absolute()
    program = apptainer(repository)
    try:
        digest = _sha256(path)
    except OSError as error:
        raise ConfigError(f"image {path}: {error.strerror}; correct ASSAY_IMAGE") from None
    held = _verified(path, digest, program)
    inspected = _run([program, "inspect", "--json", "--labels", str(path)])
    try:
        labels = json.loads(inspected.stdout)["data"]["attributes"]["labels"] or {}
    except (ValueError, LookupError, TypeError):
        raise ConfigError(
            f"image {path}: is not an image of Apptainer ({ask.last_line(inspected.stderr)}); "
            "correct ASSAY_IMAGE"
        ) from None
    probe = written.template(
        "probe.jinja", ports=shlex.join(_PORTS), asked=map(shlex.join, _ASKED), mark=_MARK
    )
    probed = _run([program, "exec", str(path), "sh", "-c", probe])
    if probed.returncode:
        raise ConfigError(f"image {path}: cannot be started: {ask.last_line(probed.stderr)}")
    names, *answers = re.split(rf"^{_MARK}(.*)\n", probed.stdout, flags=re.MULTILINE)
    said = {tuple(shlex.split(a)): b for a, b in zip(answers[::2], answers[1::2])}
    lock = next((f"{name} {labels[name]}" for name in LOCK_LABELS if name in labels), "")
    foreign = _of_another_lock(lock, repository)
    return Image(path, program, digest, lock, frozenset(names.splitlines()), said, held, foreign)


def _verified(path: Path, sha256: str, apptainer: str) -> str:
    """What verified an image: a digest beside it, a key (docs/containers.md), or nothing.

    :raises ConfigError: one that is there does not hold or cannot be read.
    """
    held = []
    beside = path.with_name(path.name + ".sha256")
    if beside.exists():
        try:
            wanted = beside.read_text(encoding="utf-8", errors="replace").partition(" ")[0]
        except OSError as error:
            raise ConfigError(f"{beside}: {error.strerror}; make it readable") from None
        wanted = wanted.strip().lower()
        if not re.fullmatch("[0-9a-f]{64}", wanted):
            raise ConfigError(
                f"image {path}: the digest in {beside.name} is {wanted[:70]!r}; write 64 "
                f"hexadecimal digits: sha256sum {path.name} > {beside.name}"
            )
        if wanted != sha256:
            raise ConfigError(
                f"image {path}: its sha256 is {sha256}, {beside.name} says {wanted}: "
                "it is damaged or another image; copy it again, or correct the digest"
            )
        held.append(beside.name)
    if key := os.environ.get("ASSAY_IMAGE_KEY", ""):
        if not Path(key).is_file():
            raise ConfigError(f"ASSAY_IMAGE_KEY: {key} is no file; name a public key (PEM)")
        done = _run([apptainer, "verify", "--key", key, str(path)])
        if done.returncode:
            said = ask.last_line(done.stderr) or "apptainer verify failed"
            raise ConfigError(
                f"image {path}: is not what the owner of {key} signed ({said}); get the image again"
            )
        held.append(f"the signature of {Path(key).name}")
    return " and ".join(held)


def _of_another_lock(lock: str, repository: Path) -> bool:
    """Whether no lock of the checkout has the hash that the label of an image states.

    :param lock: name and hash of the label; "" where the image has none.
    """
    name, _, stated = lock.partition(" ")
    if not stated:
        return False
    locks = [repository / "requirements/run.lock"]
    if name.endswith(".spack"):
        of_sites = repository.glob("site-config/*/spack/env/spack.lock")
        locks = [repository / "spack.lock", *of_sites]
    there = [_sha256(lock) for lock in locks if lock.is_file()]
    return bool(there) and stated not in there


def container_stack(site_file: str | Path, image: Image) -> dict[str, Any]:
    """The environment ``container``; writes its wrappers below the results."""
    there = image.programs.__contains__
    features, extras = detect.describe_programs(there, lambda *words: image.said.get(words, ""))
    linked = image.said.get(_LINKED, "")
    built = [word for word, gpu in ACCELERATORS.items() if gpu.library in linked]
    if "osu" in features and built:
        features[features.index("osu")] = f"osu-{built[0]}"
    folder = sites.results_directory(site_file) / "images" / image.sha256[:16]
    _write_wrappers(folder, image)
    if image.programs.issuperset(_PORTS):
        features.append("osu-py")
        python, port = _PORTS
        command = port.replace("latency", "{benchmark}")
        extras["osu_py_command"] = f"{IN_IMAGE} {python} {command}"
    extras.update(image=str(image.path), provenance=image.provenance)
    variables = {"PATH": f"{shlex.quote(str(folder))}:$PATH", **_of_root()}
    if image.apart:
        extras["user_namespaces"] = True
        # By default, ranks open each other's shared memory through a link in /proc. This fails if
        # each rank has its own user namespace (UCX 1.13.1: "open(file_name=/proc/...) failed").
        # Without the link, UCX takes posix as unreachable in a PID namespace that is not the
        # default one (mm_posix.c, is_reachable).
        variables["UCX_POSIX_USE_PROC_LINK"] = "n"
        # Open MPI 4.1.4 notices that CMA does not work, but PTRANS of HPCC still hangs over its
        # shared memory. It does not hang if CMA is disabled beforehand.
        variables["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
    return {
        "name": "container",
        "features": ["container", *features],
        "extras": extras,
        "env_vars": [[name, value] for name, value in variables.items()],
    }


def _of_root() -> dict[str, str]:
    """Makes Apptainer drop ``CAP_SYS_RESOURCE`` (24), which root of many sandboxes cannot have."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    bounding = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
    if os.geteuid() or bounding is None or int(bounding[1], 16) >> 24 & 1:
        return {}
    return {"APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE"}


def _write_wrappers(folder: Path, image: Image) -> None:
    words = {
        "apptainer": shlex.quote(image.apptainer),
        "image": shlex.quote(str(image.path)),
        "gpus": [*ACCELERATORS.values()],
    }
    known = {name for p in PROGRAMS.values() if p.detected for name in p.executables}
    known.update(name for name in image.programs if _FAMILIES.fullmatch(name))
    # The host's launcher is used.
    there = (known - {*PROGRAMS["mpi"].executables}) & image.programs
    wanted = {name: f"{name} " for name in sorted(there)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, program in {**wanted, IN_IMAGE: ""}.items():
            text = written.template("wrapper.jinja", program=program, **words)
            file = folder / name
            if os.access(file, os.X_OK) and file.read_text(encoding="utf-8") == text:
                continue  # running jobs may have it open
            files.write_file(file, text)
            file.chmod(0o755)
    except OSError as error:
        raise ConfigError(f"{folder}: wrappers cannot be written ({error.strerror})") from None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # Without FUSE, Apptainer first unpacks the whole image.
    return ask.run(command, 300, {**os.environ, **_of_root()})
