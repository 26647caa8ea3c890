"""The record of a test case: what was run, the evidence for it, and the verdict.

The record is one JSON object, ``assay.json``, beside the verbatim output of the case. A test writes
it, and the report reads all measured values from it. ReFrame's own run report lists the cases.
:class:`Record` is its shape; :mod:`assay.store.cases` reads one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from assay import declared, slurm
from assay import metrics as units
from assay.accused import Accusation
from assay.judge import Verdict
from assay.parse import Parsed
from assay.prove.busy import Others

FILE = "assay.json"

#: Start of the message about a case that other work on the machine disturbed.
BUSY = "the machine was busy"

#: Part of the message about a case that an error in the code of its test ended.
BROKEN = "is broken: "

#: Why the metrics of a calibration have no verdict.
CALIBRATION = "calibration run"

#: The architecture (``arch``) of a GPU that is software, and why its metrics have no verdict: it
#: proves a path, and no rate.
EMULATED = "emulated"
OF_SOFTWARE = "the GPUs are emulated: no number of them is of hardware"

#: Begin of the reason why a number is not judged by anything.
NO_MEASUREMENT = "says nothing of the machine: "

#: Version of the record. Increase it by one whenever a key changes its meaning.
SCHEMA = 1


class OfPeak(msgspec.Struct, omit_defaults=True):
    """The peak that a value is compared with, in `unit`, and the value in percent of it.

    :ivar what: what has this peak: a part that the same run measured, or one of the hardware.
    :ivar of: role and quantity of the hardware, see :class:`assay.judge.Peak`.
    """

    what: str = ""
    peak: float | None = None
    unit: str = ""
    percent: float | None = None
    of: str = ""


class Metric(msgspec.Struct):
    """One judged or recorded number of a test case.

    :ivar value: in `unit`; None where the record has no finite number.
    :ivar reference: the expected value. `lower` and `upper` are its bounds. All are in `unit`.
    :ivar yardstick: what it was judged by, one of :data:`assay.judge.YARDSTICKS`; in a record that
        does not say so the site's reference.
    :ivar samples: the value of each launch.
    :ivar origin: the formula of each sample (:mod:`assay.parse.formulas`).
    """

    name: str
    value: float | None = None
    unit: str = ""
    verdict: Verdict = Verdict.FAIL
    why: str = ""
    samples: tuple[float, ...] = ()
    reference: float | None = None
    lower: float | None = None
    upper: float | None = None
    source: str = ""
    yardstick: str | None = None
    percent_of: OfPeak | None = None
    origin: Any = None


class Output(msgspec.Struct):
    """What the parser read from the output: :class:`assay.parse.Parsed`.

    :ivar rows: the whole curve or table; `units` holds the unit of each column.
    """

    family: str = ""
    program: str = ""
    version: str = ""
    complete: bool = False
    problems: tuple[str, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    units: dict[str, str] = {}
    facts: dict[str, Any] = {}


class Seconds(msgspec.Struct):
    """Wall time inside the benchmark itself [s], 0 where unknown; and its start since the epoch."""

    benchmark: float = 0.0
    began: float | None = None


class Settings(msgspec.Struct, omit_defaults=True):
    """What steered the launch: files and variables of the machine, of the job and of its ranks.

    :ivar sha256: the digest of those of the machine.
    """

    sha256: str = ""
    machine: dict[str, str] = {}
    job: dict[str, str] = {}
    ranks: dict[str, str] = {}


class Record(msgspec.Struct):
    """The content of ``assay.json``.

    :ivar verdict: None until the metrics are judged.
    :ivar device: the network devices between the nodes of its partition; empty if it has no such.
    :ivar proves: what is at fault -> the metrics that would show it.
    :ivar units: the kind of each unit that the test brought.
    :ivar hardware: role -> name of the hardware of the partition, in ``site-config/hardware/``.
    :ivar jobs: how the job of each launch ended, if Slurm ran it.
    :ivar launches: how many launches the verdict is based on.
    :ivar problems: why the launch cannot be believed, one line each.
    :ivar doubts: settings outside of the plan that may have changed its numbers, one line each.
    :ivar notes: settings outside of the plan that change no number, one line each.
    :ivar busy: what other work took of the machine, if the case could not be decided for that.
    :ivar not_judged: what was out of bounds then, if the site judges nothing beside other work.
    :ivar again: the launch passed, and the case needs more launches to pass.
    :ivar curve: the pattern by which the curve is judged; `once`: what a launch pays once [us], by
        message size.
    :ivar second_look: the nodes that a sweep measured again; None for another test.
    :ivar more: what only this test finds, by keys of its own.
    """

    test: str
    display_name: str
    unique_name: str
    system: str
    partition: str
    environ: str
    verdict: Verdict | None = None
    scheduler: str = ""
    device: str = ""
    kind: str = ""
    profile: str = ""
    purpose: str = ""
    parameters: dict[str, Any] = {}
    figures: tuple[declared.Figure, ...] = ()
    proves: dict[str, tuple[str, ...]] = {}
    units: dict[str, str] = {}
    nodes: tuple[str, ...] = ()
    jobs: tuple[slurm.Ended, ...] = ()
    stack: str = ""
    hardware: dict[str, str] = {}
    launches: int = msgspec.field(default=1, name="attempts")
    family: str = ""
    program: str = ""
    version: str = ""
    transport: str = ""
    parsed: Output = msgspec.field(default_factory=Output)
    seconds: Seconds = msgspec.field(default_factory=Seconds)
    settings: Settings = msgspec.field(default_factory=Settings)
    others: Others | None = None
    proof: dict[str, Any] = {}
    provenance: dict[str, Any] = {}
    node_health: dict[str, Any] = {}
    machine: tuple[dict[str, Any], ...] = ()
    metrics: tuple[Metric, ...] = ()
    problems: tuple[str, ...] = ()
    accused: tuple[Accusation, ...] = ()
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    busy: str = ""
    not_judged: tuple[str, ...] = ()
    again: bool = False
    curve: str = ""
    once: dict[str, float] = {}
    second_look: tuple[str, ...] | None = None
    more: dict[str, Any] = {}


#: The record of a case of which nothing is known.
NONE = Record("", "", "", "", "", "")

#: The keys that are in each file, also if their value is empty.
ALWAYS = {
    "accused", "attempts", "doubts", "figures", "node_health", "nodes", "notes", "parameters",
    "problems", "proves", "units", "verdict",
}  # fmt: skip


def begin_record(test: Any, case: dict[str, Any], jobs: Sequence[Any]) -> Record:
    """The record of a launch before its output is read.

    :param test: a :class:`assay.run.strict.StrictCheck` after its setup.
    :param case: the keys by which the references of the case are looked up.
    :param jobs: the jobs of ReFrame of its launches, this one last.
    """
    named = {key: case.pop(key) for key in ("test", "system", "partition", "environ", "profile")}
    place, extras = test.current_partition, test.current_partition.extras
    return Record(
        **named,
        display_name=test.display_name,
        unique_name=test.unique_name,
        scheduler=place.scheduler.registered_name,
        kind=test.kind,
        purpose=test.purpose,
        parameters=case,
        figures=tuple(test.figures),
        proves=declared.proven_by(test.proves, test.declares),
        units=units.own(test.declares.values()),
        nodes=tuple(jobs[-1].nodelist or ()),
        jobs=tuple(job.end for job in jobs if getattr(job, "end", None)),
        stack=test.current_environ.extras.get("provenance", ""),
        hardware=extras.get("hardware", {}),
        device=str(extras.get("network_device", "")) if "inter-node" in place.features else "",
        launches=len(jobs),
    )


def of_output(parsed: Parsed) -> Output:
    """The part of a record that comes from the output."""
    return Output(**{name: getattr(parsed, name) for name in Output.__struct_fields__})


def as_text(record: Record) -> str:
    """The content of the file of a record: JSON, without the keys that say nothing.

    Numbers and texts of any class are written as such, and other values as their text.
    """
    raw, bare = (msgspec.to_builtins(it, enc_hook=_plain) for it in (record, NONE))
    raw = {key: it for key, it in raw.items() if key in ALWAYS or it != bare[key]}
    if metrics := raw.pop("metrics", ()):
        said = ({key: its for key, its in it.items() if its is not None} for it in metrics)
        raw["metrics"] = {it.pop("name"): it for it in said}
    more = raw.pop("more", {})
    return json.dumps({"schema": SCHEMA, **raw, **more}, indent=1)


def _plain(value: Any) -> Any:
    kind = next((kind for kind in (float, int) if isinstance(value, kind)), str)
    return kind(value)
