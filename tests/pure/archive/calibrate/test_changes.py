"""From launches to bounds, from bounds to the file, and the cases that are refused."""

import random
import statistics
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from assay import metrics
from assay.archive.calibrate import CalibrationError, bounds, changes, command
from assay.archive.calibrate.launches import Sample
from assay.judge import (
    Recorded,
    Reference,
    References,
    ReferencesError,
    Verdict,
    curves,
    judge,
    judge_ratios,
)
from assay.tolerances import TOLERANCES, tolerances_of

ROOT = Path(__file__).resolve().parents[4]


def kinds_of(site):
    return tolerances_of(site, CalibrationError)


KINDS = kinds_of(ROOT / "site-config" / "local")
RATE, TIME, OTHER = (bounds.kind_of(unit, KINDS) for unit in ("MB/s", "us", "1"))

#: A unit that a test brings.
MIPS = metrics.Unit("MIPS", "rate")

CASE = {"partition": "ib", "environ": "spack", "profile": "full", "test": "Osu", "size": 8}


def reference(spec):
    return Reference(spec["value"], spec["unit"], spec["lower"], spec["upper"], "a test")


@pytest.mark.parametrize(
    ("unit", "kind"),
    [("MB/s", "rate"), ("GFLOP/s", "rate"), ("1/s", "rate"), ("us", "time"), ("s", "time"),
     ("1", "other"), ("KiB", "other")],
)  # fmt: skip
def test_the_kind_of_a_metric_follows_from_its_unit(unit, kind):
    assert bounds.kind_of(unit, KINDS).name == kind


def test_a_unit_that_is_not_in_the_table_is_refused():
    with pytest.raises(CalibrationError, match=r"unknown unit 'MBps'; did you mean 'MB/s'\?"):
        bounds.kind_of("MBps", KINDS)


def test_tolerances_without_one_of_the_kinds_are_refused(tmp_path):
    (tmp_path / TOLERANCES).write_text("rate: {least: 0.1, wide: 0.5}")
    with pytest.raises(CalibrationError, match=r"tolerances.yaml: .*: `time` is"):
        kinds_of(tmp_path / "here")


@given(
    samples=st.lists(st.floats(1e-3, 1e6), min_size=6, max_size=40),
    kind=st.sampled_from([RATE, TIME, OTHER]),
)
def test_the_bounds_hold_every_launch_the_floor_and_the_median(samples, kind):
    spec = bounds.metric(samples, "u", kind)
    low, high = (spec["value"] * (1 + spec[side]) for side in ("lower", "upper"))
    assert spec["value"] == pytest.approx(statistics.median(samples), rel=1e-5)
    # No bound can hold a launch below a twentieth of the median.
    assert low <= max(min(samples), 0.05 * spec["value"]) * (1 + 1e-5)
    assert high >= max(samples) * (1 - 1e-5)
    assert spec["lower"] <= -kind.tolerance("lower")
    assert spec["upper"] >= kind.tolerance("upper")
    assert -1 < spec["lower"] < 0 < spec["upper"]
    assert spec["interval"][0] <= spec["value"] <= spec["interval"][1]


def test_the_fault_side_is_tight_and_the_other_wide():
    rate = bounds.metric([100.0] * 10, "MB/s", RATE)
    assert (rate["lower"], rate["upper"]) == (-0.05, 0.5)
    time = bounds.metric([2.0] * 10, "us", TIME)
    assert (time["lower"], time["upper"]) == (-0.33, 0.15)


@pytest.mark.parametrize("noise", [random.Random.gauss, random.Random.uniform])
@pytest.mark.parametrize("n", [6, 10, 20])
def test_a_healthy_launch_seldom_falls_out_of_bounds_of_pure_noise(noise, n):
    """There is no minimum tolerance here: only the spread of the sample makes the bound."""
    kind = bounds.Kind("bare", "both", 1e-9, 1e-9)
    draw = random.Random(7)
    width = (1.0, 0.02) if noise is random.Random.gauss else (0.98, 1.02)
    outside = trials = 0
    for _ in range(400):
        expected = reference(bounds.metric([noise(draw, *width) for _ in range(n)], "1", kind))
        for _ in range(20):
            trials += 1
            outside += judge([noise(draw, *width)], expected).verdict is not Verdict.PASS
    # With the plain range as bound, the share would be 2/(n+1): 29 %, 18 %, 10 %.
    assert outside / trials < 0.5 / (n + 1)


