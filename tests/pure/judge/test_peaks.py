"""The catalogue of hardware: each part has a source, and no figure judges without one."""

import re
from pathlib import Path

import pytest
import yaml
from shell import ROOT

from assay.judge import Hardware, ReferencesError, hardware, peak, peaks

SITE = ROOT / "site-config" / "local"
KNOWN = hardware(SITE)
ALL = [(role, name, part) for role, parts in KNOWN.items() for name, part in parts.items()]


def without_source(parts):
    return [name for name, part in parts.items() if len(part.source) <= 10]


def test_the_catalogue_has_150_parts_each_with_a_source_and_a_number():
    assert len(ALL) >= 150
    for role, name, part in ALL:
        assert not without_source({name: part}), (role, name)
        assert part.from_memory or re.search("https?://|HPE", part.source), (role, name)
        given = {field for field in Hardware.__struct_fields__ if getattr(part, field)}
        told = {"source", "names", "where", "flags", "from_memory", "note"}
        assert given - told or part.from_memory, (role, name)
        re.compile(part.where)


def test_a_part_without_a_source_is_found():
    assert without_source({"a": Hardware(), "b": Hardware(source="a datasheet")}) == ["a"]


@pytest.mark.parametrize(
    "path", [*ROOT.glob("*/*/hardware.yaml")], ids=lambda path: path.parent.name
)
def test_the_parts_of_a_site_have_a_source_and_numbers(path):
    for role in yaml.safe_load(path.read_text()).values():
        for name, entry in role.items():
            assert len(entry["source"]) > 10, name
            assert all(v > 0 for k, v in entry.items() if k != "source"), name


def test_no_name_is_in_two_files_of_one_role_and_each_kind_has_a_file():
    folder = ROOT / "site-config/hardware"
    assert {path.stem for path in folder.iterdir()} == {*peaks.KINDS}
    counts = [len(yaml.safe_load((folder / f"{kind}.yaml").read_text())) for kind in peaks.KINDS]
    assert sum(counts) == len(ALL)


def test_figures_that_follow_from_another_one_agree():
    for name, part in KNOWN["memory"].items():
        assert part.bandwidth == 8 * part.transfers, name
    for generation, rate in ((3, 8000), (4, 16000), (5, 32000)):
        x16 = KNOWN["pcie"][f"pcie-{generation}-x16"].bandwidth
        assert x16 == pytest.approx(16 * rate * 128 / 130 / 8, abs=1)
    for name, part in KNOWN["link"].items():
        if match := re.fullmatch(r"(?:ethernet|roce)-(\d+)g", name):
            assert part.bandwidth == 125 * int(match[1]), name


def test_a_part_whose_figures_are_from_memory_is_named_and_never_judges():
    part = KNOWN["gpu"]["h800-sxm5-80gb"]
    assert part.from_memory and part.memory_bandwidth
    assert peak(SITE, {"gpu": "h800-sxm5-80gb"}, "gpu", "memory_bandwidth") is None
    granite = KNOWN["processor"]["granite-rapids-sp"]
    assert peaks.processor_fp64(granite, 64, 2.0) is None
    assert peaks.memory_bandwidth(granite) is None


def test_a_quantity_that_nobody_published_is_no_peak():
    assert peak(SITE, {"gpu": "t4"}, "gpu", "memory_bandwidth") == 320
    assert peak(SITE, {"gpu": "t4"}, "gpu", "fp64") is None


def test_the_peaks_of_a_processor():
    milan, a64fx = KNOWN["processor"]["epyc-milan"], KNOWN["processor"]["a64fx"]
    # LUMI-C states 204.8 GB/s a socket; two 7763 at 2.45 GHz have 5.0 TFLOP/s.
    assert peaks.memory_bandwidth(milan, 2) == 2 * 204_800
    assert peaks.processor_fp64(milan, 128, 2.45) == pytest.approx(5017.6)
    assert peaks.processor_fp64(milan, 128) is None, "its models have different clocks"
    assert peaks.processor_fp64(a64fx, 48) == 3072
    assert peaks.memory_bandwidth(a64fx) == 1_024_000
    slow, fast = KNOWN["memory"]["ddr4-2666"], KNOWN["memory"]["ddr5-4800"]
    assert peaks.memory_bandwidth(milan, 1, slow) == 8 * 2666 * 8
    assert peaks.memory_bandwidth(milan, 1, fast) == 204_800, "the processor's own limit"
    assert peaks.memory_bandwidth(Hardware(channels=8)) is None


def test_a_file_that_is_missing_or_wrong_is_one_line(tmp_path):
    folder = tmp_path / "hardware"
    folder.mkdir()
    with pytest.raises(ReferencesError, match=r"network\.yaml: No such file"):
        peak(tmp_path / "x", {"link": "a"}, "link", "bandwidth")
    for kind in peaks.KINDS:
        (folder / f"{kind}.yaml").write_text("a: {bandwith: 1}\n")
    with pytest.raises(ReferencesError, match=r"network\.yaml: a/bandwith: unknown key; did you"):
        peak(tmp_path / "x", {"link": "a"}, "link", "bandwidth")


def test_a_file_that_changed_is_read_again(tmp_path: Path):
    file = tmp_path / "hardware.yaml"
    file.write_text("link: {a: {bandwidth: 1}}\n")
    assert peak(tmp_path, {"link": "a"}, "link", "bandwidth") == 1
    file.write_text("link: {a: {bandwidth: 20}}\n")
    assert peak(tmp_path, {"link": "a"}, "link", "bandwidth") == 20
