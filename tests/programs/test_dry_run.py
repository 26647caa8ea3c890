"""Every case of every site reaches its job script, without the hardware of the site."""

import pytest
from bench import ROOT, live_program, run_reframe

SITES = sorted(path.parent.name for path in (ROOT / "site-config").glob("*/reframe.py"))

#: The dry run asks this Slurm about the nodes of the site, even if the machine has its own Slurm.
SCONTROL = """#!/bin/sh
echo "slurm_load_node error: Unable to contact slurm controller (connect failure)" >&2
exit 1
"""

#: Values that a site leaves open until somebody reads them from a node. Its other cases must pass.
OPEN = {"h100": " is missing"}

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("site", SITES)
def test_every_case_of_a_site_has_a_job_script(site, tmp_path, monkeypatch):
    live_program("mpirun")  # without it, sites that describe this machine have no case
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "scontrol").write_text(SCONTROL)
    (programs / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    run = run_reframe(
        ROOT / f"site-config/{site}/reframe.py",
        tmp_path / "results",
        *("-c", "reframe", "-R", "--dry-run", f"--system={site}"),
    )
    assert (run.returncode == 0) is (site not in OPEN), run.output[-5000:]
    assert run.cases
    bad = {
        key: case.reason
        for key, case in run.cases.items()
        if case.result == "fail" and (site not in OPEN or OPEN[site] not in case.reason)
    }
    assert not bad
    written = {path.parent for path in (tmp_path / "results").glob("stage/**/rfm_job.sh")}
    passed = [key for key, case in run.cases.items() if case.result == "pass"]
    assert len(written) >= len(passed) > 0
