"""Every case of every site and example reaches its job script, without its hardware."""

import re
import subprocess

import pytest
from bench import REFRAME, ROOT, live_program, run_reframe
from job_scripts import without_slurm
from shell import SITES

#: Values that a site leaves open until somebody reads them from a node. Its other cases must pass.
OPEN = {"h100": " is missing"}

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("config", SITES.values(), ids=SITES)
def test_every_case_of_a_site_has_a_job_script(config, tmp_path, monkeypatch):
    site = config.parent.name
    live_program("mpirun")  # without it, sites that describe this machine have no case
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    run = run_reframe(
        config,
        tmp_path / "results",
        *("-c", "reframe", "-R", "--dry-run", f"--system={site}"),
        PATH=without_slurm(tmp_path / "bin"),
    )
    assert (run.returncode == 0) is (site not in OPEN), run.output[-5000:]
    assert run.cases
    bad = {
        key: case.reason
        for key, case in run.cases.items()
        if case.result == "fail" and (site not in OPEN or OPEN[site] not in case.reason)
    }
    assert not bad
    written = {
        path.parent: path.read_text() for path in (tmp_path / "results").glob("stage/**/rfm_job.sh")
    }
    # The same dry run, as `assay expect` makes it on an ideal machine.
    told = subprocess.run(
        [
            str(REFRAME.with_name("assay")), "expect", "--check",
            "--site", site, "--folder", str(config.parents[1]),
        ],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "is current" in told.stdout, told.stdout + told.stderr
    passed = [key for key, case in run.cases.items() if case.result == "pass"]
    assert len(written) >= len(passed) > 0
    if site == "amd-mi250x":
        on_gpus = [text for folder, text in written.items() if "Gpu" in folder.name]
        assert any(" osu_bw -c -d rocm D D" in text for text in on_gpus)
        assert any(" -m rocm,rocm" in text for text in on_gpus)
        assert not [text for text in on_gpus if re.search("cuda|nvidia|gdr_?copy", text, re.I)]


#: Document -> its tests that the smoke profile runs between the nodes of vcluster.
BETWEEN_NODES = {
    "001": {"BcastStream"},
    "002": {"OsuPairs", "OsuPyPairs", "HpccStudy", "HpccOverRanks"},
}


@pytest.mark.parametrize("number", BETWEEN_NODES)
def test_the_smoke_profile_of_a_document_runs_between_emulated_nodes(number, tmp_path):
    """On the machine that has all programs; the plain smoke run has none of these cases."""
    live_program("mpirun")
    config, tests = ROOT / "lab/sites/vcluster/reframe.py", BETWEEN_NODES[number]
    study = ("-c", f"studies/doc{number}")
    where = ("-c", "reframe", *study, "-R", "--dry-run", "--system=vcluster:inter-node")
    machine = {
        "ASSAY_EXPECT": "1",
        "ASSAY_VCLUSTER": str(tmp_path / "none"),
        "PATH": without_slurm(tmp_path / "bin"),
    }
    pattern = ("-n", "|".join(sorted(tests)))
    for mode, expected in ((f"paper-{number}-smoke", tests), ("smoke", set())):
        run = run_reframe(config, tmp_path / mode, *where, *pattern, "--mode", mode, **machine)
        made = {
            name.split()[0] for (name, _, _), case in run.cases.items() if case.result == "pass"
        }
        assert made == expected, run.output[-3000:]
