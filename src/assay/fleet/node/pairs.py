"""Measures pairs of nodes with ucx_perftest or perftest, round after round.

Start ``python3 pairs.py plan.json`` in a directory that all nodes share. In addition to the entries
of a meeting, the plan has:

===============  ================================================================================
``rounds``       lists of pairs of ranks; no rank is twice in one list. Instead of a list there may
                 be a round under load: ``pairs``, and for each pair its ``tests``: name ->
                 launches, and how many times the chosen iterations. The first launches of
                 all pairs begin at the same time
``draw``         a command that reads the log and prints the ``rounds``; they replace those of the
                 plan. Null or absent: the plan has them
``width``        number of pairs of a round that run at the same time; null for all
``together``     whether all pairs of a round also begin each launch at the same time, because they
                 are to share a link. Absent: each begins when its last launch has ended
``tests``        name -> ``options``, ``launches`` for each pair, and the ``iterations`` of a first
                 trial. The program is ucx_perftest, or a ``program`` whose server and client take
                 the same options, on a ``device`` of its own. If a line of its output begins with
                 one of the texts ``unmeasured``, it is launched again, a few times at most
``seconds``      intended duration of all launches of a test, which may have its own; trials
                 choose the iterations. Null: they stay as they are
``limit``        longest duration of a launch [s]
``environment``  variables of the program
``device``       its network device, as UCX names it
``resent``       counters of a port that grow when packets are sent again
``cpus``         processor of the server and of the client; null for no binding
``advice``       a command that reads the log and prints what to do next: ``again``, whether
                 to repeat all rounds, and the ``rounds`` of the second pass. Null: one pass
``repeats``      the most times that all rounds are played
===============  ================================================================================
"""

import atexit
import contextlib
import glob
import itertools
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import meeting
import port_counters
import provenance

PROGRAM = "ucx_perftest"

#: A trial measures the speed if it takes this share of the wanted time, without the start-up.
ENOUGH = 0.25
MOST_ITERATIONS = 10**8
#: Number of pairs that are tried for this at most.
TRIALS = 4

#: Launches of a program that says that it could not measure, at most.
ATTEMPTS = 4

#: A node that never succeeded is skipped after this number of failures with healthy partners.
PATIENCE_WITH_A_NODE = 3


class Failed(Exception):
    """A pair gave no value; the message gives the reason.

    :param at: the node that is at fault; empty if either may be.
    :param follows: whether only another pair of the round is at fault.
    """

    def __init__(self, reason, at="", follows=False):
        super().__init__(reason)
        self.at = [at] if at else []
        self.follows = follows


# --- what each node does ------------------------------------------------------------------------


