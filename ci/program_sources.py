"""Where the sources of programs come from: archives by checksum, and commits of git repositories.

A folder, a mirror or the net has them; nothing that is not as pinned gets further. Needs Python 3.6
and its standard library.
"""

import configparser
import contextlib
import gzip
import hashlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

#: How long all servers together have to take a connection, and one of them for its next bytes [s].
REACHED, SILENT = 4, 20

#: The largest archive of sources [B], and how long its download may take [s].
LARGEST, LONGEST = 1 << 28, 600

#: Set by an interrupt: nothing is begun or installed any more.
STOPPED = threading.Event()


def say(text):
    print("programs: " + text, flush=True)


def output(*command):
    """What a command prints, empty if it cannot be run or hangs."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=30, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


class Refused(Exception):
    """Why a source cannot be had, or a program not be made, in one line."""


class Pin:
    """A version of a package, by checksum; ci/programs.ini explains the words."""

    WORDS = {"archive", "sha256", "urls", "commit", "under", "source"}

    def __init__(self, where, section, words):
        try:
            self.package, self.version = section.split()
        except ValueError:
            raise Refused(f"{where}: [{section}]: write [PACKAGE VERSION]") from None
        unknown = set(words) - self.WORDS
        if unknown:
            raise Refused(f"{where}: [{section}]: unknown word {sorted(unknown)[0]}")
        self.archive = words.get("archive", f"{self.package}-{self.version}.tar.gz")
        self.sha256, self.commit = words.get("sha256", ""), words.get("commit", "")
        self.urls, self.under = words.get("urls", "").split(), words.get("under", "")
        self.source = words.get("source") or f"archive {self.archive}, checksum {self.sha256}"
        for word, form in (("sha256", "[0-9a-f]{64}"), ("commit", "[0-9a-f]{40}")):
            if words.get(word) and not re.fullmatch(form, words[word]):
                raise Refused(f"{where}: [{section}]: {word} is not one: {words[word]}")
        if not (self.sha256 or self.commit):
            raise Refused(
                f"{where}: [{section}]: no sha256 and no commit: nothing is compiled without a "
                "checksum"
            )

    def __str__(self):
        return f"{self.package} {self.version}"


def pins_of(path):
    """The pins of a file, in its order."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
    except (OSError, ValueError, configparser.Error) as error:
        raise Refused(f"{path}: {' '.join(str(error).split())}") from None
    return [Pin(path, section, dict(parser[section])) for section in parser.sections()]


