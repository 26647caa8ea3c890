"""A meeting of the processes of a job, one on each node: rank 0 gives orders, all carry them out.

Rank 0 listens and writes its address into a file in the shared directory. Each process, including
that of rank 0, connects and carries out orders until its connection ends. Every wait has a time
limit, so that a dead node costs only that time and not the job.
"""

import contextlib
import ctypes
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from subprocess import DEVNULL, PIPE, STDOUT

import provenance

#: File with the address of rank 0, in the directory that all nodes share.
ADDRESS = "meeting.json"
#: File with the log, one JSON object on each line; each entry is written as it happens.
LOG_FILE = "coordinator_log.jsonl"

#: Script that prints the state of a node, if the job has one, and the longest that it may take [s].
HEALTH, PATIENCE = "node-health.sh", 20

#: Variables that hold the rank. Ranks of Open MPI inherit those of Slurm from their daemon.
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")

#: Time after which a silent connection counts as dead [s]; a live one answers probes by itself.
SILENCE = 20

#: Time between asking a process to end and killing it [s].
GRACE = 2

#: Time that a process waits for its next order [s]; longer than any job.
LONG = 10**6

#: Longest text that an answer carries [B]; a longer text is cut in its middle.
TEXT = 1 << 20


class Lost(Exception):
    """The other end of a connection is gone, or did not answer in time."""


class NoAdvice(Exception):
    """The command that decides what to do next gave no answer; the message gives the reason."""


