"""What an output says of a machine: ``assay judge``, without its files and its words on a screen.

The numbers are compared as in a run: with the references of a site, with what healthy machines of
the hardware publish, and with the bounds of any machine. The hardware is what the caller or the
output states. Nobody witnessed the launch, so an output is a PASS only if a log in it shows the
path, and if nothing of it is missing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from assay import judge, metrics
from assay.judge import Peak, Reference, References, ReferencesError, Verdict, curves, peaks
from assay.judge.references import ANY
from assay.opinions import stated
from assay.opinions.metrics_of import metrics_of, size_of
from assay.opinions.on_node import OF_NODES, NodeRun
from assay.opinions.pasted import BROKE, Sent
from assay.parse import Parsed
from assay.parse.osu import TWO_RANKS
from assay.prove import transports
from assay.quantities import number
from assay.show.outputs import ways_of
from assay.store.cases import grouped

#: The share of the rate of a link that the best rate reaches: half of its lanes, or another path,
#: stay below. A message alone also waits for the way there and back, and a library may copy it: the
#: lowest published healthy one had 0.42 (``floors.yaml``, Imb).
LEAST_OF_LINK, LEAST_ALONE = 0.7, 0.35

#: The least message that fills a link [B]: one of NCCL, and one of many at once. One message alone
#: also waits for the way there and back, so it must be longer (``curves.LONG``).
LONG_OF_NCCL, LONG_OF_MANY = 1 << 26, 1 << 16

#: How much slower than a smaller message a longer one moves, in one direction between two ranks:
#: within a node, where messages outgrow a cache, and elsewhere. Of some 200 healthy curves of
#: others (aistabci/abci2.0benchmark, stackhpc/hpc-tests, hpc-uk/archer-benchmarks) none fell by
#: more than 2.6, and between nodes by more than 1.64.
FALLS_IN_CACHES, FALLS = 3.0, 2.0

#: Programs of two ranks, of one side, and those whose bandwidth counts both directions.
_TWO_RANKS = re.compile(r"IMB-\S+ (PingPong|PingPing|Uniband|Biband)\b.*|ib_.*|NPmpi|ucx_perf.*")
_PAIR = re.compile(r"IMB-\S+ PingPong\b.*|ib_.*|NPmpi|ucx_perf.*|osu_(put|get)_bw")
#: Those with one message on its way: it also waits for the way there and back.
_ALONE = re.compile(r"IMB-\S+ Ping\w+\b.*|\w*_lat\w*|NPmpi")
_ONE_SIDE = re.compile(r"osu_(put|get|acc|get_acc|fop|cas)_.*")
_BOTH_WAYS = re.compile(r"osu_(put_)?bibw|IMB-\S+ (Biband|PingPing)")

#: Kind of link -> the lanes of UCX and the ways of NCCL that use it.
_LINKS = {
    "infiniband": re.compile(r"(rc|dc|ud|gga)_\w+/.*|NET/IB.*"),
    "roce": re.compile(r"(rc|dc|ud|gga)_\w+/.*|NET/IB.*"),
    "nvlink": re.compile(r"cuda_ipc/.*|(P2P|NVLS)(/.*)?"),
}

#: Test -> what its rates are a share of: role and quantity. Those of the others are of the link.
_PEAKS = {
    "BabelStreamGpu": ("gpu.memory_bandwidth",),
    "GpuHplStudy": ("gpu.fp64_matrix", "gpu.fp64"),
    **dict.fromkeys(("Stream", "BabelStream", "Hpcg"), ("memory.bandwidth",)),
    "Hpl": ("processor.fp64",),
    "Hpcc": (),
}

#: What looks wrong -> what it usually means.
CAUSES = {
    "falls": "usually the switch to rendezvous failed: a copy through the host, memory that cannot "
    "be registered (ulimit -l), one rail of several; in one node, messages that outgrow a cache",
    "slow": "usually another path (TCP, one rail of several, half a slot of PCIe), a link that "
    "trained slower, ranks far from the device, or a clock that is held low",
    "node": "usually ranks or threads that share cores or are all on one socket, memory in too few "
    "channels or far from them, or a clock that is held low",
    "dent": "usually other work in that moment, or a switch of protocols: run it again",
}


class Evidence(msgspec.Struct, frozen=True):
    """One statement on an output, with what it makes of the verdict."""

    verdict: str
    why: str


class Answer(msgspec.Struct, kw_only=True):
    """What is said of one output; ``assay judge --json`` prints it.

    :ivar file: where the output is, with the line where it begins if it is not the only one.
    :ivar verdict: PASS, FAIL, INCONCLUSIVE or RECORDED; `not read` if no parser reads it, `not
        judged` if the site has no reference for it.
    :ivar answer: the answer in a sentence.
    :ivar hardware: role -> name in the catalogue, and who says so.
    :ivar path: lanes of UCX or ways of NCCL that a log in the output shows.
    :ivar evidence: each statement, the worst first.
    :ivar unknown: what the text cannot say.
    :ivar next: the command or the step that would decide.
    """

    file: str
    verdict: str
    answer: str
    program: str = ""
    version: str | None = None
    hardware: dict[str, str] = {}
    path: list[str] = []
    evidence: list[Evidence] = []
    unknown: list[str] = []
    next: str = ""
    notes: list[str] = []


class Asked(msgspec.Struct, frozen=True):
    """What the caller says: hardware by role, the case, and the site whose references judge."""

    site: Path
    hardware: Mapping[str, str] = {}
    case: Mapping[str, str] = {}
    named: bool = False


_LOGGED = "the path: UCX_LOG_LEVEL=info and UCX_PROTO_INFO=y, or NCCL_DEBUG=INFO, would show it"
_RANKS = (
    "what these ranks should need: their number, their nodes and the algorithm decide, and no "
    "table of a collective states all three"
)
_MACHINE = "what the machine should deliver: no --site is named, and no link that its messages fill"


def answer(sent: Sent, asked: Asked) -> Answer:
    """The answer on one output that a parser has read.

    :raises ReferencesError: the site has no reference for it, or a file cannot be read.
    """
    return _Answered(sent, asked).said()


class _Answered:
    """What is said of one output: each reason with its verdict."""

    def __init__(self, sent: Sent, asked: Asked) -> None:
        assert sent.parsed is not None
        self.parsed, self.sent, self.asked = sent.parsed, sent, asked
        parsed = self.parsed
        self.hardware = stated.hardware_of(
            [sent.text, sent.around], parsed, asked.site, asked.hardware
        )
        self.parts = {role: name for role, (name, _) in self.hardware.items()}
        self.name = self.parts.get("link", "")
        self.link = peaks.peak(asked.site, self.parts, "link", "bandwidth")
        node = stated.node_of(sent.around, asked.case)
        self.run = NodeRun(parsed, node, self.parts, asked.site)
        self.ways, self.nccl = ways_of(parsed), parsed.family == "nccl-tests"
        self.pattern = _pattern(parsed)
        self.collective = self.pattern.startswith("collective") and "latency" in parsed.units
        #: Whether the path is known: a log shows it, or there is no other one.
        self.sure = bool(self.ways) or not (self.pattern or self.nccl)
        #: What a low value means: a port beside an output may not have carried its bytes.
        known = self.ways or "link" in asked.hardware or not (self.name and self.pattern)
        self.low = Verdict.FAIL if known else Verdict.INCONCLUSIVE
        #: What a good value rests on, and what the text does not say.
        self.given, self.doubts = f"the bytes took {self.name}", dict[str, str]()
        self.share = ""  # of the node's peak, if nothing says whether that is right
        self.compared = False  # with what the machine should deliver
        self.meaning = self.astray = ""  # a key of CAUSES; the path that it should not have taken
        self.brief: dict[str, str] = {}  # reason -> what the sentence says of it
        self.log = parsed.family == "ucx-log"
        self.reasons = [(Verdict.FAIL, problem) for problem in parsed.problems[self.log :]]
        if not (parsed.complete or self.log):
            self.reasons.append((Verdict.FAIL, "the output is not whole"))
        self._broken()
        fall_backs = (parsed.facts.get("path") or {}).get("fall_backs", ())
        self.reasons += [(Verdict.INCONCLUSIVE, f"NCCL: {said}") for said in fall_backs[:4]]
        if self.link is not None:
            self._way()
        if parsed.rows:
            self._curves()
            if self.link is not None:
                self._rate(self.link)
            self._values()

    # --- the pieces of evidence

    def _broken(self) -> None:
        """Whether a line beside the numbers reports the end of a process, or of a device."""
        begin, end = self.sent.line - 1, self.sent.text.count("\n") + 1
        lines = filter(BROKE.search, self.sent.around.split("\n")[begin:end])
        for line in [line for line in lines if "ignoring" not in line.lower()][:1]:
            said = (
                f"the text also says {line.strip()[:120]!r}: find out what broke, and run it again"
            )
            self.reasons.append((Verdict.INCONCLUSIVE, said))

    def _curves(self) -> None:
        """Whether each curve can be, and whether a path carries its long messages, too."""
        intel = re.search(r"(?m)^\[\d+\] MPI startup\(\)|Intel\(R\) MPI", self.sent.text)
        for of, rows in _tables(self.parsed).items():
            if not self.pattern or not curves.column(rows):
                continue
            most = self.link if curves.column(rows) == "latency" else None
            pairs = 1 if self.parsed.program in TWO_RANKS else None
            by = curves.judged_as(self.pattern, False, "intelmpi" if intel else "openmpi")
            said = judge.judge_ratios([curves.ratios(rows, by, peak=most, pairs=pairs)])
            if said.verdict is not Verdict.PASS:
                self.reasons.append((said.verdict, f"{of} {said.why}".strip()))
                self.meaning = self.meaning or "dent"
            if self._one_pair(rows) and not self._both():
                self._fall(of, rows)

    def _one_pair(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Whether two ranks sent messages: the caches of many may hold all but the longest ones."""
        parsed = self.parsed
        ranks = {row.get("ranks", parsed.facts.get("ranks")) for row in rows}
        known = parsed.program in TWO_RANKS or _PAIR.fullmatch(parsed.program)
        return bool(known) or (bool(_TWO_RANKS.fullmatch(parsed.program)) and ranks == {2})

    def _both(self) -> bool:
        """Whether a rate counts both directions."""
        facts = self.parsed.facts
        told = facts.get("bidirectional") or "bidirectional" in facts.get("modes", ())
        return bool(told or _BOTH_WAYS.match(self.parsed.program))

    def _fall(self, of: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Whether longer messages move much slower than shorter ones, from one size on."""
        rates = [(size, size / time) for size, time in curves.times(rows) if size]
        best = list(accumulate((rate for _, rate in rates), max))
        lanes = any(re.match("(rc|dc|ud|gga|tcp|srd)[_/]", way) for way in self.ways)
        away = self.link or self.pattern == "gpu" or lanes
        most_falls = FALLS if away else FALLS_IN_CACHES
        slower = [
            (most / rate, size, rate, most)
            for (size, rate), most in zip(rates, best)
            if size >= LONG_OF_MANY and most > most_falls * rate
        ]
        if not slower:
            return
        _, size, rate, most = max(slower)
        said = (
            f"{of} messages of {size_in_words(size)} moved at {number(rate)} MB/s, "
            f"{rate / most:.0%} of the {number(most)} MB/s of shorter ones; healthy ones keep "
            f"{1 / most_falls:.0%} at least"
        )
        self.reasons.append((Verdict.INCONCLUSIVE, said.strip()))
        self.meaning = "falls"

    def _way(self) -> None:
        """Whether the log shows another path than the named link."""
        kind = next((kind for kind in _LINKS if self.name.startswith(kind)), "")
        astray = [way for way in self.ways if kind and not _LINKS[kind].fullmatch(way)]
        if self.nccl and kind == "infiniband" and astray != self.ways:
            # Between GPUs of one node NCCL takes other ways.
            astray = [way for way in astray if way.startswith("NET/")]
        if astray:
            self.astray = f"the bytes took {', '.join(astray)}, which is not {self.name}"
            self.reasons.append((Verdict.FAIL, self.astray))
            self.meaning = "slow"

    def _rate(self, link: float) -> None:
        """Whether each long message reaches the rate of the link in one direction [MB/s]."""
        parsed = self.parsed
        alone = not self.nccl and _ALONE.fullmatch(parsed.program) is not None
        many = "bw" in parsed.program
        long = LONG_OF_NCCL if self.nccl else LONG_OF_MANY if many else curves.LONG
        columns = [name for name in parsed.units if name.startswith("bus_bandwidth")]
        if self.pattern and not self.pattern.startswith("collective"):
            columns = ["bandwidth"] * ("bandwidth" in parsed.units)
        rows = [row for row in parsed.rows if size_of(row) >= long]
        both = self._both()
        scale = 1e3 if self.nccl else 0.5 if both else 1
        rates = [(scale * float(row[name]), int(row["size"])) for row in rows for name in columns]
        if not rates and self.pattern == "point-to-point" and "latency" in parsed.units:
            rates = [(n / time, n) for n, time in curves.times(parsed.rows) if n >= curves.LONG]
        if not rates:
            return
        best, _ = max(rates)
        in_a_node = self.nccl and parsed.facts.get("nodes") == 1
        # Only NVLink carries so much between the GPUs of a node: a slot of PCIe 6 has 121 GB/s.
        if in_a_node and self.name.startswith("nvlink") and best > 130_000:
            self.sure = True
        self.compared, share, least = True, best / link, LEAST_ALONE if alone else LEAST_OF_LINK
        verdict, wanted = Verdict.PASS, f"at least {least:.0%} is expected"
        # Where a switch adds (NVLS), a link carries a byte once and the bus bandwidth counts two.
        if share > peaks.MOST_OF_PEAK * (2 if self.nccl else 1):
            verdict, wanted = Verdict.INCONCLUSIVE, "is it another link, or are they several?"
        elif share < least and both:
            verdict, wanted = Verdict.INCONCLUSIVE, "measure one direction: both may share a bus"
        elif share < least:
            verdict, self.meaning = self.low, "slow"
        said = f"it reached {number(best)} MB/s in one direction, {share:.0%} of {self.name}"
        self.reasons.append((verdict, f"{said}; {wanted}"))
        low = [(rate, size) for rate, size in rates if size >= curves.LONG]
        if verdict is Verdict.PASS and low and not (both or self.nccl):
            worst, at = min(low)
            if worst < least * link:
                said = f"messages of {size_in_words(at)} moved at {number(worst)} MB/s"
                said = f"{said}, {worst / link:.0%} of {self.name}; {wanted}"
                self.reasons.append((self.low, said))
                self.meaning = self.meaning or "falls"

    def _values(self) -> None:
        """Compares the values with what the site, healthy machines and physics say."""
        references = _references(self.asked.site)
        why = f"{references.path}: no reference fits"
        before = len(self.reasons)
        found = list(metrics_of(self.parsed))
        self.doubts = self.run.lacks(found[0][0]["test"]) if found else {}
        for case, name, value, unit in found:
            told = {"system": "", "partition": "", "environ": "", **case, **self._transport(case)}
            on_gpu = "gpu" in self.parts or self.parsed.facts.get("implementation") in (
                "CUDA",
                "HIP",
            )
            if case["test"] == "BabelStreamGpu" and not on_gpu:  # Java, Julia, TBB...
                continue
            if case["test"] in ("Hpl", "Hpcg") and self.run.fills():
                told["profile"] = "full"
            try:
                expected, peak = self._expected(references, {**told, **self.asked.case}, name, unit)
            except ReferencesError as error:
                why = str(error)
                continue
            if isinstance(expected, judge.Recorded) or (
                expected.yardstick == ANY and self.asked.named
            ):
                continue
            said = judge.judge([value], expected)
            bad, own = said.verdict is not Verdict.PASS, expected.yardstick == ANY
            above = bad and value > (expected.upper_bound or value)
            # The named part may be another one, or not have carried the bytes.
            unsure = (above and peak) or not (own or self.asked.named or self.low is Verdict.FAIL)
            verdict = Verdict.INCONCLUSIVE if bad and unsure else said.verdict
            if case["test"] in OF_NODES and peak:
                if self.doubts and bad and not above:
                    self.share = f", {value / peak.value:.0%} of {peak.what}"
                    continue
                if caveat := self.run.caveat(case["test"]):
                    self.sure, self.given = False, caveat
            if expected.yardstick != ANY:
                self.compared = True
                low = "node" if case["test"] in OF_NODES else "slow"
                self.meaning = self.meaning or low * (bad and not above)
            if expected.yardstick != ANY or bad:
                why = f"{name}: {said.why} ({expected.source})"
                self.reasons.append((verdict, why))
                share = f", {value / peak.value:.0%} of {peak.what}" if peak else ""
                others = expected.source.partition(";")[0]
                self.brief[why] = f"{name} is {number(value)} {unit}{share}; {others}"
        if self.asked.named and len(self.reasons) == before:
            values = {name: (value, unit) for _, name, value, unit in found}
            has = "; ".join(references.having(values)) or f"no value of {self.parsed.program}"
            raise ReferencesError(f"{why}; --case and --hardware say which: it has {has}")

    def _transport(self, case: Mapping[str, Any]) -> dict[str, str]:
        """The transport that a log shows; else the usual one of the named link."""
        lanes = {way.partition("/")[0] for way in self.ways}
        if len(lanes) == 1:
            return {"transport": lanes.pop()}
        kind = self.name.partition("-")[0]
        usual = {"infiniband": "rc_mlx5", "roce": "rc_mlx5", "ethernet": "tcp"}.get(kind)
        return {"transport": usual} if usual else {}

    def _expected(
        self, references: References, case: Mapping[str, Any], name: str, unit: str
    ) -> tuple[Reference | judge.Recorded, Peak | None]:
        """The strongest yardstick of a metric, and the peak that it is a share of.

        :raises ReferencesError: the references of the site have nothing for it.
        """
        of = _PEAKS.get(str(case["test"]), ("link.bandwidth",))
        if "host" in name:  # a copy between host and GPU
            of = ("pcie.bandwidth",)
        bare: Reference | judge.Recorded | ReferencesError
        try:
            bare = references.find(case, name, unit, None, self.parts)
        except ReferencesError as error:
            bare = error
        if getattr(bare, "yardstick", ANY) == ANY:
            for peak in filter(None, (self._peak(each, unit) for each in of)):
                with contextlib.suppress(ReferencesError):
                    found = references.find(case, name, unit, peak, self.parts)
                    if getattr(found, "yardstick", ANY) != ANY:
                        return found, peak
        if isinstance(bare, ReferencesError):
            raise bare
        return bare, None

    def _peak(self, of: str, unit: str) -> Peak | None:
        """The peak of a role and quantity of the hardware, in a unit; None if it is not known."""
        role, _, quantity = of.partition(".")
        if of in ("memory.bandwidth", "processor.fp64"):
            return self.run.peak(of, unit)
        its = "MB/s" if quantity == "bandwidth" else peaks.UNITS[quantity]
        value = peaks.peak(self.asked.site, self.parts, role, quantity)
        scale = metrics.factor(its, unit)
        return Peak(self.parts[role], value * scale, of=of) if value and scale else None

    # --- the answer

    @property
    def verdict(self) -> Verdict:
        """PASS only if a value was compared, a log shows the path, and nothing may be missing."""
        own = Verdict.PASS if self.sure else Verdict.INCONCLUSIVE
        own = own if self.compared else Verdict.RECORDED
        if self.log or "ends_early" in self.parsed.facts:
            own = Verdict.INCONCLUSIVE
        return judge.worst([own, *(each for each, _ in self.reasons if each in judge.RED)])

    def said(self) -> Answer:
        unknown = [
            "nodes, other work, exit code: no launch was witnessed, and a text can be changed"
        ]
        if "processor" in self.parts and "processor" not in self.asked.hardware:
            unknown.append("whether it ran on the node that lscpu describes")
        if not self.sure:
            unknown.append(_LOGGED if self.pattern or self.nccl else f"whether {self.given}")
        if not self.compared:
            unknown += [*self.doubts] or [_RANKS if self.collective else _MACHINE]
        if (ended := self.parsed.facts.get("ends_early")) is not None:
            unknown.append(
                f"whether the table was told to end at {ended} B (-m), or was cut there: "
                f"--last-size {ended} says that it was told to"
            )
        worst_first = sorted(self.reasons, key=lambda reason: judge.worst_first(reason[0]))
        evidence = [Evidence(its.value, why) for its, why in worst_first]
        return Answer(
            file="", verdict=self.verdict.value, answer=self._sentence(),
            program=self.parsed.program, version=self.parsed.version, path=self.ways,
            hardware={role: f"{name} ({by})" for role, (name, by) in self.hardware.items()},
            evidence=evidence, unknown=unknown, next=self._next(), notes=list(self.sent.notes),
        )  # fmt: skip

    def _sentence(self) -> str:
        """The answer in a sentence: the worst reason, or the strongest good one."""
        verdict, parsed = self.verdict, self.parsed
        what = f"{parsed.program} {parsed.version or ''}".strip()
        bad = [why for its, why in self.reasons if its is verdict]
        good = [why for its, why in self.reasons[::-1] if its in judge.GREEN]
        path = f"; path {', '.join(self.ways)}" if self.ways else ""
        if self.log:
            return (
                f"a log of UCX alone: it shows {', '.join(self.ways) or 'no path'}, and no number"
            )
        if parsed.problems or not parsed.complete:
            return f"{what} did not end well: {bad[0]}"
        what = f"{what} measured {its}" if (its := measured(parsed)) else what
        if bad and verdict in judge.RED:
            # A comparison with other machines says more than one with the link.
            first = self.astray or next((why for why in bad if why in self.brief), bad[0])
            first = bad[0] if self.meaning == "falls" else first
            word = "not right" if verdict is Verdict.FAIL else "doubtful"
            usual = f"; {CAUSES[self.meaning]}" if self.meaning else ""
            why = self.brief.get(first, first).removeprefix("implausible: ")
            return f"{what}, which is {word}: {why}{path}{usual}"
        early = "; the table ends early: told to (-m), or cut?" * ("ends_early" in parsed.facts)
        if not self.compared:
            return f"{what}{self.share}, and nothing here says whether that is right{early}"
        word = "right" if self.sure else f"right if {self.given}, which nothing shows"
        return f"{what}, which is {word}: {self.brief.get(good[0], good[0])}{path}{early}"

    def _next(self) -> str:
        """The step that would decide."""
        if self.parsed.problems or not self.parsed.complete:
            return "send the whole output of one run, with what the launcher said at its end"
        logged = "NCCL_DEBUG=INFO" if self.nccl else "UCX_LOG_LEVEL=info UCX_PROTO_INFO=y"
        if self.meaning == "slow" and self.ways and not self.astray:
            return "on both nodes, compare the rate in ibstat and LnkSta in lspci -vv with LnkCap"
        if self.meaning == "node":
            return "run it again with OMP_PROC_BIND=spread OMP_PLACES=cores, and watch the clocks"
        if self.meaning in ("falls", "slow"):
            return f"run it again with {logged}"
        if self.meaning == "dent":
            return "run it again, with nothing else on the nodes"
        if not self.compared and self.doubts:
            return next(iter(self.doubts.values()))
        if not self.compared:
            gpus = self.parsed.family in ("babelstream", "nvbandwidth", "bandwidth-test")
            like = "gpu=h100-sxm5-80gb" if gpus else ""
            if self.collective:
                return (
                    "send osu_latency and osu_bw between two of these nodes, or compare it with a "
                    "site that measured it: --site SITE --case partition=NAME"
                )
            if self.name and (self.pattern or self.nccl):
                return "run it up to long messages: short ones say nothing of a link"
            like = "link=infiniband-hdr" if self.pattern or self.nccl else like
            if like:
                return f"assay judge FILE --hardware {like}; site-config/hardware/ has the names"
            return "compare it with a site: assay judge FILE --site SITE --case partition=NAME"
        if (ended := self.parsed.facts.get("ends_early")) is not None:
            return f"assay judge FILE --last-size {ended}, if it was told to end there"
        if self.sure or not (self.pattern or self.nccl):
            return "" if self.sure else f"make sure that {self.given}"
        return f"run it again with {logged}"


#: What an output is about, the most telling column first, and whether more is better.
_TELLING = {
    **dict.fromkeys(("bus_bandwidth", "performance", "bandwidth", "rate", "messages_per_s"), max),
    **dict.fromkeys(("latency", "time"), min),
}


def measured(parsed: Parsed) -> str:
    """What the program measured, in words: the best value of its most telling column, and where."""
    column = next((name for name in _TELLING if name in parsed.units), "")
    rows = [row for row in parsed.rows if isinstance(row.get(column), (int, float))]
    rows = [row for row in rows if row.get("size") != 0] or rows  # nothing is sent in no time
    if not rows:
        return ""
    best = _TELLING[column](rows, key=lambda row: float(row[column]))
    at = [size_in_words(n) if (n := size_of(best)) else str(best["size"])] if "size" in best else []
    at += [str(best[name]) for name in ("function", "kernel", "operation") if name in best]
    ranks = parsed.facts.get("ranks")
    at += [f"{ranks:g} ranks"] if isinstance(ranks, (int, float)) and ranks > 1 else []
    where = f" ({', '.join(at)})" if at else ""
    return f"{number(float(best[column]))} {parsed.units[column]} at best{where}"


def size_in_words(size: int) -> str:
    """A message size, such as ``4 MiB``; in B if it is no whole number of a unit."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size and size % (1 << power) == 0:
            return f"{size >> power} {unit}"
    return f"{size} B"


@cache
def _references(site: Path) -> References:
    return References.load(site / "references.yaml")


def _pattern(parsed: Parsed) -> str:
    """The pattern of ``judge/curves.yaml``; empty if the output has no such curve."""
    if parsed.facts.get("accelerator"):
        return "gpu"
    if _ONE_SIDE.fullmatch(parsed.program):
        return "one-sided"
    if transports.POINT_TO_POINT.match(parsed.program) or _TWO_RANKS.fullmatch(parsed.program):
        return "point-to-point"
    return "collective over a network" if parsed.family in ("osu", "osu-py", "imb") else ""


def _tables(parsed: Parsed) -> dict[str, list[Mapping[str, Any]]]:
    """The rows with a message size, of each program, number of ranks and way in the output."""
    parts = ("ranks", "test", "way", "memory")
    several = [at for at in parts if len({row.get(at) for row in parsed.rows}) > 1]
    named = (
        (" ".join(f"{at} {row[at]}" for at in several if row[at] != ""), row)
        for row in parsed.rows
        if "size" in parsed.units
    )
    return grouped(named)
