#!/usr/bin/env python3
"""Compile the programs that no package of the distribution has, with the MPI and BLAS of PATH.

    ci/programs.py          what `make programs` does
    ci/programs.py --ask    what `make acceptance` does: it names what is missing, and asks first
    ci/programs.py --pack FOLDER    compile nothing; write the sources to a folder

The sources are pinned in ci/programs.ini by checksum. They come from a folder or a mirror
(``ASSAY_SOURCES``), else from the net. The programs are installed below ``ASSAY_PROGRAMS``, by
default .cache/programs: each whole or not at all, so a call goes on where the last one stopped.
Its file programs.json says what is there, and with which MPI it was compiled (read by
assay.sites.stacks). Each program has a recipe, ci/programs/PACKAGE.sh. Needs Python 3.6 and its
standard library.

The build of an image reaches neither the net nor the repositories of the builder. The folder of
``--pack`` holds one archive for each program, and their pins: in the build it is ASSAY_SOURCES, and
its programs.ini is what ``--pins`` names.
"""

import argparse
import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "ci"), str(ROOT / "src/assay/node")]
import capacity  # noqa: E402 - a script of nodes needs no installation
from program_sources import STOPPED, Refused, Sources, output, packed, pins_of, say  # noqa: E402

INDEX = "programs.json"

#: Libraries of BLAS, in this order; ASSAY_BLAS says another. `-lblas` may be the unoptimised one.
BLAS = ("-lopenblas", "-lmkl_rt", "-lblis", "-larmpl")

#: Elements of STREAM's arrays, as in our recipe of Spack; three arrays of 8 B each may take a half
#: of the memory.
ARRAY_SIZE = 400000000

#: Classes and subtypes of BT-IO. The tests take the smallest class, A, or one that a site names.
CLASSES, SUBTYPES = ("S", "A", "C"), ("full", "simple", "epio")

#: What the stack of a package has besides, as Spack's lock says it.
PARAMETERS = {
    "osu-micro-benchmarks": {"cuda": False, "rocm": False},
    "npb-btio": {"classes": CLASSES, "subtypes": SUBTYPES},
}

#: Packages of Debian and its relatives for what a recipe needs. The serial OpenBLAS, because each
#: rank of HPL would start a thread on each core.
DEBIAN = {
    "mpicc": "libopenmpi-dev",
    "mpicxx": "libopenmpi-dev g++",
    "mpif90": "libopenmpi-dev gfortran",
    "cc": "gcc libc6-dev",
    "make": "make",
    "blas": "libopenblas-serial-dev",
}

#: A program that shows whether a compiler works, and one that calls BLAS.
TRIES = {
    "mpicc": (
        "c",
        "#include <mpi.h>\n#include <stdio.h>\nint main(int n, char **v) {"
        ' MPI_Init(&n, &v); MPI_Comm_size(MPI_COMM_WORLD, &n); printf("world of %d\\n", n);'
        " return MPI_Finalize(); }",
    ),
    "mpicxx": ("cc", "#include <mpi.h>\nint main(int n, char **v) { return MPI_Init(&n, &v); }"),
    "mpif90": ("f90", "program p\n use mpi\n call mpi_init(i)\nend"),
    "cc": ("c", "#include <stdio.h>\nint main(void) { return 0; }"),
    "blas": ("c", "void dgemm_(void);\nint main(void) { dgemm_(); }"),
}


def mpi():
    """The MPI of PATH as `programs.json` states it: the file of mpirun, and what it says."""
    path = shutil.which("mpirun")
    if path is None:
        raise Refused("no MPI: mpirun is not on PATH; install openmpi-bin or load your MPI module")
    return {
        "mpirun": os.path.realpath(path),
        "version": output(path, "--version").split("\n")[0].strip(),
    }