@pytest.mark.parametrize("samples", [[], [1.0], [0.0] * 10, [1.0, float("nan")], [1.0, -1.0]])
def test_what_has_no_bounds_is_refused(samples):
    with pytest.raises(ValueError, match="values above 0"):
        bounds.metric(samples, "MB/s", RATE)


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ("rate: [", "is not valid YAML"),
        ("rate: {least: -1}", "rate/least"),
        ("rate: {lest: 0.1}", "rate/lest: unknown key; did you mean 'least'"),
        (
            "bandwidth: {least: 0.1}",
            "bandwidth: unknown key; known are other, other_work",
        ),
        ("- rate", r"\(top level\)"),
    ],
)
def test_a_bad_file_of_tolerances_is_one_line_with_file_and_key(tmp_path, document, names):
    site = tmp_path / "here"
    site.mkdir()
    (tmp_path / TOLERANCES).symlink_to(ROOT / "site-config" / TOLERANCES)
    (site / TOLERANCES).write_text(document)
    with pytest.raises(CalibrationError, match=names) as error:
        kinds_of(site)
    assert str(error.value).startswith(str(site / TOLERANCES))


def test_a_site_changes_a_number_and_keeps_the_rest(tmp_path):
    site = tmp_path / "here"
    site.mkdir()
    (tmp_path / TOLERANCES).symlink_to(ROOT / "site-config" / TOLERANCES)
    (site / TOLERANCES).write_text("time: {least: 0.4}")
    time = bounds.kind_of("us", kinds_of(site))
    assert (time.least, time.wide, time.fault) == (0.4, TIME.wide, "upper")


# --- the file ---------------------------------------------------------------------------------


NO_PEAK = "these tests have no hardware"


def site(tmp_path, calibrated=None, **by_hand) -> Path:
    (tmp_path / "references.yaml").write_text(yaml.safe_dump({"references": [], **by_hand}))
    if calibrated is not None:
        text = calibrated if isinstance(calibrated, str) else changes.text(calibrated)
        (tmp_path / "calibrated.yaml").write_text(text)
    return tmp_path / "references.yaml"


def sample(values, unit="MB/s", case=CASE, name="bandwidth"):
    return Sample(case, len(values), {name: list(values)}, {name: unit}, {"node01", "node02"},
                  "Spack, spack.lock sha256 abc", date(2026, 11, 21))  # fmt: skip


def compared(tmp_path, *samples, old=(), reason=None, without_peak=NO_PEAK, **by_hand):
    entries = changes.compare(old, References.load(site(tmp_path)), KINDS, None, NO_PEAK).entries
    references = References.load(site(tmp_path, entries, **by_hand))
    return changes.compare(samples, references, KINDS, reason, without_peak)


TEN = [100.0, 101, 99, 100, 102, 98, 100, 101, 99, 100]


def test_an_entry_has_all_keys_of_the_case_and_its_provenance(tmp_path):
    found = compared(tmp_path, sample(TEN))
    (entry,) = found.entries
    assert entry["for"] == CASE
    assert entry["source"] == {
        "date": "2026-11-21",
        "n": 10,
        "where": "node[01-02], stack spack (Spack, spack.lock sha256 abc)",
        "without_peak": NO_PEAK,
    }
    references = References.load(site(tmp_path, found.entries))
    judged = references.find(CASE, "bandwidth", "MB/s")
    assert judged.value == 100
    assert "n=10, node[01-02]" in judged.source
    with pytest.raises(ReferencesError, match=r"no reference.*or run assay calibrate"):
        references.find({**CASE, "profile": "smoke"}, "bandwidth", "MB/s")


