"""ReFrame's own handlers of performance logs, and its store, beside our records."""

import sqlite3

import pytest
from bench import HPL, SITE
from replays import judged_hpl

from assay.show import summary
from assay.show.view import View

pytestmark = pytest.mark.slow

FILELOG = {
    "type": "filelog",
    "prefix": "%(check_system)s",
    "level": "info",
    "format": "%(check_result)s %(check_perfvalues)s",
    "format_perfvars": "%(check_perf_var)s=%(check_perf_value)s %(check_perf_unit)s;",
}


def test_a_site_adds_handlers_and_a_run_may_fill_the_store_of_reframe(bench, monkeypatch):
    logs, store = bench.folder / "perflogs", bench.folder / "store.db"
    monkeypatch.setenv("RFM_ENABLE_RESULTS_STORAGE", "1")
    monkeypatch.setenv("RFM_SQLITE_DB_FILE", str(store))
    handler = {**FILELOG, "basedir": str(logs)}
    asked = f'spec["environments"], sites.site_yaml.SiteFile(perflog=[{handler}]))'
    assert SITE.count('spec["environments"])') == 1
    monkeypatch.setattr("bench.SITE", SITE.replace('spec["environments"])', asked))
    _, run, case, report = judged_hpl(bench, [HPL], "--mode", "smoke")
    assert (run.returncode, case.verdict.value) == (0, "PASS"), run.output
    (log,) = logs.rglob("*.log")
    (metric,) = case.metrics
    assert f"performance={metric.value} {metric.unit}" in log.read_text()
    with sqlite3.connect(store) as stored:
        assert stored.execute("SELECT count(*) FROM testcases").fetchone() == (2,)
    said = summary.closing_lines(View.of(report))[-1]
    assert "RFM_" not in said, "a store changes no measurement"