class Machine:
    """What compiles here: each need of a recipe is tried once."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.blas = ""
        self._why = {}

    def lacks(self, need):
        """Why a need is not met, in a line; empty if it is."""
        if need not in self._why:
            self._why[need] = self._try(need)
        return self._why[need]

    def _try(self, need):
        if need != "blas":
            if not shutil.which(need):
                return f"{need} is not on PATH"
            fault = self._compiles(need, need) if need in TRIES else ""
            return fault or (self._apart() if need == "mpicc" else "")
        # Modules put libraries on these paths; at run time the program must find them without.
        named = ":".join(os.environ.get(n, "") for n in ("LIBRARY_PATH", "LD_LIBRARY_PATH"))
        folders = [f for f in dict.fromkeys(named.split(":")) if f]
        where = [word for f in folders for word in ("-L" + f, "-Wl,-rpath," + f)]
        own = os.environ.get("ASSAY_BLAS")
        for library in [own] if own else BLAS:
            try:
                words = [*where, *shlex.split(library)]
            except ValueError as error:
                return f"ASSAY_BLAS: {library}: {error}"
            if not self._compiles("blas", "mpicc", *words):
                self.blas = " ".join(map(shlex.quote, words))
                return ""
        return (
            f"no BLAS: the linker finds none of {own or ', '.join(BLAS)}; say yours by ASSAY_BLAS"
        )

    def _apart(self):
        """Why the ranks of mpirun do not find each other; empty also where nothing can be run."""
        said = output("mpirun", "-n", "2", str(self.scratch / "mpicc.out"))
        if re.findall(r"world of (\d+)", said) == ["1", "1"]:
            return "mpicc is not of the MPI of mpirun: two ranks were two worlds of one"
        return ""

    def _compiles(self, what, compiler, *words):
        ending, text = TRIES[what]
        self.scratch.mkdir(parents=True, exist_ok=True)
        source = self.scratch / f"{what}.{ending}"
        source.write_text(text + "\n")
        made = self.scratch / f"{what}.out"
        if made.exists():
            made.unlink()
        said = output(compiler, str(source), "-o", str(made), *words)
        if made.exists():
            return ""
        lines = [line for line in said.splitlines() if line.strip()]
        wrong = [line for line in lines if re.search("error|not found|cannot", line, re.IGNORECASE)]
        return f"{compiler} does not compile: {(wrong or lines or ['it says nothing'])[0].strip()}"


class Recipe:
    """The recipe of a package: its text, and what it needs."""

    def __init__(self, folder, package):
        self.path = folder / f"{package}.sh"
        self.text = self.path.read_text(encoding="utf-8")
        needs = re.search(r"^# needs: (.*)$", self.text, re.MULTILINE)
        self.needs = needs[1].split() if needs else []
        unknown = [need for need in self.needs if need not in DEBIAN]
        if unknown:
            raise Refused(f"{self.path}: unknown need {unknown[0]}; there are {', '.join(DEBIAN)}")


def array_size():
    """Elements of an array of STREAM: as in our stack of Spack, less if the memory is small."""
    memory = capacity.memory()["limit"]
    if platform.machine() != "x86_64":  # only there the linker takes arrays beyond 2 GiB
        memory = min(memory, 1 << 32)
    return min(ARRAY_SIZE, memory // 2 // (3 * 8) // 1000000 * 1000000)


class Folder:
    """The folder of the compiled programs."""

    def __init__(self, path, recipes):
        self.path, self.recipes = path, recipes
        self.lock = threading.Lock()
        self.running = set()
        try:
            self.state = dict(json.loads((path / INDEX).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            self.state = {}

    def begin(self, with_mpi):
        """Refuses if another call works here, and forgets the programs of another MPI."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._held = (self.path / ".lock").open("w")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(f"{self.path}: another call compiles here; wait for its end") from None
        # A killed call may still compile, in a folder of its own.
        shutil.rmtree(str(self.path / "work"), ignore_errors=True)
        if self.state.get("mpi") != with_mpi:
            shutil.rmtree(str(self.path / "bin"), ignore_errors=True)
            self.state = {"mpi": with_mpi, "packages": {}}
            self._write()

    def key(self, pin, recipe):
        """What a program was made of; it is made again if this changes."""
        words = [str(pin), pin.sha256, pin.commit, recipe.text]
        words += [array_size()] if "ARRAY_SIZE" in recipe.text else []
        words += CLASSES if "CLASSES" in recipe.text else []
        return hashlib.sha256("\n".join(map(str, words)).encode()).hexdigest()

    def packages(self, with_mpi):
        """What is compiled for an MPI: package -> its version, source and key."""
        found = self.state.get("packages", {}) if self.state.get("mpi") == with_mpi else {}
        return {name: each for name, each in found.items() if (self.path / name).is_dir()}

    def has(self, pin, with_mpi):
        made = self.packages(with_mpi).get(pin.package, {})
        return made.get("key") == self.key(pin, Recipe(self.recipes, pin.package))

    def make(self, pins, sources, machine, jobs):
        """Compiles the first of the pins whose source can be had; returns what came of it.

        :raises Refused: there is no source, or the recipe failed.
        """
        package, started, why = pins[0].package, time.monotonic(), []
        recipe = Recipe(self.recipes, package)
        work, log = (
            self.path / "work" / str(os.getpid()) / package,
            self.path / "log" / f"{package}.log",
        )
        prefix = work / "installed"
        try:
            for pin in pins:
                shutil.rmtree(str(work), ignore_errors=True)
                work.mkdir(parents=True)
                if self.has(pin, self.state["mpi"]):
                    return f"{pin} is there ({'; '.join(why)})"
                try:
                    source = sources.get(pin, work / "source")
                    break
                except Refused as error:
                    why.append(str(error))
            else:
                raise Refused("; ".join(why))
            log.parent.mkdir(parents=True, exist_ok=True)
            environment = dict(
                os.environ, PREFIX=str(prefix), JOBS=str(jobs), BLAS=machine.blas,
                CLASSES=" ".join(CLASSES), ARRAY_SIZE=str(array_size()), LC_ALL="C",
            )  # fmt: skip
            if STOPPED.is_set():
                raise Refused(f"{pin}: interrupted")
            with log.open("w") as stream:
                process = subprocess.Popen(
                    ["bash", str(recipe.path.resolve())], cwd=str(work / "source"), env=environment,
                    stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                    start_new_session=True,
                )  # fmt: skip
                self.running.add(process)
                code = process.wait()
                self.running.discard(process)
            if code or not list((prefix / "bin").glob("*")):
                raise Refused(f"{pin}: its recipe ended with exit code {code}: {log}\n{_tail(log)}")
            self._install(pin, prefix, recipe, source)
        except OSError as error:
            raise Refused(f"{package}: {error.strerror}: {error.filename or self.path}") from None
        shutil.rmtree(str(work), ignore_errors=True)
        more = "".join(f" (not {each})" for each in why)
        return f"{pin}: {time.monotonic() - started:.0f} s, from {source}{more}"

    def _install(self, pin, prefix, recipe, source):
        """Puts a package in place, and writes so."""
        home, links = self.path / pin.package, self.path / "bin"
        with self.lock:
            if STOPPED.is_set():
                raise Refused(f"{pin}: interrupted")
            if self.state["packages"].pop(pin.package, None):
                self._write()  # a call that is killed now leaves no old version in the list
            shutil.rmtree(str(home), ignore_errors=True)
            prefix.rename(home)
            links.mkdir(exist_ok=True)
            for link in links.iterdir():
                if not link.exists():
                    link.unlink()
            for program in (home / "bin").iterdir():
                link = links / program.name
                if link.is_symlink():
                    link.unlink()
                link.symlink_to(f"../{pin.package}/bin/{program.name}")
            self.state["packages"][pin.package] = {
                "version": pin.version,
                "parameters": PARAMETERS.get(pin.package, {}),
                "source": source,
                "key": self.key(pin, recipe),
            }
            self._write()

    def _write(self):
        new = self.path / f"{INDEX}.new"
        new.write_text(json.dumps(self.state, indent=1) + "\n", encoding="utf-8")
        new.rename(self.path / INDEX)

    def stop(self):
        STOPPED.set()
        for process in list(self.running):
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGTERM)