def test_references_remember_the_settings_of_the_machine_that_they_were_calibrated_under(tmp_path):
    one = sample(TEN)
    one.settings.add("0123456789abcdef")
    one.hardware.add("processor epyc-milan")
    entries = compared(tmp_path, one).entries
    assert entries[0]["source"]["settings"] == "0123456789abcdef"
    references = References.load(site(tmp_path, entries))
    known = ("0123456789abcdef", "processor epyc-milan")
    assert references.calibrated_under(CASE) == known
    assert references.calibrated_under({**CASE, "size": 9}) == ("", "")
    by_an_older_suite = compared(tmp_path, sample(TEN)).entries
    assert References.load(site(tmp_path, by_an_older_suite)).calibrated_under(CASE) == ("", "")


def test_what_is_written_is_read_back_as_it_was(tmp_path):
    found = compared(tmp_path, sample(TEN), sample(TEN, "1", {**CASE, "odd": "a: {b}, #c"}))
    again = References.load(site(tmp_path, found.entries)).calibrated
    assert again == list(found.entries)
    assert changes.text(again) == changes.text(found.entries)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("lower: -0.05", "lower: -0.94", "metrics/bandwidth: lower -0.94 is beyond -0.5 and"),
        ("upper: 0.5", "upper: 1000000", r"metrics/bandwidth: upper 1e\+06 is beyond 1 and"),
    ],
)
def test_a_bound_that_a_person_widened_is_refused(tmp_path, old, new, says):
    text = changes.text(compared(tmp_path, sample(TEN)).entries)
    assert old in text
    with pytest.raises(ReferencesError, match=rf"calibrated\.yaml: references/0/{says}.*calibrate"):
        References.load(site(tmp_path, text.replace(old, new)))


def test_the_bounds_of_a_curve_that_a_person_widened_are_refused(tmp_path):
    (entry,) = compared(tmp_path, with_curve()).entries
    spec = entry["curves"]["latency"]
    spec["upper"][3] = 1.6
    with pytest.raises(ReferencesError, match=r"curves/latency: upper has a value beyond 1\.5 and"):
        References.load(site(tmp_path, [entry]))


def test_a_calibration_whose_launches_spread_says_so_and_is_read_back(tmp_path):
    spread = sample([100.0] * 8 + [20.0, 300.0])
    says = "bandwidth: its launches spread from 20 to 300 MB/s, and 5 to 344.4 would pass"
    with pytest.raises(CalibrationError, match=says):
        compared(tmp_path, spread)
    (entry,) = compared(tmp_path, spread, reason="a disk of many").entries
    assert entry["wide"] == f"{changes.SPREAD}: a disk of many"
    assert References.load(site(tmp_path, [entry])).calibrated == [entry]


def test_what_a_person_wrote_goes_before(tmp_path):
    by_hand = {"value": 500.0, "unit": "MB/s", "lower": -0.1, "upper": 0.1}
    entry = {"for": {"partition": "ib"}, "metrics": {"bandwidth": by_hand}, "source": "a contract"}
    found = compared(tmp_path, sample(TEN), old=[sample(TEN)], references=[entry])
    assert found.entries == [], "what is decided by hand is dropped from the file"
    assert found.left == {"judged by hand": 1}
    both = References.load(tmp_path / "references.yaml")
    assert both.calibrated, "the old file still has it"
    assert both.find(CASE, "bandwidth", "MB/s").value == 500


def test_what_is_recorded_is_not_calibrated(tmp_path):
    rule = {"for": {"partition": "*"}, "units": ["MB/s"], "why": "a shared machine"}
    found = compared(tmp_path, sample(TEN), old=[sample(TEN)], recorded=[rule])
    assert (found.entries, found.left) == ([], {"not judged: a shared machine": 1})
    both = References.load(tmp_path / "references.yaml")
    with pytest.raises(
        ReferencesError, match=r"all partitions \('a shared machine'\) hides the re"
    ):
        both.find(CASE, "bandwidth", "MB/s")
    assert both.find({**CASE, "size": 9}, "bandwidth", "MB/s") == Recorded("a shared machine")


