"""A baseline of one machine judges another of its hardware, and is refused where it must be."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from bench import Bench
from msgspec import structs

from assay.archive import baseline
from assay.archive.calibrate.launches import Sample
from assay.cli import main
from assay.exits import Exit
from assay.judge import Verdict, judge, reference_files
from assay.judge.references import References
from assay.store.session import case_named

LINK = {"link": "fast"}
RATES = [95.0, 97.0, 98.0, 99.0, 99.5, 100.0, 101.0]
TIMES = [2.0, 2.1, 2.1, 2.2, 2.2, 2.3, 2.4]


def measured(partition: str = "fabric", hosts: int = 2, **more: Any) -> tuple[Sample, Any]:
    """A calibrated case of OSU, with its last launch."""
    key = {"partition": partition, "environ": "secret-stack", "profile": "full", "test": "Osu"}
    key |= {"benchmark": "bw", "transport": "rc_mlx5"}
    units = {"bandwidth_1MiB": "MB/s", "latency_8B": "us", "count": "1"}
    values = {"bandwidth_1MiB": RATES, "latency_8B": TIMES, "count": [1.0] * 7}
    nodes = {f"secret{n}.example" for n in range(hosts)}
    sample = Sample(
        key, 7, values, units, nodes, "/secret/stack", datetime.date(2026, 11, 20), **more
    )
    bare = case_named({"display_name": "Osu", "system": "bench", "partition": partition})
    proof = {"hosts": dict.fromkeys(nodes, 1), "mpi": "openmpi", "ucx": "1.18.1"}
    case = structs.replace(
        bare, environ="secret-stack", profile="full", kind="network", recorded=True, proof=proof,
        parameters={"benchmark": "bw", "transport": "rc_mlx5"}, program="osu_bw", version="7.4",
    )  # fmt: skip
    return sample, case


@pytest.fixture
def site(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Calls `assay baseline` for a site whose partition between nodes has the hardware."""
    keygen = shutil.which("ssh-keygen")
    if not keygen:
        pytest.skip("needs ssh-keygen of OpenSSH")
    make = [keygen, "-q", "-t", "ed25519", "-N", "", "-C", "key", "-f", bench.folder / "key"]
    subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
    public = (bench.folder / "key.pub").read_text()
    (bench.folder / "signers").write_text(f"hpc@example.org {public}")
    known = {name: {"bandwidth": 100, "source": "made"} for name in ("fast", "slow")}
    (bench.site / "hardware.yaml").write_text(yaml.safe_dump({"link": known}))
    sample, case = measured()
    load = lambda _: SimpleNamespace(attempts=[case])  # noqa: E731
    monkeypatch.setattr(baseline.session, "load_session", load)
    monkeypatch.setattr(baseline.launches, "samples", lambda *_: [sample])

    def call(action: str, *arguments: object, hardware: Any = LINK) -> int:
        place = {"name": "fabric", "features": ["inter-node"], "extras": {"hardware": hardware}}
        loaded = {"systems": [{"name": "bench", "partitions": [place]}]}
        monkeypatch.setattr(baseline, "load_config", lambda *_: loaded)
        words = ["baseline", action, bench.folder / "shared.yaml", "--site", "bench"]
        words += ["--folder", bench.site.parent, *arguments]
        return main([str(word) for word in words])

    return call


def write(bench: Bench, site: Callable[..., int]) -> str:
    assert site("write", "--from", "report", "--key", bench.folder / "key") == Exit.PASS
    return (bench.folder / "shared.yaml").read_text()


def test_the_file_names_no_host_site_or_partition_and_judges_another_machine(
    bench: Bench, site: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    text = write(bench, site)
    for word in ("secret", "fabric", "bench", os.uname().nodename, str(bench.folder)):
        assert word not in text.partition("-----BEGIN")[0].replace("benchmark", "")
    assert len(text) < 4000
    signers = ("--signers", bench.folder / "signers")
    assert site("use", *signers) == Exit.PASS
    assert "2 metrics of 1 cases, signed by hpc@example.org" in capsys.readouterr().out
    path = bench.site / baseline.FILE
    (entry,) = reference_files.read_references(path, reference_files.Included)["references"]
    assert entry["for"]["partition"] == ["fabric"]
    assert entry["source"]["n"] == 7
    assert entry["source"]["where"] == (
        "baseline of 2 nodes of this hardware, osu_bw 7.4, mpi openmpi, ucx 1.18.1"
    )
    by_it = References(path, {path: [entry]}, (), (bench.folder / "no", bench.folder / "no"))
    key = {**measured()[0].case, "environ": "another", "system": "other"}

    def verdict(metric: str, unit: str, value: float) -> Verdict:
        reference = by_it.find(key, metric, unit)
        return judge([value], reference).verdict  # type: ignore[arg-type]

    for value, good in ((81, True), (80, False), (140, True), (160, False)):
        assert (verdict("bandwidth_1MiB", "MB/s", value) is Verdict.PASS) is good, value
    for value, good in ((3.5, True), (3.7, False), (1.6, True), (1.4, False)):
        assert (verdict("latency_8B", "us", value) is Verdict.PASS) is good, value


def test_other_hardware_is_refused_in_one_line(
    bench: Bench, site: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    write(bench, site)
    assert site("use", "--any-signer", hardware={**LINK, "processor": "any"}) == Exit.PASS
    (bench.site / baseline.FILE).unlink()
    for other in ({"link": "slow"}, {}):
        capsys.readouterr()
        assert site("use", "--any-signer", hardware=other) == Exit.NOT_VALID
        (said,) = capsys.readouterr().err.splitlines()
        assert "refused: it is of inter-node {'link': 'fast'}; " in said
        assert said.endswith("inter-node {'link': 'slow'}" if other else "has none named")
    assert not (bench.site / baseline.FILE).exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("95.0", "59.0", "is not the signature of"),
        ("# -----BEGIN SSH SIGNATURE-----", "#", "does not end with a signature"),
        (
            "# -----END SSH SIGNATURE-----\n",
            "# -----END SSH SIGNATURE-----\nmore: []\n",
            "not end with",
        ),
    ],
)
def test_a_changed_file_and_an_unknown_signer_are_refused(  # noqa: PLR0913, PLR0917
    bench: Bench,
    site: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    said: str,
) -> None:
    text = write(bench, site)
    assert site("use") == Exit.NOT_VALID
    assert "unknown key SHA256:" in capsys.readouterr().err
    assert text.count(old) == 1
    (bench.folder / "shared.yaml").write_text(text.replace(old, new))
    assert site("use", "--any-signer") == Exit.NOT_VALID
    assert said in capsys.readouterr().err


def test_what_says_nothing_of_other_machines_is_left_out() -> None:
    at = {"inter-node": [("fabric", "inter-node", LINK)], "else": [("fabric", "intra-node", LINK)]}
    sample, case = measured()
    assert len(baseline.of_calibration([sample], [case], at["inter-node"])) == 1
    assert baseline.of_calibration([sample], [case], at["else"]) == []  # the processor is not named
    assert baseline.of_calibration([sample], [case], []) == []
    hpl = structs.replace(case, kind="compute")
    assert baseline.of_calibration([sample], [hpl], at["inter-node"]) == []
    sample, case = measured(hosts=4)  # the time depends on the number of nodes
    assert baseline.of_calibration([sample], [case], at["inter-node"]) == []