def _tail(log, lines=8):
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join("    " + line[:200] for line in text[-lines:])


def words_of(packages, catalogue):
    """Package -> the words of the catalogue for its programs, and their names."""
    text, found = catalogue.read_text(encoding="utf-8"), {}
    for word, entry in re.findall(r"^([a-z][\w-]*):\n((?:[ #].*\n)+)", text, re.MULTILINE):
        spack = re.search(r"^  spack: ([\w-]+)(\S*)$", entry, re.MULTILINE)
        names = re.search(r"^  executables: \[(.*)\]$", entry, re.MULTILINE)
        if spack and names and spack[1] in packages:
            found[spack[1]] = (word, re.split(r", *", names[1]))
    return found


def lost(word, cases):
    """The tests that one machine runs and that need a word, each with the number of its cases."""
    found = {}
    for line in cases.read_text(encoding="utf-8").splitlines():
        parts = line.split("|")
        if len(parts) < 3 or line.startswith("#"):
            continue
        here = re.search(r"\+(intra-node|storage)\b", parts[1])
        if here and "+" + word in re.split(r"[ ,]+", parts[2]):
            test = parts[0].split()[0]
            found[test] = found.get(test, 0) + 1
    return found


def agreed(question):
    """Whether the user wants it; the rules are those of ci/system-stack.sh."""
    if os.environ.get("YES") == "1" or (os.geteuid() == 0 and os.environ.get("CI")):
        return True
    if not sys.stdin.isatty():
        say("no terminal to ask on; type YES=1 make programs")
        return False
    try:
        return input(f"programs: {question} [y/N] ").strip()[:1] in ("y", "Y")
    except EOFError:
        print()
        return False