def test_a_rule_that_names_the_partition_goes_before_a_calibration(tmp_path):
    rule = {"for": {"partition": "ib"}, "why": "a shared machine"}
    old = changes.compare([sample(TEN)], References.load(site(tmp_path)), KINDS, None, NO_PEAK)
    references = References.load(site(tmp_path, old.entries, recorded=[rule]))
    assert references.find(CASE, "bandwidth", "MB/s") == Recorded("a shared machine")


@pytest.mark.parametrize(
    ("share", "says"),
    [(None, "and no peak is known here"), (0.48, "the best is bandwidth with 48%")],
)
def test_a_first_calibration_far_from_every_peak_needs_a_reason(tmp_path, share, says):
    slow = sample(TEN)
    slow.shares = {} if share is None else {"bandwidth": [share] * 10}
    with pytest.raises(CalibrationError, match=f"must reach 70% of a peak .*{says}"):
        compared(tmp_path, slow, without_peak=None)
    (entry,) = compared(tmp_path, slow).entries
    assert entry["source"]["without_peak"] == NO_PEAK
    again = compared(tmp_path, slow, old=[slow], without_peak=None)
    assert again.entries[0]["source"]["without_peak"] == NO_PEAK, "the reason stays"


def test_one_rate_near_its_peak_vouches_for_the_partition(tmp_path):
    fast, other = sample(TEN), sample(TEN, "us", {**CASE, "size": 64}, "latency")
    fast.shares = {"bandwidth": [0.9] * 10}
    found = compared(tmp_path, fast, other, without_peak=None)
    assert ["without_peak" in entry["source"] for entry in found.entries] == [False, False]
    elsewhere = sample(TEN, case={**CASE, "partition": "lustre"})
    with pytest.raises(CalibrationError, match="lustre: the first calibration"):
        compared(tmp_path, fast, elsewhere, without_peak=None)


CURVE = [{"size": 1 << k, "latency": 1 + (1 << k) / 1000} for k in range(20)]


def with_curve(factor=1, sizes=range(1 << 20)):
    """A sample with ten launches of a curve that spread by some percent."""
    found = sample(TEN, "us", name="latency")
    found.pattern, found.curve_units = "point-to-point", {"size": "B", "latency": "us"}
    found.curves = [
        [{"size": row["size"],
          "latency": row["latency"] * value / 100 * (factor if row["size"] in sizes else 1)}
         for row in CURVE]
        for value in TEN
    ]  # fmt: skip
    return found


def test_the_envelope_of_a_curve_is_written_and_finds_a_slow_size(tmp_path):
    found = compared(tmp_path, with_curve())
    references = References.load(site(tmp_path, found.entries))
    assert references.calibrated == list(found.entries)
    envelope = references.envelope(CASE, "latency", "us")
    low, high = envelope[16384]
    # 1.5 times 15 % on the side of the fault, and 33 % on the other.
    assert (low, high) == pytest.approx((0.505 * 17.384, 1.225 * 17.384), rel=1e-3)
    assert references.envelope({**CASE, "size": 9}, "latency", "us") == {}
    with pytest.raises(ReferencesError, match="calibrate again"):
        references.envelope(CASE, "latency", "ms")
    inside, slow = (with_curve(factor, [16384]).curves[0] for factor in (1.1, 1.3))
    assert judge_ratios([curves.outside(inside, envelope)]).verdict is Verdict.PASS
    judgement = judge_ratios([curves.outside(slow, envelope)] * 6)
    assert judgement.verdict is Verdict.FAIL
    assert "the latency of 16384 B was 22.6 us, in each of 6 launches" in judgement.why
    assert "the calibration allows at most 21.3 us" in judgement.why


def test_an_envelope_does_not_get_worse_without_a_reason(tmp_path):
    with pytest.raises(CalibrationError, match=r"latency at 16384 B is worse: 17\.384 -> 26\.076"):
        compared(tmp_path, with_curve(1.5, [16384]), old=[with_curve()])
    found = compared(tmp_path, with_curve(1.5, [16384]), old=[with_curve()], reason="a new switch")
    assert found.entries[0]["curves"]["latency"]["values"][14] == pytest.approx(26.076)


