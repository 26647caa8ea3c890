from datetime import date
from pathlib import Path

import pytest
import yaml
from shell import SITES

from assay import files, metrics
from assay.judge import (
    Peak,
    Reference,
    References,
    ReferencesError,
    judge,
    peak,
    peaks,
    reference_files,
)
from assay.judge.reference_files import Document
from assay.judge.references import Recorded

ROOT = Path(__file__).resolve().parents[3]

GOOD = {
    "references": [
        {
            "for": {"partition": "ib", "test": "Osu", "transport": ["rc", "dc"]},
            "metrics": {"latency_8B": {"value": 1.0, "unit": "us", "lower": -0.5, "upper": 0.2}},
            "source": {"date": "2026-11-20", "n": 10, "where": "four nodes"},
        },
        {
            "for": {"partition": "ib", "test": "Osu"},
            "metrics": {"latency_8B": {"value": 2.0, "unit": "us", "lower": None, "upper": 0.5}},
            "source": "a datasheet",
        },
    ],
    "recorded": [{"for": {"partition": "*"}, "units": ["MB/s"], "why": "a shared machine"}],
}


@pytest.fixture(autouse=True)
def nothing_else_judges(request, tmp_path_factory, monkeypatch):
    """Of the files of all sites, a test has only what it writes into its own folder."""
    if "of_all_sites" in request.keywords:
        return
    folder, known = tmp_path_factory.mktemp("all"), files.of_all_sites
    for name, key in (("floors.yaml", "floors"), ("any-machine.yaml", "references")):
        (folder / name).write_text(f"{key}: []\n")

    def of_all_sites(site, name):
        if not (folder / name).exists():
            return known(site, name)
        return (site if (site / name).exists() else folder) / name

    monkeypatch.setattr(files, "of_all_sites", of_all_sites)


def load(tmp_path, document) -> References:
    path = tmp_path / "references.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return References.load(path)


def case(**more):
    return {"partition": "ib", "environ": "spack", "test": "Osu", **more}


def test_the_first_entry_that_is_for_the_case_judges(tmp_path):
    references = load(tmp_path, GOOD)
    assert references.find(case(transport="ud"), "latency_8B", "us") == Reference(
        2.0, "us", None, 0.5, "a datasheet"
    )
    near = references.find(case(transport="dc"), "latency_8B", "us")
    assert (near.value, near.lower_bound, near.upper_bound) == (1.0, 0.5, 1.2)
    assert near.source == "measured 2026-11-20, n=10, four nodes"


@pytest.mark.parametrize(
    ("said", "unit", "bounds"),
    [
        (">= 10200 MB/s", "MB/s", (10200.0, None)),
        ("<= 2.5 us", "us", (None, 2.5)),
        ("0.5 to 5 us", "us", (0.5, 5.0)),
        ("10 to 900 MB/s", "MB/s", (10.0, 900.0)),
    ],
)
def test_a_value_and_its_one_bound_fit_into_one_line(tmp_path, said, unit, bounds):
    entry = {"for": {"partition": "ib"}, "metrics": {"it": said}, "source": "a tender"}
    entry["wide"] = "both bounds are stated"
    found = load(tmp_path, {"references": [entry]}).find(case(), "it", unit)
    assert (found.lower_bound, found.upper_bound) == pytest.approx(bounds)
    assert found.source == "a tender"


@pytest.mark.parametrize("said", ["10200 MB/s", ">= 0 MB/s", ">= 10200", "> 1 MB/s", ">= -1 us"])
def test_another_short_form_is_refused(tmp_path, said):
    entry = {"for": {"partition": "ib"}, "metrics": {"it": said}, "source": "a tender"}
    with pytest.raises(ReferencesError, match=r"references/0/metrics/it: .*>= 10200 MB/s"):
        load(tmp_path, {"references": [entry]})


def test_a_bound_on_the_side_of_no_fault_is_refused(tmp_path):
    entry = {"for": {"partition": "ib"}, "metrics": {"it": "<= 5 MB/s"}, "source": "a tender"}
    with pytest.raises(ReferencesError, match="lower is null, but a fault makes a metric in MB/s"):
        load(tmp_path, {"references": [entry]})


def test_what_is_recorded_has_its_reason(tmp_path):
    found = load(tmp_path, GOOD).find(case(), "bandwidth_1M", "MB/s")
    assert found == Recorded("a shared machine")