class Bench:
    """Runs one side of a pair: the processes of this node, one at a time."""

    def __init__(self, plan):
        self.plan = plan
        self.folder = tempfile.mkdtemp(prefix="assay-pairs-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.process = None
        self.plain = ()
        self.device = plan.get("device")
        if all("program" in test for test in plan["tests"].values()):
            return
        with contextlib.suppress(OSError):  # each order will report that the program is missing
            # If it was built with MPI, it expects to be started by mpirun unless an option is set.
            usage = meeting.Process([PROGRAM, "-h"], {"UCX_LOG_LEVEL": "fatal"}, self.folder)
            if "-P <0|1>" in usage.end(20)["out"]:
                self.plain = ("-P", "0")

    def work(self, order):
        """Carry out an order and return the answer; the order None is the last one."""
        if order is None:
            return self._stop()
        try:
            return getattr(self, order["do"])(order)
        except OSError as error:
            self._stop()
            return {"error": f"{error.filename or PROGRAM}: {error.strerror}"}

    def serve(self, order):
        """Start a server and return where it listens."""
        self._stop()
        for _ in range(3):  # another program may take the free port first
            with socket.socket() as probe:
                probe.bind(("", 0))
                port = probe.getsockname()[1]
            self._start(0, port, [], order)
            if self._listens(port):
                name = (self.device or "").partition(":")[0]  # a device of verbs has no address
                address = name and provenance.address(name)
                return {"port": port, "addresses": [address] if address else meeting.addresses()}
            said = self._end(0)
        return {"error": "the server does not listen: " + meeting.last_line(said["out"])}

    def connect(self, order):
        """Run a client to its end and return its output."""
        self._stop()
        self._start(1, order["port"], [order["address"]], order)
        return self._end(self.plan["limit"])

    def finish(self, order):
        """End the server and return its output."""
        return self._end(5 if order["well"] else 0)

    def _start(self, role, port, to, order):
        self.device = order["device"]
        cpus = self.plan["cpus"]
        # Only ucx_perftest has this option.
        own = [*self.plain, *(["-c", str(cpus[role])] if cpus else [])]
        own = own if order["program"] == PROGRAM else []
        log = os.path.join(self.folder, "ucx.%p.log")
        environment = dict(self.plan["environment"], UCX_LOG_FILE=log)
        self.before = self._counted()
        words = [order["program"], *to, *own, "-p", str(port), *order["options"]]
        with meeting.uninterrupted():
            self.process = meeting.Process(words, environment, self.folder)

    def _listens(self, port):
        end = time.monotonic() + 5
        local = f":{port:04X}"
        while self.process.running() and time.monotonic() < end:
            for table in ("/proc/net/tcp", "/proc/net/tcp6"):
                rows = map(str.split, (provenance.read(table) or "").splitlines())
                if any(row[1].endswith(local) and row[3] == "0A" for row in rows):
                    return True
            time.sleep(0.01)
        return False

    def _end(self, limit):
        done = self.process.end(limit)
        self.process = None
        for name, begin, end in zip(("bytes", "repairs"), self.before, self._counted()):
            known = begin is not None and end is not None
            done[name] = [b - a for a, b in zip(begin, end)] if known else None
        # This includes the logs of child processes, if there are any.
        done["log"] = ""
        for path in sorted(glob.glob(os.path.join(self.folder, "ucx.*.log"))):
            with open(path, "rb") as file:
                done["log"] += meeting.shorten(file.read())
            os.unlink(path)
        return done

    def _counted(self):
        return counters(self.device), repairs(self.device, self.plan.get("resent", ()))

    def _stop(self):
        if self.process:
            self._end(0)


def counters(device):
    """Bytes that a network device has received and sent, empty if it counts neither.

    None if there is no such device. A port that counts packets has moved at most these bytes.
    """
    name = (device or "").partition(":")[0]
    link = Path("/sys/class/net", name, "statistics")
    with contextlib.suppress(OSError, ValueError):
        return [int((link / count).read_text()) for count in ("rx_bytes", "tx_bytes")]
    port = port_counters.of_port(device or "")
    return None if port is None else list((port_counters.traffic(port) or ())[:2])


def repairs(device, resent):
    """Number of packets that a node sent, and number sent again; None if they are not counted.

    They are those of the port, with its counters `resent`, or else the TCP segments of the node.
    """
    port = port_counters.of_port(device or "")
    if port is not None:
        packets = port_counters.packets(port)
        return packets and [packets[1], sum(port.get(name, 0) for name in resent)]
    try:
        with open("/proc/net/snmp") as file:
            names, values = (line.split() for line in file if line.startswith("Tcp:"))
        tcp = dict(zip(names, values))
        return [int(tcp["OutSegs"]), int(tcp["RetransSegs"])]
    except (OSError, ValueError, KeyError):
        return None


# --- what rank 0 does ---------------------------------------------------------------------------


class Tournament:
    """Gives the orders, pair by pair, and writes the results into the log."""

    def __init__(self, plan, members, log):
        self.plan, self.members, self.log = plan, members, log
        self.iterations = {name: test["iterations"] for name, test in plan["tests"].items()}
        self.well = set()
        self.failures = {}

    def play(self, rounds, number):
        """Measure all pairs of some rounds; `number` counts the passes from 1."""
        for round_ in rounds:
            under_load = isinstance(round_, dict)
            asked = round_["pairs"] if under_load else round_
            tests = round_["tests"] if under_load else itertools.repeat(None)
            tried = {rank for rank, n in self.failures.items() if n >= PATIENCE_WITH_A_NODE}
            pairs = [pair for pair in asked if not tried & {*pair}]
            if not pairs or (under_load and pairs != asked):
                continue  # a pair that is left alone would be missing from the load
            width, begin = self.plan["width"] or len(pairs), None
            if under_load or self.plan.get("together"):
                width, begin = len(pairs), threading.Barrier(len(pairs))
                self.choose_iterations(pairs)  # within a group a pair is faster than across
            with ThreadPoolExecutor(width) as pool:
                results = list(pool.map(self._pair, pairs, itertools.repeat(begin), tests))
            for (a, b), result in zip(pairs, results):
                self.log.add(dict(result, a=a, b=b, number=number))
                self._remember(a, b, not result["error"])

    def choose_iterations(self, pairs):
        """Choose the iterations by trials of the first of some pairs that works.

        If no trial works, or none is wanted, the iterations stay as they are. A trial that fails is
        written into the log as pass 0: a fault may come once, and the rounds may not meet it.
        """
        for a, b in pairs[:TRIALS] if self.plan["seconds"] is not None else ():
            try:
                chosen = {name: self._by_trial(name, a, b) for name in self.plan["tests"]}
            except (meeting.Lost, Failed) as error:
                self.log.add(dict(_failed(error), runs=[], a=a, b=b, number=0))
                continue
            self.iterations = chosen
            return

    def _by_trial(self, name, a, b):
        test = self.plan["tests"][name]
        count, least = test["iterations"], None
        wanted = test.get("seconds", self.plan["seconds"]) / test["launches"]
        while True:
            took = self._test(name, a, b, count)["client"]["seconds"]
            least = took if least is None else min(took, least)
            spent = took - least
            if spent >= ENOUGH * wanted or count >= MOST_ITERATIONS:
                return max(1, int(count * wanted / max(spent, 1e-9)))
            count *= 4

    def _pair(self, pair, begin, own):
        """Run the tests of a pair: those of the plan, or its `own` ones.

        All launches wait for the barrier `begin`, and only the first one of `own` tests.
        """
        a, b = pair
        result = {"error": "", "at": [], "runs": []}
        tests = own or {name: (test["launches"], 1) for name, test in self.plan["tests"].items()}
        try:
            for name, (launches, times) in tests.items():
                for launch in range(launches):
                    # The nodes take turns as the server, to test both directions and both roles.
                    serving, calling = (b, a) if launch % 2 else (a, b)
                    together = None if own and result["runs"] else begin
                    count = times * self.iterations[name]
                    run = self._measured(name, serving, calling, count, together)
                    result["runs"].append(dict(run, test=name, serving=serving))
        except (meeting.Lost, Failed) as error:
            result.update(_failed(error))
            if begin:
                begin.abort()  # the other pairs of the round must not wait for this one
        return result

    def _measured(self, name, a, b, count, begin=None):
        """As `_test`, but launched again while one side says that it could not measure."""
        texts = tuple(self.plan["tests"][name].get("unmeasured", ()))
        for _ in range(ATTEMPTS):
            run = self._test(name, a, b, count, begin)
            lines = run["client"]["out"].splitlines() + run["server"]["out"].splitlines()
            if not any(line.startswith(texts) for line in lines):
                break
            begin = None  # the other pairs do not wait for it again
        return run

    def _test(self, name, a, b, count, begin=None):
        """Run one test; returns the answers of server and client, and the times of rank 0 [s].

        `begin` is a barrier that the client waits for, with those of the other pairs. Raises Failed
        or meeting.Lost.
        """
        for rank in (a, b):
            if rank not in self.members:
                raise Failed(f"rank {rank} did not come")
        server, client = self.members[a], self.members[b]
        test = self.plan["tests"][name]
        options = [*test["options"], "-n", str(count)]
        program = test.get("program", PROGRAM)
        same = {"program": program, "device": test.get("device", self.plan.get("device"))}
        serve = dict(same, do="serve", options=options)
        if program == PROGRAM:  # its client tells the server what to do
            serve["options"] = []
            options += ["-w", str(max(1, count // 10))]
        where = self._checked(server, server.ask(serve, 20), program)
        order = {"do": "connect", "address": where["addresses"][0], "port": where["port"]}
        order.update(same, options=options)
        said = None
        try:
            if begin:
                begin.wait(self.plan["limit"] + 30)
            began = time.monotonic()
            said = client.ask(order, self.plan["limit"] + 10)
            ended = time.monotonic()
        except threading.BrokenBarrierError:
            reason = "another pair of its round failed: they did not run together"
            raise Failed(reason, follows=True) from None
        finally:
            well = bool(said) and said.get("rc") == 0
            served = server.ask({"do": "finish", "well": well}, 20)
        for member, answer in ((client, said), (server, served)):
            # Name the stopped node: its partner waited for it in vain and is not at fault.
            if answer.get("stopped"):
                raise Failed(f"{member.host}: {program} was stopped and never went on", member.host)
        self._checked(client, said, program)
        self._checked(server, served, program)
        times = {"began": began, "ended": ended}
        return {"iterations": count, "client": said, "server": served, **times}

    @staticmethod
    def _checked(member, answer, program):
        if answer.get("error"):
            raise Failed("{}: {}".format(member.host, answer["error"]), member.host)
        if "rc" in answer and answer["rc"] is None:
            raise Failed(f"{member.host}: {program} did not end in time")
        if answer.get("rc"):
            said = meeting.last_line(answer["log"] or answer["out"])
            what = "{}: {} ended with exit code {}: {}"
            raise Failed(what.format(member.host, program, answer["rc"], said))
        return answer

    def _remember(self, a, b, well):
        if well:
            self.well |= {a, b}
            return
        for rank, other in ((a, b), (b, a)):
            if other in self.well and rank not in self.well:
                self.failures[rank] = self.failures.get(rank, 0) + 1


def _failed(error):
    """What the log says of a pair that gave no value."""
    follows = getattr(error, "follows", False)
    return {"error": str(error), "at": getattr(error, "at", []), "follows": follows}


def preside(plan, members, log):
    """The part of rank 0: the first pass, repeated while it is inconclusive, and the second."""
    if plan.get("draw"):
        try:
            plan["rounds"] = meeting.advice(plan["draw"])["rounds"]
        except meeting.NoAdvice as error:
            # The rounds of the plan are played: they need no knowledge of the nodes.
            log.add({"no_draw": str(error)})
    tournament = Tournament(plan, members, log)
    tournament.choose_iterations([pair for pairs in plan["rounds"] for pair in pairs])
    try:
        for left in range(plan["repeats"], 0, -1):
            tournament.play(plan["rounds"], 1)
            if plan["advice"] is None:
                return
            then = meeting.advice(plan["advice"])
            if not then["again"] or left == 1:
                break
        tournament.play(then["rounds"], 2)
    except (Failed, meeting.NoAdvice) as error:
        log.add({"no_second_pass": str(error)})


if __name__ == "__main__":
    meeting.hold(sys.argv[1], preside, lambda plan: Bench(plan).work)
