"""Tests of the documents: the commands that they give to a newcomer are run here."""

import re
import shutil

import pytest
import yaml
from bench import ROOT, Recorded, run_reframe

from assay import catalogue

pytestmark = pytest.mark.slow


def blocks(document, language):
    text = (ROOT / "docs" / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_site_of_the_document_is_accepted_and_its_references_apply(tmp_path):
    """docs/adding-a-site.md, steps 1 to 3, on a copy of the repository's site-config."""
    site = tmp_path / "site-config" / "mycluster"
    site.mkdir(parents=True)
    for name in ("vocabulary.yaml", "hardware.yaml"):
        shutil.copy(ROOT / "site-config" / name, site.parent)
    (site / "reframe.py").write_text(
        # This machine has neither the modules nor the scheduler of the document.
        blocks("adding-a-site.md", "python")[0]
        .replace('"lmod"', '"nomod"')
        .replace('"login[0-9]+.mycluster"', '".*"')
        .replace('"slurm"', '"local"')
        .replace('"srun"', '"local"')
        .replace('            "modules": ["openmpi", "osu-micro-benchmarks", "hpl"],\n', "")
    )
    (site / "references.yaml").write_text(blocks("adding-a-site.md", "yaml")[0])
    run = run_reframe(
        site / "reframe.py", tmp_path / "results", "-c", "reframe", "-R", "-L", RFM_COLORIZE="no"
    )
    assert run.returncode == 0, run.output
    assert "Hpl" in run.output
    assert "Osu %transport=posix %benchmark=bw" in run.output
    assert "Osu %transport=tcp" not in run.output, "the partition does not have it"

    from assay.judge import Reference, References

    references = References.load(site / "references.yaml")
    case = {"partition": "infiniband", "environ": "mpi", "test": "Osu", "benchmark": "bw"}
    found = references.find(case, "bandwidth_1MiB", "MB/s", peak=12500.0)
    assert isinstance(found, Reference)
    assert found.lower_bound == pytest.approx(12100 * 0.95)


STREAM = """\
Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           11837.1     0.013607     0.013517     0.013874
Triad:          12001.5     0.020111     0.019998     0.020305
"""


def test_the_benchmark_of_the_document_runs(bench):
    """docs/adding-a-benchmark.md, steps 2 and 4, with the test class as printed there."""
    test = blocks("adding-a-benchmark.md", "python")[1]
    checks = bench.check(
        "stream",
        "import reframe as rfm\n"
        "from assay.checks.strict import StrictCheck\n"
        "from assay.outputs import Parsed, ParseError\n"
        "class stream:\n"
        "    @staticmethod\n"
        "    def parse(text):\n"
        "        head, *lines = text.splitlines()\n"
        "        if not head.startswith('Function'):\n"
        "            raise ParseError('no header of STREAM', 1, head)\n"
        "        rows = tuple({'function': l.split(':')[0], 'best_rate': float(l.split()[1])}"
        " for l in lines)\n"
        "        return Parsed('stream', 'stream', '5.10', rows[-1]['function'] == 'Triad', rows,"
        " {'best_rate': 'MB/s'})\n\n\n" + test,
    )
    bench.partition()
    for name, text in (("good", STREAM), ("torn", STREAM[: STREAM.index("Triad")])):
        path = bench.replay(name, "stream_c.exe", Recorded(text))
        bench.stack(name, ["stream"], path)
    reference = yaml.safe_load(blocks("adding-a-benchmark.md", "yaml")[1])[0]["metrics"]["triad"]
    bench.expect("Stream", {"triad": {**reference, "value": 12000}})
    run = bench.run(path=checks)
    good, torn = run.case("Stream", "good"), run.case("Stream", "torn")
    assert good.result == "pass", good.reason
    assert good.record["metrics"]["triad"]["verdict"] == "PASS"
    assert torn.result == "fail"
    assert "incomplete" in torn.reason


def test_the_entry_of_the_document_is_that_of_the_catalogue():
    entry = yaml.safe_load(blocks("adding-a-benchmark.md", "yaml")[0])
    assert entry == {"stream": yaml.safe_load(catalogue.FILE.read_text())["stream"]}


@pytest.mark.parametrize("document", ["adding-a-benchmark.md", "adding-a-site.md"])
def test_the_documents_name_files_that_are_there(document):
    text = (ROOT / "docs" / document).read_text()
    named = set(re.findall(r"\]\((\.\./[^)]+)\)|`((?:src|tests|site-config)/[\w./-]+)`", text))
    example = {
        "src/assay/outputs/stream.py",
        "tests/data/stream/",
        "tests/pure/test_outputs_stream.py",
    }
    for link, path in named:
        if path not in example:
            target = (ROOT / "docs" / link).resolve() if link else ROOT / path
            assert target.exists(), link or path