def test_a_rule_may_name_kinds_of_metrics(tmp_path):
    rule = {"for": {"partition": "*"}, "kinds": ["rate", "time"], "why": "a shared machine"}
    references = load(tmp_path, {"references": [], "recorded": [rule]})
    for unit in ("us", "MB/s", "GUP/s", "Mop/s"):
        assert references.find(case(), "m", unit) == Recorded("a shared machine")
    for unit in ("1", "%", "odd"):
        with pytest.raises(ReferencesError, match="no reference"):
            references.find(case(), "m", unit)


def test_the_kinds_of_a_rule_are_those_of_the_table():
    for kind in (*metrics.FAULT, "speed"):
        rule = {"for": {"partition": "*"}, "kinds": [kind], "why": "a shared machine"}
        fault = files.misshapen({"references": [], "recorded": [rule]}, Document)
        assert bool(fault) == (kind == "speed"), fault


@pytest.mark.parametrize(
    ("where", "metric", "unit", "said"),
    [
        (
            {"partition": "nvlink"},
            "latency_8B",
            "us",
            r"no reference for 'latency_8B'.*partition: nvlink",
        ),
        ({}, "ratio", "1", "no reference"),  # it is recorded only in MB/s
        ({"transport": "ud"}, "latency_8B", "MB/s", "is in 'us', the test reports 'MB/s'"),
    ],
)
def test_what_has_no_reference_in_its_unit_is_refused(tmp_path, where, metric, unit, said):
    with pytest.raises(ReferencesError, match=said):
        load(tmp_path, GOOD).find(case(**where), metric, unit)


@pytest.mark.parametrize("star", [{}, {"environ": "*"}, {"environ": ["spack", "*"]}])
def test_an_entry_that_never_judges_is_refused(tmp_path, star):
    near, general = GOOD["references"]
    general = {**general, "for": {**general["for"], **star}}
    said = r"references/1/metrics/latency_8B: is never judged by this entry: .*put this one above"
    with pytest.raises(ReferencesError, match=said):
        load(tmp_path, {"references": [general, near]})
    with pytest.raises(ReferencesError, match="is never judged by this entry"):
        load(tmp_path, {"references": [near, near]})


def overlapping(document):
    """Pairs of entries that may be for the same case and have a metric in common."""
    for at, one in enumerate(document["references"]):
        for other in document["references"][at + 1 :]:
            both = one["for"].keys() & other["for"].keys()
            values = [
                [{*reference_files.listed(each["for"][key])} for each in (one, other)]
                for key in both
            ]
            if one["metrics"].keys() & other["metrics"].keys() and all(
                "*" in x | y or x & y for x, y in values
            ):
                yield one["for"], other["for"]


FILES = [site.with_name("references.yaml") for site in SITES.values()]


def test_the_first_entry_of_our_files_is_the_one_with_the_most_keys():
    """Once, the number of keys decided, and the order decides the same."""
    found = [pair for file in FILES for pair in overlapping(reference_files.read_references(file))]
    assert [*overlapping(GOOD)]
    for first, second in found:
        keys = [sum(not reference_files.is_any(v) for v in x.values()) for x in (first, second)]
        assert keys[0] > keys[1], (first, second)


def test_one_reference_judges_metrics_of_two_tests_in_their_units(tmp_path):
    entry = {
        "for": {"partition": "gpu", "test": "OsuGpu"},
        "metrics": {"bandwidth_1MiB": ">= 48.5 GB/s"},
        "also": [{"for": {"partition": "gpu", "test": "EachGpu"}, "metric": "worst"}],
        "source": "a datasheet",
    }
    references = load(tmp_path, {"references": [entry]})
    osu, each = ({"partition": "gpu", "test": test} for test in ("OsuGpu", "EachGpu"))
    assert references.find(osu, "bandwidth_1MiB", "MB/s").lower_bound == 48500
    assert references.find(each, "worst", "GB/s").lower_bound == 48.5
    with pytest.raises(ReferencesError, match="the test reports 'us'"):
        references.find(each, "worst", "us")
    entry["metrics"]["other"] = ">= 1 GB/s"
    with pytest.raises(ReferencesError, match="references/0/also: the entry has several metrics"):
        load(tmp_path, {"references": [entry]})


def broken(**change):
    entry = {**GOOD["references"][1], **change}
    return {"references": [{k: v for k, v in entry.items() if v is not ...}]}


def measured(**change):
    return broken(source={"date": "2026-11-20", "n": 10, "where": "four nodes", **change})


