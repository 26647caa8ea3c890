"""Tests of the documents: the commands that they give to a newcomer are run here."""

import contextlib
import importlib.util
import os
import re
import shutil
import sys

import job_scripts
import pytest
import shell
from bench import ROOT, run_reframe
from test_document_commands import blocks, copy, lines, localised
from tests.pure.parse.test_registry import keeps_the_contract

from assay import cli, files
from assay.judge import Peak, Reference, References
from assay.parse import ParseError

__all__ = ["copy"]  # a fixture

pytestmark = pytest.mark.slow

SITE, BENCHMARK = "docs/adding-a-site.md", "docs/adding-a-benchmark.md"
OUTSIDE = "docs/my-benchmark.md"


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
    for name in ("vocabulary.yaml", "hardware"):
        (site.parent / name).symlink_to(ROOT / "site-config" / name)
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
    found = references.find(case, "bandwidth_1MiB", "MB/s", Peak("link", 12500.0))
    assert isinstance(found, Reference)
    assert found.lower_bound == pytest.approx(12100 * 0.95)


def as_shown(page, folder):
    """Writes the files that a page shows; one that is there gets what is shown at its end."""
    for text in (text for language in ("python", "yaml") for text in blocks(page, language)):
        if name := re.match(r"# ([\w./-]+)\n", text):
            file = folder / name[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            before = file.read_text() if file.exists() else ""
            file.write_text(before + text.removeprefix(name[0]))


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".venv" not in path.parts and "__pycache__" not in path.parts
    }


def in_copy(copy, *command):
    """Runs a command in a copy of the checkout, whose library goes before the installed one."""
    variables = {"PYTHONPATH": str(copy / "src")}
    done = shell.run(*command, cwd=copy, **{**os.environ, **variables})
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def test_the_benchmark_of_the_document_is_three_files_and_its_data(copy):
    """docs/adding-a-benchmark.md, as it stands there, in a copy of the checkout."""
    before = contents(copy)
    as_shown(BENCHMARK, copy)
    (copy / "tests/data/sysbench").mkdir()
    (copy / "tests/data/sysbench/healthy.txt").write_text(blocks(BENCHMARK, "text")[0])
    shown = {name for name, text in contents(copy).items() if before.get(name) != text}
    by_hand = {name for name in shown if not name.startswith("tests/data/")}
    named = {cells[0]: cells[1] for cells in rows("file")}
    stated = [ticked(cell)[0] for cell, what in named.items() if not what.startswith("data")]
    example = {"NAME": "sysbench", "KIND": "compute"}
    assert by_hand == {re.sub("NAME|KIND", lambda at: example[at[0]], name) for name in stated}
    assert len(by_hand) == 3

    for line in lines(BENCHMARK):
        if "reframe -C" not in line.text:  # it needs the program
            in_copy(copy, "bash", "-c", line.text)
    files = [name for name in by_hand if name.endswith(".py")]
    python = copy / ".venv/bin/python"
    in_copy(copy, python, "-m", "ruff", "check", "--no-cache", *files)
    in_copy(copy, python, "-m", "ruff", "format", "--no-cache", "--check", *files)
    contract = ["tests/pure/parse/test_registry.py", "tests/pure/test_catalogue.py"]
    contract += ["tests/programs/test_recorded_faults.py", "tests/programs/test_containers_lint.py"]
    contract += [
        "tests/pure/test_cards.py",
        "tests/pure/describe/test_expect.py",
        "tests/programs/test_node.py",
    ]
    chosen = "sysbench or packages_of_the_catalogue or promises_are_current or suite_loads"
    # Nothing has rewritten the assertions of the copy yet, which would take longer than its tests.
    quick = ("--assert=plain", "-p", "no:cacheprovider")
    call = ("-m", "pytest", "-q", *quick, *contract, "-k", chosen)
    in_copy(copy, python, *call)


def test_the_parser_of_a_benchmark_outside_of_the_suite_keeps_the_contract(tmp_path):
    """docs/my-benchmark.md: what a newcomer copies has nothing that the suite refuses."""
    as_shown(OUTSIDE, tmp_path)
    mine = tmp_path / "mybench"
    python, options = sys.executable, ("--no-cache", "--config", ROOT / "pyproject.toml")
    for action in (("check",), ("format", "--check")):
        done = shell.run(python, "-m", "ruff", *action, *options, mine)
        assert done.returncode == 0, done.stdout
    spec = importlib.util.spec_from_file_location("copyrate_of_the_page", mine / "copyrate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    output = shell.run(python, mine / "src/copyrate.py").stdout
    assert module.parse(output).sound
    for end in range(len(output.rstrip())):
        keeps_the_contract(module.parse, output[:end])
        with contextlib.suppress(ParseError):
            assert not module.parse(output[:end]).complete


def rows(heading):
    """Cells of the table of docs/adding-a-benchmark.md whose heading starts like this."""
    text = (ROOT / BENCHMARK).read_text()
    table = text[text.index(f"| {heading} |") :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[2:]]


def ticked(cell):
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("document", [BENCHMARK, SITE])
def test_the_documents_name_files_that_are_there(document):
    text = (ROOT / document).read_text()
    named = set(re.findall(r"\]\((\.\./[^)]+)\)|`((?:src|tests|site-config)/[\w./-]+)`", text))
    example = {path for _, path in named if re.search("NAME|SITE|mycluster|sysbench", path)}
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
