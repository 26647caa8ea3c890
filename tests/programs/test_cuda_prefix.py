"""ci/cuda-prefix.py: what it takes of wheels and of Debian's package, and what it refuses."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import shell
from shell import ROOT

cuda = shell.module("ci/cuda-prefix.py")

HEADER = """
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);
CUresult cuInit (unsigned int Flags);
typedef CUresult (*cuda_thing)(int);
"""


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("nvidia/cuda_runtime/include/cuda.h", "include/cuda.h"),
        ("nvidia/cuda_cccl/include/cuda/std/atomic", "include/cuda/std/atomic"),
        ("nvidia/cuda_runtime/lib/libcudart.so.12", "lib64/libcudart.so.12"),
        ("nvidia/cuda_nvcc/bin/ptxas", None),
        ("nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc", None),
        ("nvidia/cuda_runtime/include/__init__.py", None),
        ("nvidia/cuda_cccl/.metadata/.sizes.txt", None),
        ("nvidia/cuda_runtime/include/../../../etc/passwd", None),
        ("nvidia_cuda_runtime_cu12-12.4.127.dist-info/License.txt", None),
    ],
)
def test_headers_and_libraries_of_a_wheel_have_a_place(name: str, target: str | None) -> None:
    assert cuda.place(name) == (target and cuda.PurePosixPath(target))


def test_a_stub_has_functions_with_and_without_their_suffix() -> None:
    pattern = cuda.STUBS["libcuda.so.1"][1]
    assert cuda.functions(HEADER, pattern) == ["cuInit", "cuMemAlloc", "cuMemAlloc_v2"]
    with pytest.raises(cuda.Failed, match=r"no function for the stub of libcuda.so.1"):
        cuda.stub(Path("/nowhere"), "libcuda.so.1", [])


def test_a_stub_is_a_library_with_the_name_of_the_driver(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("needs gcc on this machine")
    (tmp_path / "lib64/stubs").mkdir(parents=True)
    cuda.stub(tmp_path, "libnvidia-ml.so.1", ["nvmlInit", "nvmlInit_v2"])
    made = tmp_path / "lib64/stubs/libnvidia-ml.so"
    said = shell.run("readelf", "--dynamic", "--dyn-syms", "--wide", made).stdout
    assert "Library soname: [libnvidia-ml.so.1]" in said
    assert len(re.findall(r" nvmlInit(?:_v2)?$", said, re.MULTILINE)) == 2


def fetched(work: Path) -> None:
    """Leaves what :func:`cuda.fetch` leaves."""
    with zipfile.ZipFile(work / "runtime.whl", "w") as wheel:
        for name in ("include/cuda.h", "include/nvml.h", "lib/libcudart.so.12"):
            wheel.writestr(f"nvidia/cuda_runtime/{name}", HEADER)


def unpacked(lost: str) -> Any:
    """Stands for dpkg-deb, gcc and ar. The Debian package lacks one file."""

    def run(*command: Any, text: str | None = None, why: str) -> str:
        if command[0] == "dpkg-deb":
            for each in cuda.PROGRAMS:
                if each != lost:
                    (command[-1] / each).parent.mkdir(parents=True, exist_ok=True)
                    (command[-1] / each).write_text(each)
        return HEADER + "nvmlReturn_t nvmlInit_v2(void);"

    return run


def test_a_toolkit_is_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cuda, "fetch", fetched)
    monkeypatch.setattr(cuda, "run", unpacked(""))
    prefix = tmp_path / "cuda-12.4"
    assert cuda.main(prefix) == 0
    for name in (*cuda.PROGRAMS.values(), "bin/nvcc.profile", "lib/libcudart_static.a"):
        assert (prefix / name).is_file(), name
    assert (prefix / "lib64/libcudart.so").readlink() == Path("libcudart.so.12")
    assert '"version": "12.4.1"' in (prefix / "version.json").read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["cuda-12.4"]
    capsys.readouterr()
    assert cuda.main(prefix) == 0
    assert capsys.readouterr().out == "", "the second time there is nothing to do"


def test_a_toolkit_of_somebody_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cuda.main(tmp_path) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "did not make it: remove it, or name another prefix" in said
    assert not list(tmp_path.iterdir())


def test_a_package_without_a_program_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cuda, "fetch", fetched)
    monkeypatch.setattr(cuda, "run", unpacked("usr/bin/nvlink"))
    assert cuda.main(tmp_path / "cuda") == 1
    assert "amd64.deb has no usr/bin/nvlink" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_command_that_fails_gives_one_line() -> None:
    with pytest.raises(cuda.Failed, match=r"^the reason: sh: two$"):
        cuda.run("sh", "-c", "echo one; echo 'sh: two' >&2; exit 3", why="the reason")
    with pytest.raises(cuda.Failed, match=r"^the reason: exit code 3$"):
        cuda.run("sh", "-c", "exit 3", why="the reason")


def test_every_source_is_pinned_by_its_hash() -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", cuda.POOL[1])
    pins = [line for line in cuda.WHEELS.read_text().splitlines() if not line.startswith("#")]
    assert pins
    for pin in pins:
        assert re.fullmatch(r"nvidia-[\w-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}", pin)


def test_the_site_takes_the_toolkit_from_where_it_is_put() -> None:
    packages = (ROOT / "site-config/debian12-cuda/spack/packages.yaml").read_text()
    assert f"prefix: {cuda.PREFIX}\n" in packages
    assert f"cuda@{cuda.VERSION}\n" in packages
    assert cuda.PREFIX.name.endswith(".".join(cuda.VERSION.split(".")[:2]))