METRIC = GOOD["references"][1]["metrics"]["latency_8B"]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ("references: [", r"line 1 is not valid YAML"),
        ("- just a list", r"\(top level\).*mapping with `references`"),
        ({"reference": []}, "reference: unknown key; did you mean 'references'"),
        (broken(source=...), r"references/0: `source` is missing"),
        (broken(source="x"), r"references/0/source"),
        (broken(source={"date": "2026", "n": 1, "where": "it"}), r"references/0/source"),
        (
            measured(n=1),
            r"references/0/source/n: 1: .*one launch has no spread.*measure again",
        ),
        (
            measured(date="2026-13-45"),
            r"source: date: 2026-13-45 is not a date: month",
        ),
        (measured(date="2099-01-01"), r"source: date: 2099-01-01 lies in the future; today is 2"),
        (measured(date=date(2026, 11, 20)), r"source/date: .*in quotes, such as '2026-11-20'"),
        (broken(**{"for": {"test": "Osu"}}), r"references/0: for: `partition` is missing"),
        (broken(metrics={"m": {**METRIC, "value": 0}}), r"references/0/metrics/m/value: .*above 0"),
        (broken(metrics={"m": {**METRIC, "lower": 0.1}}), r"metrics/m/lower"),
        # A bound of zero or of infinity would limit nothing.
        (broken(metrics={"m": {**METRIC, "lower": -1}}), r"metrics/m/lower.*above -1"),
        (broken(metrics={"m": {**METRIC, "upper": 1e301}}), r"metrics/m/upper.*finite"),
        (
            broken(metrics={"m": {**METRIC, "lower": -0.51}}),
            r"references/0/metrics/m: lower -0\.51 is beyond -0\.5 and catches little; narrow it",
        ),
        (broken(metrics={"m": {**METRIC, "upper": 1.1}}), r"metrics/m: upper 1\.1 is beyond 1 "),
        (
            broken(metrics={"m": {**METRIC, "unit": "MB/s", "peak_floor": 0.001}}),
            r"metrics/m: peak_floor 0\.001 is below 0\.1 and catches little",
        ),
        (
            broken(metrics={"m": {"of_peak": 0.01, "unit": "MB/s", "lower": -0.5, "upper": 1}}),
            r"metrics/m: of_peak 0\.01 is below 0\.1 and catches little",
        ),
        (
            broken(**{"for": {"partition": "ib", "profile": ["full", "smok"]}}),
            r"references/0/for/profile: there is no profile 'smok'.*write full or smoke",
        ),
        (
            broken(
                curves={
                    "latency": {
                        "unit": "us",
                        "sizes": [1, 2],
                        "values": [1],
                        "lower": [0],
                        "upper": [1],
                    }
                }
            ),
            r"references/0/curves/latency: 2 sizes, 1 values, .* calibrate again",
        ),
        (
            broken(metrics={"m": {**METRIC, "lower": -0.5, "upper": None}}),
            r"metrics/m: upper is null, but a fault makes a metric in us greater; give upper",
        ),
        (
            broken(metrics={"m": {**METRIC, "unit": "MB/s"}}),
            r"metrics/m: lower is null, but a fault makes a metric in MB/s smaller; give lower",
        ),
        (broken(wide="short"), r"references/0/wide"),
        (broken(wide=""), r"references/0/wide"),
        (
            broken(wide="--------"),
            r"references/0/wide: '--------': expected a text .*with words",
        ),
        (broken(wide="1 2 3 4 5"), r"references/0/wide: .*with words"),
        (broken(source="12345678"), r"references/0/source: .*with words"),
        # A bound of 1e308 * (1 + 1) is infinite.
        (broken(metrics={"m": {**METRIC, "value": 1e308}}), r"metrics/m/value: .*finite"),
        (
            "references: [{for: {partition: p}, source: a document, metrics: {m: {value: 1e999, "
            "unit: us, lower: null, upper: 1}}}]",
            r"metrics/m/value: .*finite",
        ),
        (broken(metrics={"m": {**METRIC, "upper": -0.1}}), r"metrics/m/upper"),
        (broken(metrics={"m": {**METRIC, "upper": None}}), r"metrics/m"),
        (
            broken(metrics={"m": {"value": 1, "unit": "us", "lower": -0.1}}),
            r"`upper` is missing",
        ),
        (broken(metrics={"m": {**METRIC, "tolerance": 1}}), r"tolerance"),
        # A ratio, or a count: only a reason tells which side is the fault.
        (
            broken(metrics={"ratio": {**METRIC, "unit": "1", "upper": 1}}),
            r"metrics/ratio: lower is null \(a fault may lie on either side\) and .*`wide: REASON`",
        ),
        (
            broken(metrics={"ratio": {**METRIC, "unit": "1", "lower": -0.1, "upper": None}}),
            r"metrics/ratio: upper is null \(a fault may lie on either side\) and catches",
        ),
    ],
)
def test_bad_references_are_one_line_with_file_and_key(tmp_path, document, names):
    with pytest.raises(ReferencesError, match=names) as error:
        load(tmp_path, document)
    assert str(tmp_path / "references.yaml") in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wide_tolerance_with_a_reason_is_allowed(tmp_path):
    wide = broken(metrics={"m": {**METRIC, "lower": -0.9}}, wide="an order of magnitude")
    assert load(tmp_path, wide).judged == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("references: []\nreferences: []", "line 2: key 'references' appears twice; keep one"),
        ("references: [{n: 010}]", "line 1: '010' is not decimal; write it in decimal, or quote"),
        ("references: [{n: 1:30}]", "line 1: '1:30' is not decimal"),
        ("references: [{n: 0x10}]", "line 1: '0x10' is not decimal"),
        ("references: [{n: .inf}]", r"line 1: '\.inf' is not a decimal number"),
        ("references: [{n: 1_0.5}]", r"line 1: '1_0\.5' is not a decimal number"),
        ("references: [{n: 0o17}]", "line 1: '0o17' is not decimal"),
        ("references: [{n: on}]", "line 1: 'on' would be true or false"),
        ("references: {{ x }}", "is not valid YAML: "),
        ("references: [{d: 2024-02-30}]", "is not valid YAML: day is out of range"),
        (b"references: [\xff]", "not a text in UTF-8"),
        (b"references: [\x07]", "a character that YAML does not allow"),
    ],
)
def test_yaml_that_would_mean_something_else_is_refused(tmp_path, text, said):
    path = tmp_path / "references.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ReferencesError, match=said) as error:
        References.load(path)
    assert str(error.value).startswith(f"{path}: ")


