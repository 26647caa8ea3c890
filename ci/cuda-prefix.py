#!/usr/bin/env python3
"""Puts a CUDA toolkit together that compiles on a machine without a GPU and without a driver.

    ci/cuda-prefix.py [PREFIX]      default: /usr/local/cuda-12.4, as site debian12-cuda has it

The compiler is that of Debian's package nvidia-cuda-toolkit, unpacked and not installed. Headers
and libraries are NVIDIA's wheels. Each has its SHA-256 here or in ci/cuda-wheels.txt. They come
from the archive that apt reads on this machine, and from the index that pip reads. All of them are
under NVIDIA's licence. Needs Debian (any release that runs x86_64 programs), gcc, and pip in the
Python that runs this: .venv/bin/python ci/cuda-prefix.py. A second call does nothing.

Not in it: the driver. libcuda and libnvidia-ml are stubs, which only the linker uses. The static
libcudart stands for the shared one, and libcudadevrt is empty, so programs cannot launch kernels
from kernels.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PREFIX = Path("/usr/local/cuda-12.4")
WHEELS = ROOT / "ci/cuda-wheels.txt"
RELEASE = "trixie"  # whose archive has the package; its programs also run on Debian 12
POOL = (
    "pool/non-free/n/nvidia-cuda-toolkit/nvidia-cuda-toolkit_12.4.131~12.4.1-2_amd64.deb",
    "cd5fe85aee38d108b315f408a688641478f2402622a10c677478eb7a6c4e5319",
)
VERSION = "12.4.1"

#: Path in the Debian package -> path in the prefix.
PROGRAMS = {
    **{
        f"usr/bin/{name}": f"bin/{name}"
        for name in ("bin2c", "cudafe++", "cuobjdump", "fatbinary", "nvlink", "ptxas")
    },
    "usr/lib/nvidia-cuda-toolkit/bin/nvcc": "bin/nvcc",
    "usr/lib/nvidia-cuda-toolkit/bin/crt": "bin/crt",
    "usr/lib/nvidia-cuda-toolkit/bin/cicc": "nvvm/bin/cicc",
    "usr/lib/nvidia-cuda-toolkit/libdevice": "nvvm/libdevice",
}

#: nvcc reads this file beside itself. Debian's own names the directories of Debian.
PROFILE = """\
TOP              = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH            += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES        +=  "-I$(TOP)/include" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
"""

#: Stub of a library -> its header, and the pattern of the functions that the header declares.
STUBS = {
    "libcuda.so.1": ("cuda.h", r"\b(cu[A-Z]\w+)\s*\("),
    "libnvidia-ml.so.1": ("nvml.h", r"\b(nvml[A-Z]\w+)\s*\("),
}


class Failed(Exception):
    """The toolkit cannot be made; the message is one line."""


def place(name: str) -> PurePosixPath | None:
    """Where a file of a wheel belongs in the prefix, None if it does not belong there."""
    parts = PurePosixPath(name).parts
    if parts[0] != "nvidia" or len(parts) < 4 or parts[-1] == "__init__.py" or ".." in parts:
        return None
    if parts[2] not in ("include", "lib"):  # the programs are those of Debian
        return None
    return PurePosixPath("lib64" if parts[2] == "lib" else "include", *parts[3:])


def functions(text: str, pattern: str) -> list[str]:
    """The functions that a preprocessed header declares, with and without their suffix _vN.

    The libraries of the driver have both. Configure scripts look for the names without a suffix.
    """
    names = set(re.findall(pattern, text))
    return sorted(names | {re.sub(r"_v\d+$", "", name) for name in names})


def run(*command: str | Path, text: str | None = None, why: str) -> str:
    """The output of a command.

    :raises Failed: it ended with an error. The reason is `why` and its last line.
    """
    done = subprocess.run(
        [*map(str, command)], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise Failed(f"{why}: {said.rpartition(chr(10))[2] or f'exit code {done.returncode}'}")
    return done.stdout


def fetch(work: Path) -> None:
    """Puts the Debian package and the wheels into a directory.

    :raises Failed: one of them cannot be had, or is another one than is pinned.
    """
    archive = run(ROOT / "ci/debian-archive.sh", RELEASE, why="no archive of Debian")
    path, digest = POOL
    run(
        *("/usr/lib/apt/apt-helper", "download-file"),
        f"{archive.split()[1].rstrip('/')}/{path}",
        *(work / "toolkit.deb", f"SHA256:{digest}"),
        why=f"{PurePosixPath(path).name} could not be had, or has another SHA-256",
    )
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary", ":all:", "--require-hashes"),
        *("--dest", work, "-r", WHEELS),
        why=f"pip could not fetch {WHEELS.name}",
    )


def lay_out(work: Path, prefix: Path) -> None:
    """Makes the toolkit in `prefix` of what :func:`fetch` has left in `work`.

    :raises Failed: the package lacks a program, or gcc cannot make the stubs.
    """
    for wheel in sorted(work.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for each in archive.infolist():
                target = place(each.filename)
                if target is not None and not each.is_dir():
                    (prefix / target).parent.mkdir(parents=True, exist_ok=True)
                    (prefix / target).write_bytes(archive.read(each))
    run("dpkg-deb", "-x", work / "toolkit.deb", work / "deb", why="the package cannot be unpacked")
    for source, name in PROGRAMS.items():
        origin, target = work / "deb" / source, prefix / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            (shutil.copytree if origin.is_dir() else shutil.copy2)(origin, target)
        except FileNotFoundError:
            raise Failed(f"{PurePosixPath(POOL[0]).name} has no {source}") from None
    (prefix / "bin/nvcc.profile").write_text(PROFILE)

    libraries = prefix / "lib64"
    for library in sorted(libraries.glob("lib*.so.*")):
        with contextlib.suppress(FileExistsError):
            (libraries / f"{library.name.partition('.so.')[0]}.so").symlink_to(library.name)
    (libraries / "libcudart_static.a").write_text("INPUT(-lcudart)\n")
    # nvlink warns of an archive without any object.
    run("gcc", "-c", "-x", "c", "-", "-o", work / "empty.o", text="", why="gcc made no object")
    run("ar", "rcs", libraries / "libcudadevrt.a", work / "empty.o", why="ar made no archive")
    (prefix / "lib").symlink_to("lib64")
    (libraries / "stubs").mkdir()
    for soname, (header, pattern) in STUBS.items():
        stub(prefix, soname, functions(declared(prefix, header), pattern))
    (prefix / "version.json").write_text(
        f'{{"cuda": {{"name": "CUDA SDK", "version": "{VERSION}"}}}}\n'
    )


def declared(prefix: Path, header: str) -> str:
    """A header, preprocessed."""
    include = prefix / "include"
    return run("gcc", "-E", "-P", "-I", include, include / header, why=f"gcc cannot read {header}")


def stub(prefix: Path, soname: str, names: list[str]) -> None:
    """A library that has these functions. Each returns 999, CUDA's and NVML's "unknown error"."""
    if not names:
        raise Failed(f"no function for the stub of {soname} was found")
    source = "".join(f"int {name}(void) {{ return 999; }}\n" for name in names)
    out = prefix / "lib64/stubs" / soname.removesuffix(".1")
    flags = ("-shared", "-fPIC", "-fno-builtin", "-w", f"-Wl,-soname,{soname}", "-x", "c")
    run("gcc", *flags, "-", "-o", out, text=source, why=f"gcc made no stub of {soname}")


def main(prefix: Path) -> int:
    """Makes the prefix, whole or not at all; returns the exit status."""
    made_of = f"{POOL[1]}\n{WHEELS.read_text()}"
    made = prefix / "made-of.txt"
    if made.exists() and made.read_text() == made_of:
        return 0
    if prefix.exists():
        print(
            f"cuda-prefix: {prefix} is there, and this version of ci/cuda-prefix.py did not make "
            "it: remove it, or name another prefix",
            file=sys.stderr,
        )
        return 1
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=prefix.parent, prefix=f"{prefix.name}."))
    except OSError as error:
        print(f"cuda-prefix: {prefix}: {error.strerror}: become root?", file=sys.stderr)
        return 1
    try:
        with tempfile.TemporaryDirectory(dir=new) as work:
            print(f"cuda-prefix: fetching CUDA {VERSION}, 114 MB")
            fetch(Path(work))
            lay_out(Path(work), new)
        (new / made.name).write_text(made_of)
        new.chmod(0o755)
        new.rename(prefix)
    except (Failed, OSError) as error:
        shutil.rmtree(new)
        print(f"cuda-prefix: {error}", file=sys.stderr)
        return 1
    print(f"cuda-prefix: wrote {prefix}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else PREFIX))