def test_an_implausible_curve_is_not_calibrated(tmp_path):
    with pytest.raises(CalibrationError, match="implausible: a message of 16384 B took"):
        compared(tmp_path, with_curve(9, [16384]), reason="not a reason for this")


def test_a_rule_that_waits_for_a_calibration_gives_way_to_it(tmp_path):
    rule = {"for": {"partition": "*"}, "until": "calibrated", "why": "a shared machine"}
    references = References.load(site(tmp_path, recorded=[rule]))
    assert references.find(CASE, "bandwidth", "MB/s") == Recorded("a shared machine", True)
    found = compared(tmp_path, sample(TEN), recorded=[rule])
    references = References.load(site(tmp_path, found.entries, recorded=[rule]))
    assert references.find(CASE, "bandwidth", "MB/s").value == 100


def test_cases_that_were_not_measured_keep_their_references(tmp_path):
    other = {**CASE, "size": 64}
    found = compared(tmp_path, sample(TEN), old=[sample(TEN, case=other)])
    assert [entry["for"]["size"] for entry in found.entries] == [64, 8]


def scaled(factor):
    return [factor * value for value in TEN]


@pytest.mark.parametrize(
    ("unit", "old", "new", "says"),
    [
        ("MB/s", TEN, scaled(0.9), r"the median is worse: 100 -> 90 \(-10.0 %\)"),
        (MIPS, TEN, scaled(0.9), r"the median is worse: 100 -> 90 \(-10.0 %\)"),
        ("us", TEN, scaled(1.3), r"the median is worse: 100 -> 130 \(\+30.0 %\)"),
        ("1", TEN, scaled(1.3), "the median is worse"),
        ("1", TEN, scaled(0.7), "the median is worse"),
        ("MB/s", TEN, [100.0] * 8 + [80.0, 100.0], "the lower bound is looser"),
        ("us", TEN, [100.0] * 8 + [160.0, 100.0], "the upper bound is looser"),
    ],
)
def test_a_reference_does_not_get_worse_without_a_reason(tmp_path, unit, old, new, says):
    with pytest.raises(CalibrationError, match=says) as error:
        compared(tmp_path, sample(new, unit), old=[sample(old, unit)])
    assert "say why by --reason" in str(error.value)
    why = "the switch was replaced by an older one"
    found = compared(tmp_path, sample(new, unit), old=[sample(old, unit)], reason=why)
    assert found.entries[0]["source"]["reason"] == why
    references = References.load(site(tmp_path, found.entries))
    assert why in references.find(CASE, "bandwidth", unit).source


@pytest.mark.parametrize(
    ("unit", "new"),
    [("MB/s", scaled(1.2)), (MIPS, scaled(1.2)), ("us", scaled(0.8)), ("MB/s", scaled(0.995))],
)
def test_a_better_reference_and_one_within_the_noise_need_no_reason(tmp_path, unit, new):
    why = "a reason that is not needed"
    found = compared(tmp_path, sample(new, unit), old=[sample(TEN, unit)], reason=why)
    assert "reason" not in found.entries[0]["source"]
    assert "100 -> " in str(found.changes[0])


def test_a_reference_does_not_get_worse_in_small_steps(tmp_path):
    """Each step lies within the noise of the one before, and all calibrations are kept."""
    entries = []
    for step, value in enumerate((1.0, 0.985, 0.97)):
        references = References.load(site(tmp_path, entries))
        entries = changes.compare([sample(scaled(value))], references, KINDS, None, NO_PEAK).entries
        assert len(entries[0].get("before", [])) == step
    references = References.load(site(tmp_path, entries))
    with pytest.raises(CalibrationError, match=r"worse than the calibration of 2026-11-21: 100 ->"):
        changes.compare([sample(scaled(0.94))], references, KINDS, None, NO_PEAK)
    found = changes.compare([sample(scaled(0.94))], references, KINDS, "an older switch", NO_PEAK)
    references = References.load(site(tmp_path, found.entries))
    again = changes.compare([sample(scaled(0.941))], references, KINDS, None, NO_PEAK)
    assert [each["values"]["bandwidth"] for each in again.entries[0]["before"]] == [
        100, 98.5, 97, 94
    ]  # fmt: skip
    references = References.load(site(tmp_path, again.entries))
    changes.compare([sample(scaled(0.93))], references, KINDS, None, NO_PEAK)