def test_a_number_of_yaml_1_2_is_a_number(tmp_path):
    (tmp_path / "file.yaml").write_text("[1e3, 1.5e3, -2.5E-1]")
    assert files.read_yaml(tmp_path / "file.yaml", ReferencesError) == [1000.0, 1500.0, -0.25]


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        ({"links": "infiniband-edr"}, "no role 'links'; did you mean 'link'"),
        (
            {"link": "infiniband-erd"},
            "link/infiniband-erd is not there, and not in .*; did you mean 'infiniband-edr'",
        ),
    ],
)
def test_hardware_that_does_not_exist_is_an_error(hardware, said):
    with pytest.raises(ReferencesError, match=said):
        peaks.check_hardware(SITE, hardware)


def test_what_several_sites_expect_is_written_once(tmp_path):
    common = tmp_path / "common.yaml"
    common.write_text(yaml.safe_dump({"references": GOOD["references"][1:]}))
    nearer = {**GOOD["references"][1], "for": case()}
    site = tmp_path / "site"
    site.mkdir()
    references = load(site, {"include": ["../common.yaml"], "references": [nearer]})
    assert references.judged == 2
    assert references.find(case(), "latency_8B", "us").value == 2.0
    # A reference that no test uses is an error in the common file too. The error names that file.
    assert [line.split(": ")[0] for line in references.idle([])] == [
        str(site / "references.yaml"),
        str(site / "../common.yaml"),
    ]


def test_an_entry_of_the_site_comes_before_one_of_a_file_that_it_includes(tmp_path):
    (tmp_path / "common.yaml").write_text(yaml.safe_dump({"references": GOOD["references"][1:]}))
    own = {**GOOD["references"][1], "metrics": {"latency_8B": "<= 7 us"}}
    references = load(tmp_path, {"include": ["common.yaml"], "references": [own]})
    assert references.find(case(), "latency_8B", "us").value == 7.0


@pytest.mark.parametrize(
    ("common", "problem"),
    [
        (None, r"references\.yaml: include/0: common\.yaml: no such file; the path is relative to"),
        (
            {"references": [], "recorded": []},
            r"common\.yaml: recorded: unknown key",
        ),
        (
            {"references": [], "include": ["x.yaml"]},
            r"common\.yaml: include: unknown key",
        ),
        ({"references": [{}]}, r"common\.yaml: references/0: `for` is missing"),
    ],
)
def test_a_bad_include_is_one_line_that_names_the_file_to_mend(tmp_path, common, problem):
    if common is not None:
        (tmp_path / "common.yaml").write_text(yaml.safe_dump(common))
    with pytest.raises(ReferencesError, match=problem):
        load(tmp_path, {"include": ["common.yaml"], "references": []})