class Repository:
    """A git repository whose objects are read one by one; each is checked against its name.

    git itself checks what it fetches, not what it reads.
    """

    def __init__(self, path):
        self.path = path
        self._batch = None

    def _git(self, *words):
        # A copy that lacks objects must not fetch them: its own settings would say how.
        options = ["-c", "safe.directory=*", "-c", "protocol.allow=never"]
        return ["git", *options, "--git-dir", str(self.path), *words]

    def has(self, commit):
        return commit and output(*self._git("cat-file", "-t", commit)).strip() == "commit"

    def read(self, name, kind):
        """The content of an object.

        :raises Refused: it is not there, is of another kind, or has another name.
        """
        if self._batch is None:
            self._batch = subprocess.Popen(
                self._git("cat-file", "--batch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        self._batch.stdin.write(name.encode() + b"\n")
        self._batch.stdin.flush()
        head = self._batch.stdout.readline().split()
        if len(head) != 3 or head[1] != kind.encode():
            raise Refused(f"{self.path} has no {kind} {name}: is the copy whole?")
        content = self._batch.stdout.read(int(head[2]) + 1)[:-1]
        named = hashlib.sha1(b"%s %d\0" % (head[1], len(content)) + content)  # noqa: S324 - git's
        if named.hexdigest() != name:
            raise Refused(
                f"{self.path}: the {kind} {name} is damaged: its content has another name"
            )
        return content

    def entries(self, tree):
        """The entries of a tree: name -> (mode, object)."""
        content, found = self.read(tree, "tree"), {}
        while content:
            mode, _, content = content.partition(b" ")
            name, _, content = content.partition(b"\0")
            found[os.fsdecode(name)] = (mode, content[:20].hex())
            content = content[20:]
        return found

    def write(self, commit, under, target):
        """Writes the files of a commit, or of a folder of it, below a new folder."""
        tree = self.read(commit, "commit").split()[1].decode()
        for part in filter(None, under.split("/")):
            found = self.entries(tree)
            if part not in found:
                raise Refused(f"{self.path}: the commit {commit} has no folder {under}")
            tree = found[part][1]
        self._write_tree(tree, target)

    def _write_tree(self, tree, target):
        target.mkdir(parents=True)
        for name, (mode, key) in self.entries(tree).items():
            if "/" in name or name in (".", "..", ".git"):
                raise Refused(f"{self.path}: the tree {tree} has an entry {name!r}")
            path = target / name
            if mode == b"40000":
                self._write_tree(key, path)
            elif mode in (b"100644", b"100755"):  # no links, no submodules
                path.write_bytes(self.read(key, "blob"))
                path.chmod(int(mode[-3:], 8))
                # As in an archive, no file is newer than another: nothing is made anew.
                os.utime(str(path), (1, 1))

    def close(self):
        if self._batch:
            self._batch.stdin.close()
            self._batch.stdout.close()  # it may still write an object that nobody reads
            self._batch.wait()


class Sources:
    """Where sources come from: what was fetched before, a folder or a mirror, the net."""

    def __init__(self, kept, named, pins):
        self.kept = kept
        self.folder = self.mirror = None
        if "://" in named:
            self.mirror = named.rstrip("/")
            _server(self.mirror)
        elif named:
            self.folder = Path(named).expanduser().resolve()
            if not self.folder.is_dir():
                raise Refused(
                    f"ASSAY_SOURCES: {named} is neither a folder nor an address (https://...)"
                )
            own = self.folder / "programs.ini"
            pins = (pins_of(own) if own.exists() else []) + pins
        self.pins = {}
        for pin in pins:
            self.pins.setdefault(pin.package, []).append(pin)
        self._repositories = self._reached = None
        self._lock = threading.Lock()

    def repositories(self):
        """The git repositories of the folder, at most two folders deep."""
        if self.folder is None:
            return []
        if self._repositories is None:
            places = [self.folder, *self.folder.glob("*"), *self.folder.glob("*/*")]
            both = ((place, git) for place in places for git in (place, place / ".git"))
            found = [(place, git) for place, git in both if _is_repository(git)]
            self._repositories = found if shutil.which("git") else []
            if found and not self._repositories:
                say(f"{self.folder} has repositories of git, and there is no git")
        return self._repositories

    def reached(self, url):
        """Whether the server of an address takes connections; all are tried once, together."""
        with self._lock:
            self._reach_all()
        return _server(url) in self._reached

    def _reach_all(self):
        if self._reached is None:
            urls = {u for pins in self.pins.values() for p in pins for u in self.addresses(p)}
            self._reached, threads = set(), []
            for server in {_server(u) for u in urls}:
                thread = threading.Thread(target=self._reach, args=(server,), daemon=True)
                thread.start()
                threads.append(thread)
            end = time.monotonic() + REACHED
            for thread in threads:
                thread.join(max(0, end - time.monotonic()))

    def _reach(self, server):
        with contextlib.suppress(OSError):
            socket.create_connection(server, REACHED).close()
            self._reached.add(server)

    def addresses(self, pin):
        if not pin.sha256:
            return []
        return ([f"{self.mirror}/{pin.archive}"] if self.mirror else []) + pin.urls

    def get(self, pin, target):
        """Unpacks the source of a pin into a new folder; returns what it is, in words.

        :raises Refused: it is in no place; the message says why.
        """
        why = []
        ways = [*self._archives(pin), *self._commits(pin), *self.addresses(pin)]
        for way in ways:
            try:
                if isinstance(way, Path):
                    return self._unpack(pin, way, target)
                if isinstance(way, str):
                    return self._unpack(pin, self._fetched(way, pin), target)
                return self._written(pin, *way, target)
            except (Refused, OSError) as error:
                shutil.rmtree(str(target), ignore_errors=True)
                why.append(str(error))
        if not why:
            why.append(f"it is not in {self.folder}" if self.folder else "no place is known")
        raise Refused(f"{pin}: " + "; ".join(why))

    def _archives(self, pin):
        """The files that may be the archive: what was fetched, then those of the folder."""
        if not pin.sha256:
            return []
        kept = self.kept / pin.archive
        found = [kept] if kept.is_file() and _sha256(kept) == pin.sha256 else []
        if self.folder:
            # The second is how a mirror of Spack names it.
            names = pin.archive, f"_source-cache/archive/{pin.sha256[:2]}/{pin.sha256}*"
            found += [each for name in names for each in sorted(self.folder.glob(name))]
        return found

    def _commits(self, pin):
        """Pairs of the repositories in the folder that have the commit: its place, its .git."""
        return [both for both in self.repositories() if Repository(both[1]).has(pin.commit)]

    def _written(self, pin, place, git, target):
        repository = Repository(git)
        try:
            repository.write(pin.commit, pin.under, target)
        finally:
            repository.close()
        return f"commit {pin.commit} of {os.path.relpath(str(place), str(self.folder))}"

    def _fetched(self, url, pin):
        if not self.reached(url):
            raise Refused(f"{_host(url)} cannot be reached")
        archive, shown = self.kept / pin.archive, f"{pin.archive} of {_host(url)}"
        part = archive.with_name(f"{archive.name}.part")
        self.kept.mkdir(parents=True, exist_ok=True)
        try:
            # _server has refused other schemes.
            answers = urllib.request.urlopen(url, timeout=SILENT)  # noqa: S310
            with answers as answer, part.open("wb") as stream:
                _copied(answer, stream, shown)
            found = _sha256(part)
            if found != pin.sha256:
                raise Refused(f"{shown} has sha256 {found}, the pin says {pin.sha256}")
            part.rename(archive)
            return archive
        except (OSError, ValueError, http.client.HTTPException) as error:  # also of the disk
            raise Refused(f"{shown}: {getattr(error, 'reason', None) or error}") from None
        finally:
            with contextlib.suppress(OSError):
                part.unlink()

    def _unpack(self, pin, archive, target):
        found = _sha256(archive)
        if found != pin.sha256:
            raise Refused(f"{archive} has sha256 {found}, the pin says {pin.sha256}")
        whole = target.with_name(target.name + ".unpacked")
        try:
            with tarfile.open(str(archive)) as tar:
                for member in tar.getmembers():
                    parts = Path(member.name).parts
                    if member.name.startswith("/") or ".." in parts:
                        raise Refused(f"{archive}: the entry {member.name} leads out of it")
                members = [m for m in tar.getmembers() if m.isfile() or m.isdir()]
                for member in members:  # root would give files to others, who may change them
                    member.uid, member.gid = os.getuid(), os.getgid()
                    member.uname = member.gname = ""
                    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                more = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                tar.extractall(str(whole), members, **more)  # noqa: S202 - each name was looked at
        except (tarfile.TarError, EOFError) as error:
            raise Refused(f"{archive}: cannot be unpacked: {error}") from None
        inside = list(whole.iterdir())
        (inside[0] if len(inside) == 1 else whole).rename(target)
        return pin.source


def write_archive(tree, archive, date=0):
    """Writes a folder to an archive, all with one `date` [s]: the same files, the same bytes."""

    def plain(member):
        member.uid, member.gid, member.mtime = 0, 0, date
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(archive.open("wb"))
        stream = stack.enter_context(gzip.GzipFile("", "wb", 9, raw, date))
        tar = stack.enter_context(tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT))
        for path in sorted(tree.rglob("*")):
            name = f"{tree.name}/{path.relative_to(tree)}"
            tar.add(str(path), name, recursive=False, filter=plain)


def _is_repository(git):
    """Whether a folder is that of a git repository that can be read."""
    try:
        return (git / "HEAD").is_file() and (git / "objects").is_dir()
    except OSError:  # a folder of somebody else, such as lost+found
        return False


def _copied(answer, stream, shown):
    """Writes an answer to a file, as long as it may be an archive of sources."""
    begun, left = time.monotonic(), LARGEST
    start = answer.read(512)
    if answer.headers.get_content_type() == "text/html" or start.lstrip()[:1] == b"<":
        raise Refused(f"{shown} is a web page, not an archive: a proxy, a login?")
    block = start
    while block:
        left -= len(block)
        if STOPPED.is_set():
            raise Refused(f"{shown}: interrupted")
        if left < 0 or time.monotonic() - begun > LONGEST:
            raise Refused(f"{shown} takes more than {LARGEST >> 20} MiB, or than {LONGEST} s")
        stream.write(block)
        block = answer.read1(1 << 16)


def _host(url):
    """The host of an address, without the name and the password of a user."""
    return urllib.parse.urlsplit(url).hostname


def _server(url):
    """The machine and port that a connection goes to: that of the proxy, if there is one.

    :raises Refused: the address is not one of http or https.
    """
    parts = urllib.parse.urlsplit(url)
    try:
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        known = False
    if not known:
        raise Refused(f"{parts.scheme}://{parts.hostname}: write an address as https://host/path")
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else "//" + proxy)
    return parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)


def _sha256(path):
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def packed(package, sources, folder):
    """Writes the archive of a package; the lines of its pin.

    :raises Refused: none of its sources can be had.
    """
    why = []
    for pin in sources.pins[package]:
        name = f"{pin.package}-{pin.version}"
        archive = folder / f"{name}.tar.gz"
        with tempfile.TemporaryDirectory(dir=str(folder)) as scratch:
            tree = Path(scratch) / name
            try:
                source = sources.get(pin, tree)
            except Refused as error:
                why.append(str(error))
                continue
            write_archive(tree, archive)
        say(f"{pin}: from {source}" + "".join(f" (not {each})" for each in why))
        words = {"archive": archive.name, "sha256": _sha256(archive), "source": source}
        return "\n".join([f"[{pin}]", *(f"{word} = {words[word]}" for word in words), ""])
    raise Refused("; ".join(why))
