"""Tests of the documents: the commands that they give to a newcomer are run here."""

import re
import shutil
from pathlib import Path

import job_scripts
import pytest
import shell
import yaml
from bench import ROOT, Recorded, run_reframe
from test_document_commands import blocks, localised

from assay import catalogue, cli, files
from assay.judge import Reference, References

pytestmark = pytest.mark.slow

SITE, BENCHMARK = "docs/adding-a-site.md", "docs/adding-a-benchmark.md"


def of_site():
    """The file that docs/adding-a-site.md lets a person write."""
    (words,) = [
        text for text in blocks(SITE, "yaml") if text.startswith("# site-config/mycluster/a")
    ]
    return words


def test_a_site_is_one_file_that_a_person_writes(tmp_path, monkeypatch, capsys):
    """docs/adding-a-site.md, steps 1 and 2, to the letter: only host and modules are of here."""
    site = tmp_path / "site-config/mycluster"
    site.mkdir(parents=True)
    for path in (ROOT / "site-config").glob("*.yaml"):
        shutil.copy(path, site.parent)
    (tmp_path / "reframe").symlink_to(ROOT / "reframe")
    shutil.copy(ROOT / "site-config/any/reframe.py", site)
    words = of_site().replace("lmod", "nomod").replace("login[0-9]+.mycluster", ".*")
    words = words.replace("    modules: [openmpi, osu-micro-benchmarks, hpl]\n", "")
    (site / "assay.yaml").write_text(words)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    monkeypatch.setenv("PATH", job_scripts.without_slurm(tmp_path / "slurm"))
    assert cli.main(["sites", "mycluster"]) == 0
    said = capsys.readouterr().out
    assert "  lustre-ssd, stack mpi: " in said and "references: 0 metrics judged" in said
    monkeypatch.setattr(files, "SUITE", tmp_path)  # not to write the list of our cases
    assert cli.main(["expect", "--site", "mycluster", "--check"]) == 1
    only = ("-n", "NodeHealth|Hpl$|Census")
    run = run_reframe(site / "reframe.py", tmp_path / "results", "--dry-run", *only)
    assert run.returncode == 0, run.output
    scripts = [path.read_text() for path in tmp_path.glob("results/stage/*/**/rfm_job.sh")]
    assert {
        re.search("mycluster/([^/]+)/", str(path))[1]
        for path in tmp_path.glob("results/stage/*/**/rfm_job.sh")
    } == {"node", "infiniband", "lustre-ssd"}
    assert all("#SBATCH --partition=compute\n#SBATCH --exclusive\n" in text for text in scripts)
    assert any("srun " in text for text in scripts)


def test_the_site_of_the_document_is_accepted_and_its_references_apply(tmp_path):
    """docs/adding-a-site.md, steps 1 to 3, on a copy of the repository's site-config."""
    site = tmp_path / "site-config" / "mycluster"
    site.mkdir(parents=True)
    for name in ("vocabulary.yaml", "hardware.yaml"):
        shutil.copy(ROOT / "site-config" / name, site.parent)
    shutil.copy(ROOT / "site-config/any/reframe.py", site)
    (site / "assay.yaml").write_text(localised(of_site()))
    (references,) = [block for block in blocks(SITE, "yaml") if "\nreferences:" in f"\n{block}"]
    (site / "references.yaml").write_text(references)
    run = run_reframe(
        site / "reframe.py", tmp_path / "results", "-c", "reframe", "-R", "-lC", RFM_COLORIZE="no"
    )
    assert run.returncode == 0, run.output
    cases = set(re.findall(r"^- (.*) /\w+ @mycluster:(\S+)\+mpi$", run.output, re.MULTILINE))
    assert {where for case, where in cases if case == "Hpl"} == {"node", "infiniband"}
    assert ("HplStudy %nodes=4", "infiniband") in cases
    assert ("Census", "lustre-ssd") in cases
    bandwidth = "Osu %transport={} %benchmark=bw"
    where = {"posix": "node", "sysv": "node", "cma": "node", "rc_mlx5": "infiniband"}
    assert {case for case in cases if re.fullmatch(bandwidth.format(r"\w+"), case[0])} == {
        (bandwidth.format(transport), partition) for transport, partition in where.items()
    }

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
    test = blocks(BENCHMARK, "python")[1]
    checks = bench.check(
        "stream",
        "import reframe as rfm\n"
        "from assay.run.strict import StrictCheck\n"
        "from assay.parse import Parsed, ParseError\n"
        "class stream:\n"
        "    @staticmethod\n"
        "    def parse(text):\n"
        "        head, *lines = text.splitlines()\n"
        "        if not head.startswith('Function'):\n"
        "            raise ParseError('no header of STREAM', 1, head)\n"
        "        rows = tuple({'function': l.split(':')[0], 'rate': float(l.split()[1])}"
        " for l in lines)\n"
        "        return Parsed('stream', 'stream', '5.10', rows[-1]['function'] == 'Triad', rows,"
        " {'rate': 'MB/s'})\n\n\n" + test,
    )
    reference = yaml.safe_load(blocks(BENCHMARK, "yaml")[1])[0]["metrics"]["triad"]
    bench.expect("Stream", {"triad": {**reference, "value": 12000}})
    faults = yaml.safe_load(blocks(BENCHMARK, "yaml")[2])
    bench.catches(faults, Recorded(STREAM), checks)