def test_without_the_file_all_is_recorded_with_that_reason(tmp_path):
    found = References.load(tmp_path / "references.yaml").find(case(), "latency_8B", "us")
    assert isinstance(found, Recorded)
    assert found.why.startswith(f"there is no {tmp_path / 'references.yaml'}")


def test_an_entry_may_be_for_one_of_several_systems(tmp_path):
    ours, theirs = ({**GOOD["references"][1]["for"], "system": name} for name in ("a", "b"))
    entries = [{**GOOD["references"][1], "for": ours}, {**GOOD["references"][0], "for": theirs}]
    references = load(tmp_path, {"references": entries})
    values = [references.find(case(system=name), "latency_8B", "us").value for name in "ab"]
    assert values == [2.0, 1.0]


@pytest.mark.parametrize(
    "path",
    [
        *(path.with_name("references.yaml") for path in SITES.values()),
        ROOT / "site-config/any-machine.yaml",
    ],
    ids=lambda p: p.parent.name,
)
def test_the_references_of_every_site_are_valid_and_not_of_the_future(path):
    References.load(path)
    for entry in yaml.safe_load(path.read_text())["references"] or ():
        if isinstance(entry["source"], dict):
            assert date.fromisoformat(entry["source"]["date"]) <= date.today()


@pytest.mark.parametrize(
    ("partition", "relation", "least"),
    [("gpu", "ipc-large", 2.0), ("gpu-infiniband", "rdma-large", 0.688)],
)
def test_ways_around_the_host_that_gain_nothing_are_judged(partition, relation, least):
    references = References.load(SITES["ibisco"].with_name("references.yaml"))
    of = case(system="ibisco", partition=partition, test="OsuGpuRelation", relation=relation)
    assert references.find(of, "ratio", "1").lower_bound == least


def test_a_floor_is_a_share_of_the_peak_and_binds_where_it_is_higher(tmp_path):
    spec = {"value": 40.0, "unit": "MB/s", "lower": -0.5, "upper": None, "peak_floor": 0.6}
    references = load(tmp_path, broken(metrics={"bandwidth": spec}))
    assert references.find(case(), "bandwidth", "MB/s", Peak("link", 50.0)).lower_bound == 30.0
    assert references.find(case(), "bandwidth", "MB/s", Peak("link", 20.0)).lower_bound == 20.0
    with pytest.raises(ReferencesError, match="a peak that is unknown; name the hardware"):
        references.find(case(), "bandwidth", "MB/s")


def test_a_key_that_a_test_gets_at_its_setup_is_neither_idle_nor_a_gap(tmp_path):
    entry = {**GOOD["references"][1], "for": {"partition": "ib", "test": "BtIo", "npb_class": "E"}}
    references = load(tmp_path, {"references": [entry]})
    units = {"latency_8B": "us"}
    begun = case(test="BtIo", npb_class="")
    assert references.idle([(begun, units)]) == []
    assert references.unanswered([(begun, units)]) == []
    chosen = case(test="BtIo", npb_class="A")
    assert "npb_class: A" in references.unanswered([(chosen, units)])[0]


def test_a_reference_of_a_test_of_a_study_is_not_idle(tmp_path):
    entry = {**GOOD["references"][1], "for": {"partition": "ib", "test": "OsuPairs"}}
    references = load(tmp_path, {"references": [entry]})
    assert references.idle([], ["OsuPairs"]) == []
    assert len(references.idle([], ["OtherPairs"])) == 1


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"partition": "ib"}, []),
        ({"partition": ["*"], "environ": ["spack", "system"]}, []),
        (
            {"partition": "ib", "environ": "spakc"},
            ["environ: the site has no environ 'spakc'; it has system, spack"],
        ),
        (
            {"partition": ["ib", "bi"]},
            ["partition: the site has no partition 'bi'; it has ib, node"],
        ),
    ],
)
def test_a_name_that_the_site_does_not_have_is_named(tmp_path, where, said):
    """Beside a rule that records all metrics, such an entry is missed by nothing else."""
    names = {"partition": ["ib", "node"], "environ": ["system", "spack"]}
    rule = {"for": {"partition": "*"}, "why": "a shared machine"}
    references = load(tmp_path, {**broken(**{"for": where}), "recorded": [rule]})
    path = tmp_path / "references.yaml"
    assert references.unknown(names) == [f"{path}: references/0/for/{line}" for line in said]
    recorded = load(tmp_path, {"references": [], "recorded": [{**rule, "for": where}]})
    assert recorded.unknown(names) == [f"{path}: recorded/0/for/{line}" for line in said]
    assert references.unknown({}) == [], "the site describes itself"