class Channel:
    """Messages over a connection: one JSON object on each line."""

    def __init__(self, connection):
        self._socket = connection
        self._buffer = b""
        tcp = socket.IPPROTO_TCP
        connection.setsockopt(tcp, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(tcp, socket.TCP_KEEPIDLE, SILENCE // 2)
        connection.setsockopt(tcp, socket.TCP_KEEPINTVL, SILENCE // 4)
        connection.setsockopt(tcp, socket.TCP_KEEPCNT, 2)
        connection.setsockopt(tcp, getattr(socket, "TCP_USER_TIMEOUT", 18), SILENCE * 1000)

    def send(self, message):
        """Send one message. Raises :class:`Lost`."""
        try:
            self._socket.settimeout(SILENCE)
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Lost(f"connection lost ({error.strerror or error})") from None

    def receive(self, limit):
        """The next message, within `limit` seconds. Raises :class:`Lost`."""
        end = time.monotonic() + limit
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            try:
                ready = select.select([self._socket], [], [], max(0, left))[0]
                piece = self._socket.recv(1 << 16) if ready else None
            except OSError as error:
                raise Lost(f"connection lost ({error.strerror or error})") from None
            if piece is None:
                raise Lost(f"no answer within {limit:g} s")
            if not piece:
                raise Lost("its process ended")
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line.decode())

    def close(self):
        self._socket.close()


class Member:
    """A process at the meeting, as rank 0 sees it.

    `gone` is the reason why it can no longer be asked; it is empty while the process answers.
    """

    def __init__(self, channel, hello):
        self.channel = channel
        self.rank, self.host = hello["rank"], hello["host"]
        self.gone = ""

    def ask(self, order, limit):
        """The answer to an order. Raises :class:`Lost` with the name of the node."""
        if not self.gone:
            try:
                self.channel.send(order)
                return self.channel.receive(limit)
            except Lost as error:
                # A late answer would be taken for the answer to the next order.
                self.gone = str(error)
                self.channel.close()
        raise Lost(f"{self.host}: {self.gone}")


class CoordinatorLog:
    """The record of a meeting: each line is on disk before the next thing happens."""

    def __init__(self, path):
        self._file = open(path, "w")
        self._lock = threading.Lock()

    def add(self, entry):
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()


def rank(nodes):
    """The rank of this process; a single process needs no launcher."""
    for name in RANKS:
        if name in os.environ:
            return int(os.environ[name])
    if nodes == 1:
        return 0
    sys.exit("no launcher gave this process a rank: none of {} is set".format(", ".join(RANKS)))


def addresses(device=None):
    """Addresses of this node, the most likely first: `device`, the host name, other interfaces."""
    names = sorted((name for _, name in socket.if_nameindex()), key=lambda name: name == "lo")
    found = [provenance.address(device) if device else None, socket.gethostname()]
    found += [provenance.address(name) for name in names]
    return [address for n, address in enumerate(found) if address and address not in found[:n]]


def allocated():
    """Names of the nodes that Slurm gave to this job; empty if they are not known."""
    nodes = os.environ.get("SLURM_JOB_NODELIST")
    if not nodes:
        return []
    words = ["scontrol", "show", "hostnames", nodes]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.check_output(words, stdin=DEVNULL, timeout=20).decode().split()
    return []


#: Set when the job was cancelled; then the log does not record a regular end of the meeting.
CANCELLED = threading.Event()

#: Set while a block must run to its end before the process exits (:func:`uninterrupted`).
_WHOLE = threading.Event()


def _cancel(number, _):
    CANCELLED.set()
    if not _WHOLE.is_set():
        sys.exit(128 + number)


@contextlib.contextmanager
def uninterrupted():
    """Let a cancelled job end only after this block; the main thread enters the block.

    If the start of a program is interrupted, the program continues to run unnoticed.
    """
    _WHOLE.set()
    try:
        yield
    finally:
        _WHOLE.clear()
    if CANCELLED.is_set():
        sys.exit(128 + signal.SIGTERM)


def witness(when):
    """Keep the state of this node in the shared directory, ``before`` or ``after`` the meeting."""
    if not os.path.exists(HEALTH):
        return
    path = "health.{}.{}".format(os.uname().nodename, when)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        with open(path + ".part", "wb") as file:
            subprocess.run(["sh", HEALTH], stdout=file, timeout=PATIENCE, check=False)
        os.replace(path + ".part", path)


def hold(plan_file, preside, worker):
    """Take part in a meeting; returns when it is over.

    `plan_file` holds a JSON object: ``nodes``, the number of processes; ``patience``, how long
    to wait for them [s]; and perhaps a ``device``. Rank 0 calls ``preside(plan, members, log)``;
    each process calls ``worker(plan)``, and what that returns for its answers to orders.
    """
    with open(plan_file) as file:
        plan = json.load(file)
    # When the job is cancelled, the programs that are started from here on must end too.
    signal.signal(signal.SIGTERM, _cancel)
    work = worker(plan)
    number = rank(plan["nodes"])
    witness("before")
    chair, ended = None, threading.Event()
    if number == 0:
        listener, token = _invite(plan)

        def run():
            _preside(plan, listener, token, preside)
            ended.set()

        chair = threading.Thread(target=run, daemon=True)
        chair.start()
    try:
        channel = _join(plan, number)
        with contextlib.suppress(Lost):  # its end is the end of the meeting
            while True:
                channel.send(work(channel.receive(LONG)))
    finally:
        # Nothing may interrupt the clean-up; the process ends after it anyway.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        work(None)
        if not CANCELLED.is_set():
            witness("after")
    if chair:
        chair.join()
        if not ended.is_set():
            sys.exit(1)


def _invite(plan):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("", 0))
    listener.listen(1024)
    token = secrets.token_hex(16)
    port, there = listener.getsockname()[1], addresses(plan.get("device"))
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as file:
        json.dump({"addresses": there, "port": port, "token": token}, file)
    try:
        os.link(file.name, ADDRESS)
    except FileExistsError:
        sys.exit("two processes have rank 0: this launcher starts worlds of one process")
    finally:
        os.unlink(file.name)
    return listener, token


def _preside(plan, listener, token, preside):
    log = CoordinatorLog(LOG_FILE)
    members = _gather(plan, listener, token)
    here = {member.host.split(".")[0] for member in members.values()}
    absent = [host for host in allocated() if host.split(".")[0] not in here]
    if len(absent) != plan["nodes"] - len(members):
        absent = [f"rank {n}" for n in range(plan["nodes"]) if n not in members]
    met = {member.rank: member.host for member in members.values()}
    log.add({"asked": plan["nodes"], "met": met, "absent": absent})
    try:
        preside(plan, members, log)
        if CANCELLED.is_set():
            return
        gone = {member.host: member.gone for member in members.values() if member.gone}
        log.add({"gone": gone, "end": True})
    finally:
        for member in members.values():
            member.channel.close()


def _gather(plan, listener, token):
    """Members by rank: all of them, or those that came in time."""
    members = {}
    end = time.monotonic() + plan["patience"]
    while len(members) < plan["nodes"]:
        left = end - time.monotonic()
        if left <= 0 or not select.select([listener], [], [], left)[0]:
            break
        channel = Channel(listener.accept()[0])
        try:
            hello = channel.receive(5)
            known = hello["token"] == token and hello["rank"] not in members
        except (Lost, ValueError, KeyError, TypeError):
            known = False
        if known:
            channel.send({"welcome": True})
            members[hello["rank"]] = Member(channel, hello)
        else:
            channel.close()
    listener.close()
    return members


def _join(plan, number):
    """The connection to rank 0."""
    end = time.monotonic() + plan["patience"]
    why = f"{ADDRESS} does not appear: is the directory shared?"
    while time.monotonic() < end:
        try:
            with open(ADDRESS) as file:
                invitation = json.load(file)
        except OSError:
            time.sleep(0.1)
            continue
        for address in invitation["addresses"]:
            try:
                where = (address, invitation["port"])
                channel = Channel(socket.create_connection(where, timeout=3))
                hello = {"rank": number, "host": socket.gethostname()}
                channel.send(dict(hello, token=invitation["token"]))
                channel.receive(max(5, end - time.monotonic()))
                return channel
            except (OSError, Lost) as error:
                why = f"{address}: {error}"
        time.sleep(0.1)
    sys.exit(f"{socket.gethostname()}: rank {number} cannot reach rank 0: {why}")


def advice(command):
    """What to do next: the JSON of a command that reads the log. Raises NoAdvice."""
    try:
        said = subprocess.check_output(command, stdin=DEVNULL, stderr=PIPE, timeout=120)
        return json.loads(said.decode())
    except subprocess.CalledProcessError as error:
        raise NoAdvice(last_line(error.stderr.decode(errors="replace"))) from None
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NoAdvice(str(error)) from None


def last_line(text):
    """The last line with words that a program printed."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" +-")]
    return lines[-1] if lines else "it said nothing"


_libc = ctypes.CDLL(None)


class Process:
    """A program that was started here, with its output."""

    def __init__(self, command, environment, folder):
        self.began = time.monotonic()
        self._out = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(os.environ, **environment),
            stdin=DEVNULL,
            stdout=self._out,
            stderr=STDOUT,
            start_new_session=True,
            # A system call and nothing else: PR_SET_PDEATHSIG.
            preexec_fn=lambda: _libc.prctl(1, signal.SIGKILL),  # noqa: PLW1509
        )
        self.pid = self._process.pid

    def running(self):
        return self._process.poll() is None

    def end(self, limit):
        """Wait for the end; returns exit code, output and duration.

        A program that exceeds `limit` is asked to end and then killed. Then exit code and duration
        are None, and `stopped` tells whether the program was frozen (SIGSTOP, a debugger).
        """
        rc, seconds, stopped = None, None, False
        try:
            rc = self._process.wait(limit)
            seconds = time.monotonic() - self.began
        except subprocess.TimeoutExpired:
            # The state of a process follows its name, see proc(5); the name may contain anything.
            said = provenance.read(f"/proc/{self.pid}/stat") or ""
            stopped = said.rpartition(")")[2].startswith((" T", " t"))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        self._out.seek(0)
        text = shorten(self._out.read())
        self._out.close()
        return {"rc": rc, "seconds": seconds, "out": text, "stopped": stopped}


def shorten(data):
    """`data` as text; beyond :data:`TEXT` bytes, a note replaces the middle."""
    if len(data) > TEXT:
        cut = f"\n... {len(data) - TEXT} bytes left out ...\n".encode()
        data = data[: TEXT // 2] + cut + data[-TEXT // 2 :]
    return data.decode(errors="replace")