#: Where a program might be named. Sites and locks have their own words for its package.
TESTS = ("tests/pure", "tests/programs", "tests/clusters", "lab/tests")
CODE = ("src", "reframe", "ci", "containers", "lab/vcluster", "lab/vgpu", *TESTS)


def rows(heading):
    """Cells of the table of docs/adding-a-benchmark.md whose heading starts like this."""
    text = (ROOT / BENCHMARK).read_text()
    table = text[text.index(f"| {heading} |") :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[2:]]


def ticked(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_a_new_benchmark_is_four_files_and_its_data():
    named = {cells[0]: cells[1] for cells in rows("file")}
    files = [cell for cell, what in named.items() if not what.startswith("data")]
    assert [ticked(file) for file in files] == [
        ["src/assay/parse/NAME.py"],
        ["src/assay/catalogue.yaml"],
        ["reframe/KIND/NAME.py"],
        ["tests/pure/test_outputs_NAME.py"],
    ]


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("fabtests", r"fabtests|fi_rma_bw|libfabric"),
        ("fio", r"\b[Ff]io\b"),
    ],
)
def test_no_file_but_those_of_the_document_knows_the_benchmark(word, names):
    """Each file that names the program is in the list of its commit, or is the catalogue."""
    lists = {ticked(c[0])[0]: ticked(c[2]) for c in rows("benchmark")}
    form = [
        re.escape(ticked(c[0])[0]).replace("NAME", r"\w+").replace("KIND", r"\w+")
        for c in rows("file")
    ]
    text = (ROOT / BENCHMARK).read_text()
    more = text[text.index("need one file more:") : text.index("Two benchmarks added")]
    form += [f"{re.escape(kind).replace('NAME', '.*')}.*" for kind in ticked(more) if "/" in kind]
    for file in lists[word]:
        assert any(re.fullmatch(pattern, file) for pattern in form), file
    knows = {
        str(path.relative_to(ROOT))
        for folder in CODE
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".sh", ".yaml", ".def") and path != Path(__file__)
        if re.search(names, path.read_text())
    }
    assert knows == {*lists[word], "src/assay/catalogue.yaml"}


def test_the_entry_of_the_document_is_that_of_the_catalogue():
    entry = yaml.safe_load(blocks(BENCHMARK, "yaml")[0])
    known = yaml.safe_load(catalogue.FILE.read_text())["stream"]
    assert entry == {"stream": known}


@pytest.mark.parametrize("document", [BENCHMARK, SITE])
def test_the_documents_name_files_that_are_there(document):
    text = (ROOT / document).read_text()
    named = set(re.findall(r"\]\((\.\./[^)]+)\)|`((?:src|tests|site-config)/[\w./-]+)`", text))
    example = {
        "src/assay/parse/stream.py",
        "tests/data/stream/",
        "tests/pure/parse/test_stream.py",
    }
    example |= {path for _, path in named if re.search("NAME|SITE|mycluster", path)}
    for link, path in named:
        if path not in example:
            target = (ROOT / "docs" / link).resolve() if link else ROOT / path
            assert target.exists(), link or path


#: A variable of ours: what reads it is in the repository, and docs/variables.md explains it.
VARIABLE = re.compile(r"\b(?:ASSAY|GPUEMU|VCLUSTER)_[A-Z0-9_]*[A-Z0-9]\b")


def test_the_page_of_variables_is_that_of_the_code():
    """A variable that the code has and the page lacks, or the other way round, is red."""
    listed = shell.run("git", "ls-files", cwd=ROOT, check=True).stdout.splitlines()
    apart = ("docs/variables.md", "docs/runs.csv", "tests/data/")
    others = (name for name in listed if not name.startswith(apart))
    texts = (path.read_text("latin-1") for path in map(ROOT.joinpath, others) if path.is_file())
    read = {name for text in texts for name in VARIABLE.findall(text)}
    rows = re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs/variables.md").read_text(), re.MULTILINE)
    assert sorted(read) == sorted(name for row in rows for name in re.findall(r"`(\w+)`", row))