SITE = ROOT / "site-config" / "local"


def test_a_peak_is_looked_up_by_role_and_name():
    edr = peak(SITE, {"link": "infiniband-edr"}, "link", "bandwidth")
    assert edr == pytest.approx(4 * 25.78125 * 64 / 66 / 8 * 1000)
    assert peak(SITE, {}, "link", "bandwidth") is None
    with pytest.raises(ReferencesError, match="link/edr is not there, and"):
        peak(SITE, {"link": "edr"}, "link", "bandwidth")


@pytest.mark.parametrize("value", ["0", "-5", "fast", "[1]", "true", "1.0e+300"])
def test_a_peak_that_is_no_number_of_hardware_is_one_line(tmp_path, value):
    (tmp_path / "hardware.yaml").write_text(f"link: {{a: {{bandwidth: {value}}}}}\n")
    with pytest.raises(ReferencesError, match=r"link/a/bandwidth: .*: expected a number"):
        peak(tmp_path, {"link": "a"}, "link", "bandwidth")


def test_a_site_adds_hardware_and_changes_entries_in_its_own_file(tmp_path):
    site = tmp_path / "x"
    site.mkdir()
    for kind in peaks.KINDS:
        (tmp_path / "hardware").mkdir(exist_ok=True)
        (tmp_path / f"hardware/{kind}.yaml").write_text("{}\n")
    entries = "a: {bandwidth: 1}\nb: {bandwidth: 2}\n"
    (tmp_path / "hardware/network.yaml").write_text(entries)
    (site / "hardware.yaml").write_text("link: {b: {bandwidth: 3}}\ngpu: {c: {memory: 4}}\n")
    assert peak(site, {"link": "a"}, "link", "bandwidth") == 1
    assert peak(site, {"link": "b"}, "link", "bandwidth") == 3
    assert peak(site, {"gpu": "c"}, "gpu", "memory") == 4
    with pytest.raises(ReferencesError, match="known are a, b"):
        peak(site, {"link": "c"}, "link", "bandwidth")


def test_a_share_of_the_peak_counts_where_the_peak_is_known_and_is_never_idle(tmp_path):
    share = {"of_peak": 0.9, "unit": "MB/s", "lower": -0.1, "upper": None}
    entry = {"for": {"partition": "*"}, "metrics": {"bandwidth": share}, "source": "a datasheet"}
    rule = {"for": {"partition": "*"}, "why": "nobody knows"}
    references = load(tmp_path, {"references": [entry], "recorded": [rule]})
    case = {"partition": "link", "test": "Osu"}
    known = references.find(case, "bandwidth", "MB/s", Peak("link", 1000))
    assert (known.value, known.lower_bound) == (900, 810)
    assert references.find(case, "bandwidth", "MB/s") == Recorded("nobody knows")
    assert references.idle([]) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# nothing yet\n", r"\(top level\): None: expected a mapping"),
        ("gpu:\n", "gpu: None: expected a mapping"),
        ("gpu: {x: 3}\n", "gpu/x: 3: expected a mapping.*Hardware has a source"),
        ("gpu: [\n", "is not valid YAML"),
    ],
)
def test_a_file_of_hardware_without_its_shape_is_refused(tmp_path, text, said):
    (tmp_path / "hardware.yaml").write_text(text)
    with pytest.raises(ReferencesError, match=said) as error:
        peaks.check_hardware(tmp_path, {})
    assert str(tmp_path / "hardware.yaml") in str(error.value)


def test_the_extra_hardware_is_a_mapping():
    with pytest.raises(ReferencesError, match="'v100' is not a mapping; write it like"):
        peaks.check_hardware(SITE, "v100")


RESULT = {
    "value": 12000.0, "of": 12500.0, "unit": "MB/s", "system": "a cluster", "owner": "A",
    "date": "2025", "source": "a public report",
}  # fmt: skip
FLOOR = {
    "for": {"test": "Osu"},
    "metrics": ["bandwidth"],
    "of": "link.bandwidth",
    "rule": "A",
    "why": "messages of 1 MiB",
    "results": [{**RESULT, "owner": name} for name in "ABC"],
}
UNTIL = {"for": {"partition": "*"}, "why": "not calibrated yet", "until": "calibrated"}
LINK = Peak("link", 25000.0, of="link.bandwidth")


