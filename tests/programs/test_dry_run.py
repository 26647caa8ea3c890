"""Every case of every site and example reaches its job script, without its hardware."""

import importlib
import re
import runpy

import pytest
from bench import ROOT, live_program, run_reframe
from job_scripts import without_slurm
from reframe.core.runtime import temp_runtime
from shell import SITES

from assay.reframe_compat import testcase
from assay.store import promise

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
    assert run.returncode == 0, run.output[-5000:]
    assert run.cases
    assert not {key: case.reason for key, case in run.cases.items() if case.result == "fail"}
    written = {
        path.parent: path.read_text() for path in (tmp_path / "results").glob("stage/**/rfm_job.sh")
    }
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
def test_the_smoke_profile_of_a_document_runs_between_emulated_nodes(number, tmp_path, monkeypatch):
    """The plain smoke run has none of these cases."""
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path / "none"))
    live_program("mpirun")
    loaded = runpy.run_path(str(ROOT / "lab/sites/vcluster/reframe.py"))["site_configuration"]
    (place,) = (p for p in loaded["systems"][0]["partitions"] if p["name"] == "inter-node")
    assert BETWEEN_NODES[number] <= {*place["extras"]["options"]["StrictCheck.smoke"]}
    listed = promise.cases(ROOT / "reframe/cases.txt")
    smoke = {one.name.split()[0]: one.smoke for one in listed}
    assert not any(smoke.get(test) for test in BETWEEN_NODES[number])
    with temp_runtime("<builtin>", "generic"):
        declared = [
            each
            for path in sorted((ROOT / "reframe").rglob("*.py"))
            for each in testcase.declared(path)
        ]
        for path in sorted((ROOT / f"studies/doc{number}").glob("[!_]*.py")):
            module = importlib.import_module(f"studies.doc{number}.{path.stem}")
            if registry := getattr(module, "_rfm_test_registry", None):
                declared += registry._tests.items()
        for test, variants in declared:
            test(*variants[0][0], **{**variants[0][1], "reset_sysenv": 0})
    listed = (ROOT / f"studies/doc{number}/tests.txt").read_text().splitlines()
    assert BETWEEN_NODES[number] <= {*listed} & {test.__name__ for test, _ in declared}