def test_a_calibration_that_somebody_deleted_is_remembered_by_git(tmp_path):
    old = compared(tmp_path, sample(TEN)).entries
    (tmp_path / "new").mkdir()
    nothing = References.load(site(tmp_path / "new"))
    with pytest.raises(CalibrationError, match=r"the median is worse: 100 -> 50"):
        changes.compare([sample(scaled(0.5))], nothing, KINDS, None, NO_PEAK, old)


def test_a_metric_that_is_gone_needs_a_reason(tmp_path):
    old = sample(TEN)
    with pytest.raises(CalibrationError, match=r"bandwidth.*would have no reference any more"):
        compared(tmp_path, sample(TEN, name="rate"), old=[old])


@given(factor=st.floats(0.2, 5.0), unit=st.sampled_from(["MB/s", "us", "1"]))
def test_it_is_worse_in_exactly_one_direction_or_the_same(tmp_path_factory, factor, unit):
    """With no unit can a reference drift in the bad direction by more than noise and tolerance."""
    kind = bounds.kind_of(unit, KINDS)
    old, new = (bounds.metric(s, unit, kind) for s in (TEN, scaled(factor)))
    change = changes.Change(CASE, "m", kind, old, new)
    # The interval from 99 to 101 and its product with the factor are disjoint for factors below
    # 99/101 and above 101/99.
    bad = {"lower": factor < 0.98, "upper": factor > 1.021, "both": not 0.98 <= factor <= 1.021}
    good = {"lower": factor >= 1, "upper": factor <= 1, "both": factor == 1}
    if bad[kind.fault]:
        assert change.worse
    if good[kind.fault]:
        assert not change.worse


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("references: [", "line 1 is not valid YAML"),
        ("", r"\(top level\)"),
        ("references:\n  - for: {partition: ib}\n    metrics:\n", "references/0"),
        ("references: []\nrecorded: []\n", "recorded: unknown key; known are references"),
    ],
)
def test_a_torn_file_is_refused_with_its_name_and_mend(tmp_path, text, names):
    with pytest.raises(ReferencesError, match=names) as error:
        References.load(site(tmp_path, text))
    assert str(error.value).startswith(str(tmp_path / "calibrated.yaml"))
    assert "calibrate again" in str(error.value)


def test_a_file_cut_in_the_middle_of_an_entry_never_judges(tmp_path, short):
    """A short run makes every fourth cut."""
    whole = changes.text(
        compared(tmp_path, sample(TEN), sample(TEN, "1", {**CASE, "b": 1})).entries
    )
    first = whole.index("- for")
    for end in range(first + 2, len(whole) - 1, 4 if short else 1):
        path = site(tmp_path, whole[:end])
        try:
            # Sealed: without the floors of all sites, which each cut would read again.
            left = References.load(path, sealed=True).calibrated
        except ReferencesError:
            continue
        # The readable part is a shorter file of whole entries, or the last word is cut.
        assert [entry["metrics"] for entry in left] in (
            [entry["metrics"] for entry in yaml.safe_load(whole)["references"][: len(left)]],
        )


def test_the_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "calibrated.yaml"
    command._write(path, "one\n", dry_run=False)
    with pytest.raises(CalibrationError, match="cannot be written"):
        command._write(tmp_path / "nowhere" / "calibrated.yaml", "two\n", dry_run=False)
    assert [p.name for p in tmp_path.iterdir()] == ["calibrated.yaml"]
    assert path.read_text() == "one\n"