def floors(tmp_path, **changes):
    (tmp_path / "floors.yaml").write_text(yaml.safe_dump({"floors": [{**FLOOR, **changes}]}))


def any_machine(tmp_path, said="10 to 1000000 MB/s"):
    entry = {
        "for": {"partition": "*", "test": "Osu"}, "metrics": {"bandwidth": said},
        "source": "physics of any machine", "wide": "it holds on any machine",
    }  # fmt: skip
    (tmp_path / "any-machine.yaml").write_text(yaml.safe_dump({"references": [entry]}))


def found(tmp_path, rules=(UNTIL,), peak=LINK, named=None, entries=()):
    references = load(tmp_path, {"references": [*entries], "recorded": [*rules]})
    return references.find(case(), "bandwidth", "MB/s", peak, named or {})


def test_the_strongest_yardstick_that_there_is_judges(tmp_path):
    any_machine(tmp_path)
    assert found(tmp_path).yardstick == "any machine"
    floors(tmp_path)
    its = found(tmp_path)
    # 0.9 x 0.96, rounded down to a hundredth
    assert (its.yardstick, its.lower_bound) == ("published", 0.86 * 25000)
    made = {
        "for": {"partition": "ib"}, "source": "made by a command",
        "metrics": {"bandwidth": {"value": 24000, "unit": "MB/s", "lower": -0.1, "upper": 0.1}},
    }  # fmt: skip
    for name, word in (("baseline.yaml", "baseline"), ("calibrated.yaml", "calibration")):
        (tmp_path / name).write_text(yaml.safe_dump({"references": [made]}))
        assert found(tmp_path).yardstick == word
    assert found(tmp_path, entries=[made]).yardstick == "reference"


def test_a_decision_of_the_site_leaves_only_the_bounds_of_any_machine(tmp_path):
    floors(tmp_path)
    rule = {key: value for key, value in UNTIL.items() if key != "until"}
    assert isinstance(found(tmp_path, [rule]), Recorded)
    any_machine(tmp_path)
    assert found(tmp_path, [rule]).yardstick == "any machine"


def test_a_floor_is_for_the_hardware_and_the_peak_that_it_names(tmp_path):
    floors(tmp_path, hardware=["infiniband-hdr"])
    assert isinstance(found(tmp_path, named={"link": "infiniband-edr"}), Recorded)
    assert found(tmp_path, named={"link": "infiniband-hdr"}).yardstick == "published"
    floors(tmp_path)
    for other in (None, Peak("copy, same run", 25000.0)):
        assert isinstance(found(tmp_path, peak=other), Recorded)


@pytest.mark.parametrize("any_bounds", ["10 to 1000000 MB/s", None])
@pytest.mark.parametrize(
    ("value", "verdict"), [(24000.0, "PASS"), (15000.0, "PASS"), (6000.0, "FAIL")]
)
def test_a_weak_floor_makes_red_only_what_is_far_below_it(tmp_path, value, verdict, any_bounds):
    if any_bounds:
        any_machine(tmp_path, any_bounds)
    floors(tmp_path, rule="C", results=[RESULT])
    said = judge([value], found(tmp_path))
    assert (said.verdict.value, said.by.yardstick) == (verdict, "published")
    assert ("a weak bound is not met" in said.why) is (value < 20000)
    # 0.85 x 0.96, rounded down to a hundredth, and a third of it
    far = 0.81 * 25000 / 3
    assert said.bounds == pytest.approx((far, 1e6 if any_bounds else None)), "what would be red"


def test_a_bound_of_any_machine_above_a_third_of_a_weak_floor_stays(tmp_path):
    any_machine(tmp_path, "10000 to 1000000 MB/s")
    floors(tmp_path, rule="C", results=[RESULT])
    assert judge([15000.0], found(tmp_path)).verdict.value == "PASS"
    assert judge([9000.0], found(tmp_path)).verdict.value == "FAIL"


def test_the_ceiling_of_a_weak_floor_is_not_weak(tmp_path):
    any_machine(tmp_path)
    floors(tmp_path, rule="C", results=[RESULT], above=1.0, why="Ceiling: the link")
    assert judge([24900.0], found(tmp_path)).verdict.value == "PASS"
    assert judge([25100.0], found(tmp_path)).verdict.value == "FAIL"


def test_the_side_that_a_floor_leaves_open_has_the_bound_of_any_machine(tmp_path):
    any_machine(tmp_path, "10 to 900000 MB/s")
    floors(tmp_path)
    its = found(tmp_path)
    assert (its.lower_bound, its.upper_bound) == (0.86 * 25000, pytest.approx(900000))