def packages_for(needs, with_mpi):
    """The packages of the distribution that bring what is missing; none for another MPI."""
    if not shutil.which("apt-get"):
        return []
    packaged = with_mpi["mpirun"].startswith("/usr/bin/") and "(Open MPI)" in with_mpi["version"]
    named = " ".join(DEBIAN[need] for need in needs if packaged or not need.startswith("mpi"))
    return list(dict.fromkeys(named.split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ask", action="store_true", help="ask first, and end with 0")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="write the sources there")
    parser.add_argument("--pins", type=Path, default=ROOT / "ci/programs.ini")
    parser.add_argument("--recipes", type=Path, default=ROOT / "ci/programs")
    args = parser.parse_args()
    # Open MPI refuses to start as root unless it is told twice that this is meant.
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    try:
        return pack(args) if args.pack else run(args)
    except Refused as error:
        say(str(error))
    except OSError as error:
        say(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        return 130
    return 0 if args.ask else 1


def folder_of_programs():
    """The folder that the programs are in, or will be.

    :raises Refused: it is not one.
    """
    path = Path(os.environ.get("ASSAY_PROGRAMS") or ROOT / ".cache/programs")
    if not path.is_absolute():
        raise Refused(
            f"ASSAY_PROGRAMS: {path} is relative: a site would look elsewhere; write /..."
        )
    path = path.resolve()
    if re.search(r"\s", str(path)):
        raise Refused(f"{path}: makefiles take no blank in a path: name a folder by ASSAY_PROGRAMS")
    return path


def sources_for(args, path):
    return Sources(path / "sources", os.environ.get("ASSAY_SOURCES", ""), pins_of(args.pins))


def pack(args):
    """Writes an archive of each source that can be had, and their pins; the exit code."""
    sources, failed = sources_for(args, folder_of_programs()), []
    args.pack.mkdir(parents=True, exist_ok=True)
    with (args.pack / "programs.ini").open("w", encoding="utf-8") as pins:
        for package in sources.pins:
            try:
                pins.write(packed(package, sources, args.pack) + "\n")
            except Refused as error:
                failed.append(package)
                say(f"left out: {error}")
    cost(failed, words_of(sources.pins, ROOT / "src/assay/catalogue.yaml"))
    return 1 if failed else 0


def run(args):
    with_mpi, path = mpi(), folder_of_programs()
    folder, sources = Folder(path, args.recipes), sources_for(args, path)
    unknown = [p for p in sources.pins if not (args.recipes / f"{p}.sh").exists()]
    if unknown:
        there = ", ".join(sorted(f.stem for f in args.recipes.glob("*.sh")))
        raise Refused(f"programs.ini: no recipe for {unknown[0]}; there are {there}")
    words = words_of(sources.pins, ROOT / "src/assay/catalogue.yaml")
    if args.ask:  # nobody asked for a newer one
        found = {name for name, (_, of) in words.items() if any(map(shutil.which, of))}
        found.update(folder.packages(with_mpi))
    else:
        found = {name for name, pins in sources.pins.items() if folder.has(pins[0], with_mpi)}
    todo = {name: pins for name, pins in sources.pins.items() if name not in found}
    if not todo:
        if not args.ask:
            say(f"complete: {path / 'bin'}")
        return 0
    if args.ask:
        say(f"not here: {', '.join(todo)}; they can be compiled in minutes (make programs)")
        urls = [u for pins in todo.values() for pin in pins for u in sources.addresses(pin)]
        if not (sources.folder or any(map(sources.reached, urls))):
            say("left out: no server of theirs can be reached, and ASSAY_SOURCES names none")
            return 0
        if not agreed("compile them?"):
            return 0
    return compile_all(todo, folder, sources, with_mpi, words)


def prepared(folder, todo, with_mpi):
    """The machine, after the packages of the distribution that it lacks were asked for."""
    needs = {need for name in todo for need in Recipe(folder.recipes, name).needs}
    scratch = folder.path / "work" / str(os.getpid()) / "try"
    machine = Machine(scratch)
    wanted = packages_for([need for need in sorted(needs) if machine.lacks(need)], with_mpi)
    if wanted:
        environment = dict(os.environ, WHO="programs")
        subprocess.run([str(ROOT / "ci/packages.sh"), *wanted], env=environment, check=False)
        machine = Machine(scratch)
    for need in sorted(needs):
        machine.lacks(need)  # before there are threads
    return machine


def compile_all(todo, folder, sources, with_mpi, words):
    """Compiles a version of each package, and says what the missing ones cost; the exit code."""
    folder.begin(with_mpi)
    started, failed, cores = time.monotonic(), [], len(os.sched_getaffinity(0))
    machine = prepared(folder, todo, with_mpi)
    say(f"compiling {len(todo)} with {with_mpi['version'] or with_mpi['mpirun']} on {cores} cores")

    def one(name):
        for why in filter(None, map(machine.lacks, Recipe(folder.recipes, name).needs)):
            raise Refused(f"{name}: {why}")
        return folder.make(todo[name], sources, machine, cores)

    with concurrent.futures.ThreadPoolExecutor(max_workers=max(2, cores)) as pool:
        futures = {pool.submit(one, name): name for name in todo}
        try:
            for future in concurrent.futures.as_completed(futures):
                try:
                    say(future.result())
                except Refused as error:
                    failed.append(futures[future])
                    say(f"left out: {error}")
                except Exception as error:  # an error of ours stops no other program
                    failed.append(futures[future])
                    say(f"left out: {futures[future]}: {type(error).__name__}: {error}")
        except KeyboardInterrupt:
            for future in futures:
                future.cancel()
            folder.stop()
            say("interrupted: type it again, and it goes on with what is not done")
            raise SystemExit(130) from None
    there, took = folder.state["packages"], time.monotonic() - started
    say(f"{len(there)} of {len(sources.pins)} are in {folder.path / 'bin'}, after {took:.0f} s")
    cost([name for name in failed if name not in there], words)
    return 1 if failed else 0


def cost(packages, words):
    """Says which tests do not run without these packages."""
    for name in packages:
        if name in words:
            tests = lost(words[name][0], ROOT / "reframe/cases.txt").items()
            named = ", ".join(f"{test} ({number})" for test, number in tests)
            say(f"without {name} these tests do not run: {named}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
