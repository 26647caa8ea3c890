"""The image with the real Apptainer: faults must fail, and a visitor gets a report.

Needs Apptainer (ci/apptainer.sh). Most tests also need the image (make image). Skips without them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import images
import pytest
from images import ROOT, run
from reframe.core.exceptions import ConfigError

from assay.describe import container

pytestmark = [pytest.mark.slow, pytest.mark.image]


@pytest.fixture(scope="module")
def program() -> Path:
    return images.apptainer()


@pytest.fixture(scope="module")
def image(program: Path) -> Path:
    return images.image()


def apptainer(
    *arguments: object, cwd: Path = ROOT, **variables: object
) -> subprocess.CompletedProcess[str]:
    """Runs Apptainer as the scripts do, with their settings for a root that lacks a capability."""
    script = f'cd "{ROOT}" && . ci/image-env.sh && cd "$OLDPWD" && apptainer "$@"'
    return run("bash", "-euc", script, "image", *arguments, cwd=cwd, **variables)


# --- the parser of Apptainer, as a linter --------------------------------------------------------

SITE = ROOT / "site-config/any/reframe.py"

DEFINITION = "Bootstrap: docker\nFrom: {{ base }}\n\n%test\n  set -eu\n  true\n\n%help\n  Help.\n\n"
DEFINITION += "%labels\n  title sound\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sound", "sound", None),
        ("%labels", "%lables", "invalid section(s) specified: lables"),
        ("From:", "Form:", "invalid header keyword found: form"),
        ("docker", "dokcer", "invalid build source dokcer"),
        ("%help", "%environment\n  x={{ version }}\n\n%help", "build var version is not defined"),
    ],
)
def test_what_apptainer_cannot_read_is_an_objection(
    program: Path, tmp_path: Path, old: str, new: str, said: str | None
) -> None:
    file = tmp_path / "image.def"
    file.write_text(DEFINITION.replace(old, new, 1))
    done = lint(file)
    if said is None:
        assert done.returncode == 0, done.stdout
    else:
        assert done.returncode == 1
        assert f"{file}:1: apptainer: " in done.stdout
        assert said in done.stdout


def lint(*files: Path) -> subprocess.CompletedProcess[str]:
    """Runs the lint. If the user is root, it has no network at all."""
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return run(*alone, sys.executable, ROOT / "ci/image-lint.py", *files, PATH=path)


def test_definitions_of_this_repository_are_read_by_apptainer(program: Path) -> None:
    done = lint()
    assert done.returncode == 0, done.stdout
    assert "without Apptainer" not in done.stdout


# --- the image -----------------------------------------------------------------------------------


def test_the_image_is_the_repositorys_and_each_program_in_it_runs(image: Path) -> None:
    done = run("ci/image-test.sh", image)
    assert done.returncode == 0, done.stdout
    for app in ("hpcc", "hpl", "netpipe", "osu", "osu_c", "ucx_perftest"):
        assert f"image-test: {app} runs" in done.stdout
    assert "sound: " in done.stdout.splitlines()[-1]


def compiled(image: Path) -> set[str]:
    """The packages that were compiled for the image; skips the test without any."""
    labels = apptainer("inspect", "--json", "--labels", image).stdout
    stated = json.loads(labels)["data"]["attributes"]["labels"]["assay.programs"]
    if stated == "none":
        pytest.skip("the image was built without sources of programs")
    return set(re.findall(r"(?:^|,)([a-z-]+)-\d", stated))


#: A word of the catalogue for each package that the image may have compiled.
WORDS = {
    **{"osu-micro-benchmarks": "osu", "npb-btio": "btio", "stream": "stream"},
    **{"hpl": "hpl", "hpcg": "hpcg", "ior": "ior", "mpigraph": "mpigraph"},
}


def test_what_was_compiled_is_offered_to_nodes_outside(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    stack = container.container_stack(SITE, container.look(image, ROOT))
    packages = compiled(image)
    assert packages and {WORDS[name] for name in packages} <= {*stack["features"]}
    if "hpl" in packages:
        (wrapper,) = tmp_path.glob("images/*/xhpl")
        # Without HPL.dat it says so and ends; a missing library would end it before.
        assert "HPL.dat" in run("timeout", "60", wrapper, cwd=tmp_path).stdout


def test_an_image_with_another_lock_fails(image: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "ci", tmp_path / "ci")
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    with (tmp_path / "requirements/run.lock").open("a") as lock:
        lock.write("# another\n")
    (tmp_path / ".cache").symlink_to(ROOT / ".cache")
    done = run(tmp_path / "ci/image-test.sh", image)
    assert done.returncode == 1
    assert "label assay.lock.requirements is " in done.stdout.splitlines()[-1]
    assert "build it anew" in done.stdout.splitlines()[-1]


def test_only_what_was_signed_is_verified(image: Path, tmp_path: Path) -> None:
    keys = {}
    for who in ("owner", "other"):
        key, public = tmp_path / f"{who}.pem", tmp_path / f"{who}.pub"
        run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
        run("openssl", "pkey", "-in", key, "-pubout", "-out", public)
        keys[who] = {"IMAGE_KEY": key, "IMAGE_PUB": public}
    copy = tmp_path / "copy.sif"
    shutil.copy(image, copy)

    def sign(what: str, who: str = "owner") -> subprocess.CompletedProcess[str]:
        return run("ci/image-sign.sh", what, copy, **keys[who])

    unsigned = sign("verify")
    assert unsigned.returncode == 1
    assert "signature not found" in unsigned.stdout
    assert sign("sign").returncode == 0
    checked = run("sha256sum", "--check", "copy.sif.sha256", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    assert sign("verify").returncode == 0
    assert sign("verify", "other").returncode == 1
    with copy.open("r+b") as file:
        file.seek(image.stat().st_size // 2)  # in the middle of the programs
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    tampered = sign("verify")
    assert tampered.returncode == 1
    assert "integrity" in tampered.stdout
    assert f"{copy} is not what the owner of" in tampered.stdout.splitlines()[-1]


def test_a_missing_program_fails_the_build(image: Path, program: Path, tmp_path: Path) -> None:
    more = []
    if "hpl" in compiled(image):
        more = [("less", "rm -r /opt/assay/.cache/programs/hpl")]
    definition = (ROOT / "containers/debian.def").read_text()
    begin = definition.index("\n%test\n")
    own_test = definition[begin : definition.index("\n%", begin + 1)]
    # Any user must be able to reach this directory. The directory of pytest does not allow that.
    work = Path(run("mktemp", "-d", "/var/tmp/assay-test.XXXXXX").stdout.strip())
    try:
        (work / "tmp").mkdir()
        shutil.copytree(program.parents[1], work / "apptainer")
        shutil.copy(image, work / "base.sif")
        for name, post in (("whole", "true"), ("lacking", "rm /usr/bin/hpcc"), *more):
            text = f"Bootstrap: localimage\nFrom: base.sif\n\n%post\n  {post}\n{own_test}"
            (work / f"{name}.def").write_text(text)
        results = {
            name: run(
                *("ci/image-user.sh", work, "env", f"TMPDIR={work}/tmp"),
                *(work / "apptainer/bin/apptainer", "build", "--fakeroot", "--sandbox"),
                *(name, f"{name}.def"),
            )
            for name in ("whole", "lacking", *(name for name, _ in more))
        }
    finally:
        run("chmod", "-R", "u+rwX", work)
        shutil.rmtree(work, ignore_errors=True)
    assert results["whole"].returncode == 0, results["whole"].stdout
    assert results["lacking"].returncode != 0
    assert "missing: hpcc" in results["lacking"].stdout
    if more:
        assert results["less"].returncode != 0
        assert "missing: xhpl" in results["less"].stdout


def test_a_visitor_gets_a_report(image: Path, tmp_path: Path) -> None:
    arguments = ("run", image, "acceptance", "-n", "^NodeHealth|^StackHas.*netpipe")
    done = apptainer(*arguments, cwd=tmp_path, PROFILE="smoke", SLURM_JOB_ID="1")
    assert done.returncode == 4, done.stdout  # PARTIAL, as -n selects
    assert (tmp_path / "results/report.html").stat().st_size > 0
    records = list((tmp_path / "results/output").rglob("assay.json"))
    assert records
    health = next(path for path in records if "NodeHealth" in str(path))
    commit = json.loads((health.parent / "provenance.json").read_text())["suite"]["commit"]
    labels = apptainer("inspect", "--json", "--labels", image).stdout
    label = json.loads(labels)["data"]["attributes"]["labels"]["org.opencontainers.image.revision"]
    assert commit == label


def test_a_visitor_takes_the_tests_along(image: Path, tmp_path: Path) -> None:
    done = apptainer("run", image, "export", "suite", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert str(image) in done.stdout
    out = tmp_path / "suite"
    # A machine without Python and without a network: the programs that the site looks for at most.
    path = tmp_path / "bin"
    path.mkdir()
    for name in (each.name for each in Path("/usr/bin").iterdir()):
        if not name.startswith(("python", "pip")):
            (path / name).symlink_to(f"/usr/bin/{name}")
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    given = {"PATH": f"{path}:/usr/sbin", "ASSAY_RESULTS": tmp_path / "results"}
    done = run(*alone, "make", "setup", "SITE=mysite", cwd=out, **given)
    assert done.returncode == 0, done.stdout
    listed = run(
        *(*alone, ".venv/bin/reframe", "-C", "site-config/mysite/reframe.py"),
        *("-c", "reframe", "-R", "-l"),
        cwd=out,
        **given,
    )
    assert listed.returncode == 0, listed.stdout
    assert "- NodeHealth" in listed.stdout


@pytest.mark.parametrize("there", [False, True], ids=["missing", "no image"])
def test_an_image_that_is_none_is_one_line(program: Path, tmp_path: Path, there: bool) -> None:
    path = tmp_path / "assay.sif"
    if there:
        path.write_text("#!/bin/sh\n")
    with pytest.raises(ConfigError) as caught:
        container.look(path, ROOT)
    message = str(caught.value)
    wanted = "is not an image of Apptainer" if there else "No such file or directory"
    assert message.startswith(f"image {path}: {wanted}")
    assert message.endswith("correct ASSAY_IMAGE")
    assert "\n" not in message