def test_results_that_spread_too_far_give_no_floor_and_the_reason(tmp_path):
    results = [{**RESULT, "value": value} for value in (2000.0, 12000.0)]
    floors(tmp_path, rule="D", results=results)
    why = "healthy machines publish too different values: 2 "
    assert found(tmp_path).why.startswith(why)
    any_machine(tmp_path)
    its = found(tmp_path)
    assert its.yardstick == "any machine"
    assert why in its.source


@pytest.mark.parametrize(("lowest", "share"), [(0.85, 0.76), (0.80, 0.64)])
def test_a_floor_is_lower_where_the_owners_do_not_agree(tmp_path, lowest, share):
    values = {"A": lowest, "B": 0.92, "C": 0.95}
    results = [{**RESULT, "value": v * RESULT["of"], "owner": o} for o, v in values.items()]
    floors(tmp_path, rule="A", results=results)
    assert found(tmp_path).lower_bound == pytest.approx(share * 25000)


def test_a_limit_of_a_time_is_above_the_highest_of_three_owners(tmp_path):
    times = [{**RESULT, "unit": "us", "value": v, "owner": o} for v, o in ((1.0, "A"), (1.2, "B"))]
    times = [{k: v for k, v in each.items() if k != "of"} for each in times]
    limit = {**FLOOR, "rule": "U", "metrics": ["latency_8B"], "results": times}
    limit.pop("of")
    (tmp_path / "floors.yaml").write_text(yaml.safe_dump({"floors": [limit]}))
    with pytest.raises(ReferencesError, match="2 owners of results: rule U needs 3"):
        load(tmp_path, {"references": [], "recorded": [UNTIL]})
    limit["results"] = [*times, {**times[0], "owner": "C"}]
    (tmp_path / "floors.yaml").write_text(yaml.safe_dump({"floors": [limit]}))
    references = load(tmp_path, {"references": [], "recorded": [UNTIL]})
    its = references.find(case(), "latency_8B", "us")
    assert (its.lower_bound, its.upper_bound) == (None, pytest.approx(1.8))


@pytest.mark.parametrize(("lowest", "limit"), [(6000.0, 4000), (4500.0, 1500)])
def test_a_limit_of_a_rate_is_below_the_lowest_of_three_owners(tmp_path, lowest, limit):
    """Farther below if one owner would be red by the others: then the next one may be, too."""
    values = {"A": lowest, "B": 7000.0, "C": 12000.0}
    rates = [{**RESULT, "value": value, "owner": owner} for owner, value in values.items()]
    rates = [{k: v for k, v in each.items() if k != "of"} for each in rates]
    floors(tmp_path, rule="U", results=rates, of="")
    its = found(tmp_path, named={})
    assert (its.lower_bound, its.upper_bound) == (pytest.approx(limit), None)
    any_machine(tmp_path)
    assert found(tmp_path).upper_bound == pytest.approx(1e6), "the open side"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"results": FLOOR["results"][:2]}, "write C, which makes a weak floor"),
        ({"results": [*FLOOR["results"], {**RESULT, "value": 6000.0}]}, "write D, no floor"),
        ({"rule": "B"}, "3 results, and it needs 7"),
        ({"of": ""}, "a share has a peak"),
    ],
)
def test_a_rule_that_its_results_do_not_support_is_refused(tmp_path, changes, said):
    floors(tmp_path, **changes)
    with pytest.raises(ReferencesError, match=said):
        load(tmp_path, GOOD)


def test_bounds_in_the_wrong_order_are_refused(tmp_path):
    any_machine(tmp_path, "900 to 10 MB/s")
    with pytest.raises(ReferencesError, match="write the smaller bound first"):
        load(tmp_path, GOOD)


def test_a_collective_sends_at_most_one_message_after_the_other_to_each_rank(tmp_path):
    times = [{**RESULT, "unit": "us", "value": 1.0, "owner": owner} for owner in "ABC"]
    times = [{k: v for k, v in each.items() if k != "of"} for each in times]
    limit = {**FLOOR, "rule": "U", "metrics": ["latency_8B"], "each_rank": True, "results": times}
    limit.pop("of")
    (tmp_path / "floors.yaml").write_text(yaml.safe_dump({"floors": [limit]}))
    references = load(tmp_path, {"references": [], "recorded": [UNTIL]})
    its = references.find(case(ranks=4), "latency_8B", "us")
    assert its.upper_bound == pytest.approx(1.5 * 3)
    assert isinstance(references.find(case(), "latency_8B", "us"), Recorded)
