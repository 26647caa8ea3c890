"""An output that somebody sent: ``assay judge``.

Nobody witnessed their launch. Only a log of UCX or NCCL in the output shows the path of the bytes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from assay import files, judge
from assay.exits import Exit
from assay.judge import Peak, Recorded, References, ReferencesError, Verdict, curves, peaks
from assay.judge.peaks import MOST_OF_PEAK
from assay.parse import Parsed, ParseError
from assay.parse.osu import TWO_RANKS
from assay.prove import transports
from assay.quantities import number
from assay.show.outputs import read, ways_of
from assay.store.cases import grouped
from assay.workloads.osu import SIZES

#: The share of the rate of a link that the best rate reaches: half of its lanes, or another path,
#: stay below.
LEAST_OF_LINK = 0.7

#: The least message that fills a link [B]: one of NCCL, and one of many at once. One message alone
#: also waits for the way there and back, so it must be longer (``curves.LONG``).
LONG_OF_NCCL, LONG_OF_MANY = 1 << 26, 1 << 16

#: Programs of two ranks, of one side, and those whose bandwidth counts both directions.
_TWO_RANKS = re.compile(r"IMB-\S+ (PingPong|PingPing|Uniband|Biband)\b.*|ib_.*|NPmpi|ucx_perf.*")
_ONE_SIDE = re.compile(r"osu_(put|get|acc|get_acc|fop|cas)_.*")
_BOTH_WAYS = re.compile(r"osu_(put_)?bibw|IMB-\S+ Biband")

#: Kind of link -> the lanes of UCX and the ways of NCCL that use it.
_LINKS = {
    "infiniband": re.compile(r"(rc|dc|ud|gga)_\w+/.*|NET/IB.*"),
    "nvlink": re.compile(r"cuda_ipc/.*|(P2P|NVLS)(/.*)?"),
}

_WITNESS = "nodes, other work, exit code: no launch was witnessed, and a text can be changed"
_LOGGED = "the path: UCX_LOG_LEVEL=info and UCX_PROTO_INFO=y, or NCCL_DEBUG=INFO, would show it"
_MACHINE = "what the machine should deliver: no --site is named, and no link that its messages fill"


def parse_command(args: argparse.Namespace) -> int:
    """Print the verdict on one output with its reasons."""
    site = args.folder / (args.site or "any")
    try:
        hardware = _pairs(args.hardware, "--hardware link=infiniband-hdr")
        if not (site / "references.yaml").exists():
            known = [path.parent.name for path in args.folder.glob("*/references.yaml")]
            raise ReferencesError(f"{site}: no such site; {files.nearest(site.name, known)}")
        peaks.check_hardware(site, hardware)
        link = peaks.peak(site, hardware, "link", "bandwidth")
        judged = _Judged(read(args.file, args.last_size), hardware.get("link", ""), link)
        if args.site:
            case = _pairs(args.case, "--case partition=NAME")
            judged.by(References.load(site / "references.yaml"), case)
    except (ParseError, ReferencesError) as error:
        named = f"{args.file}: " if isinstance(error, ParseError) else ""
        print(f"assay judge: {named}{error}", file=sys.stderr)
        return Exit.UNKNOWN
    verdict, parsed = judged.verdict, judged.parsed
    path = f", path {', '.join(judged.ways)}" if judged.ways else ""
    print(f"{verdict.value}: {args.file}, {parsed.program} {parsed.version or '?'}{path}")
    for its, why in judged.reasons:
        print(f"  {its.value}: {why}")
    for unknown, seen in ((_WITNESS, False), (_LOGGED, judged.ways), (_MACHINE, judged.compared)):
        if not seen:
            print(f"  not known: {unknown}")
    return Exit[verdict.name]


def _pairs(words: Sequence[str], like: str) -> dict[str, str]:
    if wrong := [word for word in words if not re.fullmatch(r"\w+=.+", word)]:
        raise ReferencesError(f"{wrong[0]!r}: write it like {like}")
    return dict(word.split("=", 1) for word in words)


class _Judged:
    """What is said of one output: each reason with its verdict."""

    def __init__(self, parsed: Parsed, name: str, link: float | None) -> None:
        self.parsed, self.name, self.link = parsed, name, link
        self.ways, self.nccl = ways_of(parsed), parsed.family == "nccl-tests"
        self.compared = False  # with what the machine should deliver
        self.reasons = [(Verdict.FAIL, problem) for problem in parsed.problems]
        if not parsed.complete:
            self.reasons.append((Verdict.FAIL, "the output is not whole"))
        fall_backs = (parsed.facts.get("path") or {}).get("fall_backs", ())
        self.reasons += [(Verdict.INCONCLUSIVE, f"NCCL: {said}") for said in fall_backs[:4]]
        self.pattern, self.tables = _pattern(parsed), _tables(parsed)
        for of, rows in self.tables.items():
            if self.pattern and (column := curves.column(rows)):
                most = link if column == "latency" else None
                pairs = 1 if parsed.program in TWO_RANKS else None
                found = curves.ratios(rows, self.pattern, peak=most, pairs=pairs)
                said = judge.judge_ratios([found])
                if said.verdict is not Verdict.PASS:
                    self.reasons.append((said.verdict, f"{of} {said.why}".strip()))
        if link is not None:
            self._way()
            self._rate(link)

    @property
    def verdict(self) -> Verdict:
        """PASS only if a value was compared, and a log shows the path."""
        own = Verdict.PASS if self.ways else Verdict.INCONCLUSIVE
        own = own if self.compared else Verdict.RECORDED
        return judge.worst([own, *(each for each, _ in self.reasons if each in judge.RED)])

    def _way(self) -> None:
        """Whether the log shows another path than the named link."""
        kind = next((kind for kind in _LINKS if self.name.startswith(kind)), "")
        astray = [way for way in self.ways if kind and not _LINKS[kind].fullmatch(way)]
        if self.nccl and kind == "infiniband" and astray != self.ways:
            # Between GPUs of one node NCCL takes other ways.
            astray = [way for way in astray if way.startswith("NET/")]
        if astray:
            said = f"the bytes took {', '.join(astray)}, which is not {self.name}"
            self.reasons.append((Verdict.FAIL, said))

    def _rate(self, link: float) -> None:
        """Whether the best rate reaches that of the link in one direction [MB/s]."""
        parsed = self.parsed
        long = LONG_OF_MANY if "bw" in parsed.program else curves.LONG
        long = LONG_OF_NCCL if self.nccl else long
        columns = [name for name in parsed.units if name.startswith("bus_bandwidth")]
        if self.pattern and not self.pattern.startswith("collective"):
            columns = ["bandwidth"] * ("bandwidth" in parsed.units)
        rows = [row for row in parsed.rows if int(row.get("size", 0)) >= long]
        rates = [float(row[name]) for row in rows for name in columns]
        if not rates:
            return
        told = parsed.facts.get("bidirectional") or "bidirectional" in parsed.facts.get("modes", ())
        both = told or _BOTH_WAYS.match(parsed.program)
        best = max(rates) * (1e3 if self.nccl else 0.5 if both else 1)
        self.compared, share = True, best / link
        verdict, wanted = Verdict.PASS, f"at least {LEAST_OF_LINK:.0%} is expected"
        if share > MOST_OF_PEAK:
            verdict, wanted = Verdict.INCONCLUSIVE, "is it another link, or are they several?"
        elif share < LEAST_OF_LINK and both:
            verdict, wanted = Verdict.INCONCLUSIVE, "measure one direction: both may share a bus"
        elif share < LEAST_OF_LINK:
            verdict = Verdict.FAIL
        said = f"it reached {number(best)} MB/s in one direction, {share:.0%} of {self.name}"
        self.reasons.append((verdict, f"{said}; {wanted}"))

    def by(self, references: References, case: Mapping[str, str]) -> None:
        """Compares its values with the references of a site, which raise ReferencesError."""
        case = {"benchmark": self.parsed.program.removeprefix("osu_"), **case}
        values, before, why = _metrics(self.parsed), len(self.reasons), "no reference fits"
        peak = Peak(self.name, self.link) if self.link else None
        for name, (value, unit) in values.items():
            try:
                expected = references.find(case, name, unit, peak)
            except ReferencesError as error:
                why = str(error)
                continue
            if not isinstance(expected, Recorded):
                said = judge.judge([value], expected)
                self.reasons.append((said.verdict, f"{name}: {said.why} ({expected.source})"))
        if len(self.reasons) == before:
            has = "; ".join(references.having(values)) or f"no value of {self.parsed.program}"
            raise ReferencesError(f"{references.path}: {why}; --case says which: it has {has}")
        self.compared = True


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


def _metrics(parsed: Parsed) -> dict[str, tuple[float, str]]:
    """Value and unit of each metric, by the names that the tests of the suite give them."""
    found = {}
    for row in parsed.rows:
        at = SIZES.get(int(row.get("size", 0)), "")
        if at or len(parsed.rows) == 1:
            for column, unit in parsed.units.items():
                found[f"{column}_{at}" if at else column] = float(row[column]), unit
    return found
