"""A baseline: what healthy machines of some hardware measured, to judge others of that hardware.

``assay baseline write`` makes one small signed file from calibrations, which names no host, site or
partition. ``assay baseline use`` turns it into :data:`FILE` beside ``references.yaml``, in the form
of ``calibrated.yaml``.

One machine is one witness. Its bounds are as wide as those of published results of one owner: 0.85
times the least rate, 1.5 times the longest time. What depends on the number of nodes is left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
import yaml
from reframe.core.config import load_config
from reframe.core.exceptions import ReframeError

from assay import files, metrics
from assay.archive.bundle import BundleError, Refused
from assay.archive.calibrate import CalibrationError, changes, launches
from assay.archive.certificate import signature
from assay.exits import Exit
from assay.judge import ReferencesError, peaks
from assay.judge.reference_files import Scalar
from assay.store import session
from assay.store.cases import Case
from assay.store.sanitize import line

FILE = "baseline.yaml"

#: The bounds of a rate and of a time, in times of the least and of the longest that was measured;
#: and on the other side, where a distance is a fault of the measurement, of the median.
RATE, TIME, ABOVE, BELOW = 0.85, 1.5, 0.5, -0.33

#: The quantiles of a metric; the first and the last are the extremes.
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

Place = Literal["storage", "inter-node", "intra-node"]

#: Name, place and hardware of each partition that names some.
Places = Sequence[tuple[str, str, Mapping[str, str]]]

_HEAD = "# Written by `assay baseline write`, and signed below. Any change makes it invalid.\n"
_SIGNED = "# -----BEGIN SSH SIGNATURE-----"
_Value = Annotated[float, msgspec.Meta(gt=0, le=1e150)]


class Quantiles(msgspec.Struct, forbid_unknown_fields=True):
    """A metric has unit and quantiles."""

    unit: str
    quantiles: Annotated[list[_Value], msgspec.Meta(min_length=7, max_length=7)]


class Measured(msgspec.Struct, forbid_unknown_fields=True):
    """An entry has case, place, hardware, stack, date, launches, nodes and metrics."""

    case: dict[str, Scalar]
    place: Place
    hardware: Annotated[dict[str, str], msgspec.Meta(min_length=1)]
    stack: dict[str, str]
    date: str
    launches: Annotated[int, msgspec.Meta(ge=2)]
    nodes: Annotated[int, msgspec.Meta(ge=0)]
    metrics: dict[str, Quantiles]


class Baseline(msgspec.Struct, forbid_unknown_fields=True):
    """A baseline has entries."""

    entries: Annotated[list[Measured], msgspec.Meta(min_length=1)]


def run_baseline(args: argparse.Namespace) -> int:
    site = args.folder / args.site
    try:
        system = load_config("<builtin>", str(site / "reframe.py"))["systems"][0]
        places = places_of(system["partitions"])
        said = _write(args, places) if args.action == "write" else _use(args, site, places)
    except Refused as refused:
        print(f"assay baseline: {args.file}: refused: {refused}", file=sys.stderr)
        return Exit.NOT_VALID
    except (
        *(BundleError, CalibrationError, ReferencesError, ReframeError, session.ReportError),
    ) as error:
        print(f"assay baseline: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    print(f"assay baseline: {said}")
    return Exit.PASS


def places_of(partitions: Sequence[Mapping[str, Any]]) -> Places:
    return [
        (partition["name"], place, dict(hardware))
        for partition in partitions
        for place in [next((word for word in get_args(Place) if word in partition["features"]), "")]
        if place and (hardware := partition.get("extras", {}).get("hardware"))
    ]


def of_calibration(
    samples: Sequence[launches.Sample], cases: Sequence[Case], places: Places
) -> list[dict[str, Any]]:
    """The entries of a file, from the launches of a calibration.

    :param cases: the cases of the same sessions.
    """
    known = {name: (place, hardware) for name, place, hardware in places}
    of = {tuple(case.key.items()): case for case in cases if case.recorded}
    found = []
    for sample in samples:
        case = of[tuple(sample.case.items())]
        place, hardware = known.get(case.partition, ("", {}))
        # The role without which the numbers say nothing of other machines.
        role = "gpu" if "gpu" in hardware else "processor"
        role = "link" if (place, case.kind) == ("inter-node", "network") else role
        role = "disk" if place == "storage" else role
        rates = {
            name: {"unit": str(unit), "quantiles": _quantiles(sample.metrics[name])}
            for name, unit in sample.units.items()
            if unit in metrics.UNITS and metrics.kind(unit) != "other"
        }
        of_all_nodes = len(case.hosts) > 2 and "ranks" not in case.parameters
        if of_all_nodes or not rates or role not in hardware:
            continue
        versions = {case.program: case.version, **{n: case.proof.get(n) for n in ("mpi", "ucx")}}
        key = {k: v for k, v in sample.case.items() if k not in ("partition", "environ")}
        stack = {name: line(said) for name, said in versions.items() if name and said}
        found.append({
            **{"case": key, "place": place, "hardware": hardware, "stack": stack},
            **{"date": str(sample.date), "launches": sample.launches, "nodes": len(sample.nodes)},
            "metrics": rates,
        })  # fmt: skip
    return found


def _quantiles(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [float(f"{ordered[round(q * (len(ordered) - 1))]:.6g}") for q in QUANTILES]


def as_references(baseline: Mapping[str, Any], places: Places) -> list[dict[str, Any]]:
    """The entries as references of the partitions with that place and all of that hardware."""
    found = []
    for each in baseline["entries"]:
        stack = ", ".join(f"{name} {version}" for name, version in each["stack"].items())
        where = f"baseline of {each['nodes']} nodes of this hardware, {stack}"
        names = [
            name
            for name, place, hardware in places
            if place == each["place"] and each["hardware"].items() <= hardware.items()
        ]
        if names:
            found.append({
                "for": {"partition": names, **each["case"]},
                "metrics": {name: _bounded(said) for name, said in each["metrics"].items()},
                "wide": "one machine is one witness: other healthy ones of this hardware differ",
                "source": {"date": each["date"], "n": each["launches"], "where": where},
            })  # fmt: skip
    return found


def _bounded(said: Mapping[str, Any]) -> dict[str, Any]:
    least, *_, most = said["quantiles"]
    middle = said["quantiles"][len(QUANTILES) // 2]
    rate = metrics.kind(said["unit"]) == "rate"
    lower, upper = (RATE * least / middle - 1, ABOVE) if rate else (BELOW, TIME * most / middle - 1)
    ends = {"lower": round(lower, 4), "upper": round(upper, 4)}
    return {"value": middle, "unit": said["unit"], **ends}


def signed(found: Sequence[Mapping[str, Any]], key: Path) -> str:
    """The text of a file with these entries."""
    document = {"entries": [*found]}
    text = _HEAD + yaml.safe_dump(document, default_flow_style=None, sort_keys=False)
    by = signature.sign(key, text.encode()).decode()
    return text + "".join(f"# {part}\n" for part in by.splitlines())


def _write(args: argparse.Namespace, places: Places) -> str:
    reports = args.reports or [session.newest(session.results())]
    sessions = [session.load_session(report) for report in reports]
    cases = [case for each in sessions for case in each.attempts]
    found = of_calibration(launches.samples(sessions, args.site), cases, places)
    if not found:
        raise BundleError(
            f"{args.folder / args.site}: no measured case is on a partition that names the hardware"
            " its numbers follow from; write it into the extra `hardware`"
        )
    files.write_file(args.file, signed(found, args.key), BundleError, files.ELSEWHERE)
    return f"{args.file}: {len(found)} cases, signed with {signature.fingerprint(args.key)}"


def _use(args: argparse.Namespace, site: Path, places: Places) -> str:
    document = files.read_yaml(args.file, BundleError)
    body, mark, rest = args.file.read_text(encoding="utf-8").partition(_SIGNED)
    if not mark or any(not part.startswith("# ") for part in (mark + rest).splitlines()):
        raise Refused("it does not end with a signature; assay baseline write makes one")
    by = "".join(part.removeprefix("# ") + "\n" for part in (mark + rest).splitlines())
    said = by.encode(), body.encode(), args.signers, str(args.file)
    key, name = signature.check_signature(*said)
    if not (name or args.any_signer):
        raise Refused(f"signed with the unknown key {key}: --signers names who may sign")
    if fault := files.misshapen(document, Baseline):
        raise Refused(fault)
    for each in document["entries"]:
        peaks.check_hardware(site, each["hardware"])
    if not (found := as_references(document, places)):
        of = sorted({f"{each['place']} {each['hardware']}" for each in document["entries"]})
        here = sorted(f"{place} {hardware}" for _, place, hardware in places)
        raise Refused(f"it is of {'; '.join(of)}; {site} has {'; '.join(here) or 'none named'}")
    head = f"# From a baseline signed by {name or key}: `assay baseline use`, never by hand.\n\n"
    files.write_file(site / FILE, head + changes.dumped(found), BundleError)
    judged = sum(len(each["metrics"]) for each in found)
    return f"{site / FILE}: {judged} metrics of {len(found)} cases, signed by {name or key}"
