"""ci/image-base.sh: what base and runtime of the CUDA image hold, and what a failure leaves."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import shell
from shell import ROOT, program

TOOLS = """
    basename bash cat chmod cut dirname env grep mkdir mktemp mv rm sed sh sha256sum tail tar touch
    tr
"""
#: Makes a toolkit with a compiler, a library and a stub, at the place that it is told.
PREFIX = 'mkdir -p "$2/bin" "$2/lib64/stubs"; touch "$2/bin/nvcc" "$2/lib64/libcudart.so.12" \
"$2/lib64/libcudadevrt.a" "$2/lib64/stubs/libcuda.so"'
#: Notes the packages, runs the hook on an empty root, and packs that root.
DEBSTRAP = """\
root=$(mktemp -d)
for word; do
    case $word in
    --include=*) packages=${word#*=} ;;
    --customize-hook=*) sh -ec "${word#*=}" hook "$root" || exit 1 ;;
    *layer.tar) target=$word ;;
    esac
done
echo "$packages" >"$root/packages"
tar -C "$root" -cf "$target" .
rm -r "$root"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script in a directory with a blank in its name, beside what it reads and calls."""
    copy = tmp_path / "a checkout"
    for each in ("ci/image-base.sh", "site-config/debian12-cuda", "site-config/common"):
        (copy / each).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / each).is_dir() else shutil.copy)(ROOT / each, copy / each)
    program(copy / "ci", "debian-archive.sh", "echo deb http://127.0.0.1:9 bookworm main")
    program(copy / ".venv/bin", "python", PREFIX)
    shell.tools(tmp_path / "bin", TOOLS)
    program(tmp_path / "bin", "mmdebstrap", DEBSTRAP)
    return copy


def make(checkout: Path) -> subprocess.CompletedProcess[str]:
    bare = checkout.parent / "bin"
    return shell.run("bash", checkout / "ci/image-base.sh", "out", path=bare, apart=True)


def layer(archive: Path) -> tarfile.TarFile:
    """The one layer of an archive of `docker save`, whose hash its configuration must name."""
    with tarfile.open(archive) as opened:

        def content(name: str) -> bytes:
            return opened.extractfile(name).read()  # type: ignore[union-attr]

        (image,) = json.loads(content("manifest.json"))
        (name,) = image["Layers"]
        (said,) = json.loads(content(image["Config"]))["rootfs"]["diff_ids"]
        assert said == f"sha256:{hashlib.sha256(content(name)).hexdigest()}"
        return tarfile.open(fileobj=io.BytesIO(content(name)))


def held(archive: Path) -> tuple[set[str], set[str]]:
    """Packages of the root file system of an archive, and its files of CUDA."""
    with layer(archive) as opened:
        packages = opened.extractfile("./packages").read().decode()  # type: ignore[union-attr]
        files = {Path(each.name) for each in opened if each.isfile()}
        cuda = Path("usr/local/cuda-12.4")
        below = {str(each.relative_to(cuda)) for each in files if cuda in each.parents}
    return set(packages.strip().split(",")), below


def test_the_base_compiles_and_the_runtime_only_runs(checkout: Path) -> None:
    done = make(checkout)
    assert done.returncode == 0, done.stderr
    packages, cuda = held(checkout / "out/base.tar")
    assert {"gcc", "gfortran", "autoconf-archive", "slurm-client", "libxml2-dev"} <= packages
    assert "libboost-program-options-dev" in packages  # on the last line of the comment
    assert cuda == {
        "bin/nvcc",
        "lib64/libcudart.so.12",
        "lib64/libcudadevrt.a",
        "lib64/stubs/libcuda.so",
    }
    packages, cuda = held(checkout / "out/runtime.tar")
    assert {"libxml2", "librdmacm1", "openssh-client"} <= packages
    assert not [each for each in packages if each.endswith("-dev") or each in ("gcc", "make")]
    assert cuda == {"lib64/libcudart.so.12"}
    assert sorted(each.name for each in (checkout / "out").iterdir()) == ["base.tar", "runtime.tar"]
    assert f"IMAGE_BASE=docker-archive://{checkout}/out/base.tar" in done.stdout


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("bin/mmdebstrap", "exit 1", "image-base: no base; the lines above say why"),
        ("a checkout/.venv/bin/python", "exit 1", "image-base: no CUDA toolkit, see above"),
        ("a checkout/ci/debian-archive.sh", "exit 1", "image-base: no archive to make a base from"),
        ("bin/mmdebstrap", None, "image-base: no mmdebstrap here: apt-get install mmdebstrap"),
    ],
)
def test_what_fails_leaves_nothing_and_says_why(
    checkout: Path, name: str, body: str | None, said: str
) -> None:
    broken = checkout.parent / name
    if body is None:
        broken.unlink()
    else:
        program(broken.parent, broken.name, body)
    done = make(checkout)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, said)
    out = checkout / "out"
    assert not out.exists() or not list(out.iterdir())


def test_a_list_that_names_no_packages_is_an_error(checkout: Path) -> None:
    own = checkout / "site-config/debian12-cuda/spack/packages.yaml"
    own.write_text(own.read_text().replace("run time:", "at the run:"))
    done = make(checkout)
    assert done.returncode == 1
    assert "no line 'run time:'" in done.stderr
