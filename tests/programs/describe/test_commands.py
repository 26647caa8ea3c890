"""`assay site new` with a Slurm whose commands print what the emulated cluster once printed."""

import json
import shutil

import pytest
import shell
from shell import ROOT

pytest.importorskip("reframe")

from assay import cli
from assay.describe import expect, foreign, new, slurm
from assay.node import answers
from assay.store import promise
from assay.store.promise import PromiseError

DATA = ROOT / "tests/data/site-new"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout without sites, as the working directory, and a Slurm of recorded answers."""
    folder = tmp_path / "checkout"
    (folder / "site-config").mkdir(parents=True)
    for path in (ROOT / "site-config").glob("*.yaml"):
        shutil.copy(path, folder / "site-config")
    (folder / "reframe").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("ASSAY_RESULTS", "ASSAY_STACK"):
        monkeypatch.delenv(name, raising=False)
    scontrol = " ".join(
        f"{word}) exec /bin/cat {DATA}/{file}.txt;;"
        for word, file in (("partition", "partitions"), ("node", "nodes"), ("config", "config"))
    )
    shell.program(tmp_path / "bin", "scontrol", f'case "$2" in {scontrol} esac')
    job(tmp_path, "; ".join(f"/bin/sed 's/^/{k}: /' {DATA}/node0{2 - k}.txt" for k in (0, 1)))
    answers.hung.clear()
    yield folder
    answers.hung.clear()


def job(tmp_path, does):
    """Says what a job does. Its command is kept in the file `srun`."""
    mpi = f'--mpi=list) exec /bin/cat {DATA}/mpi-list.txt;; *) echo "$@" >{tmp_path}/srun; {does};;'
    shell.program(tmp_path / "bin", "srun", f'case "$1" in {mpi} esac')


def refused(capsys, *words):
    """The one line with which a command is refused, which leaves nothing behind."""
    assert cli.main(["site", "new", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = [line for line in said.err.splitlines() if not line.startswith("a job asks")]
    assert line.startswith("assay site new: ")
    return line.removeprefix("assay site new: ")


@pytest.mark.slow
def test_the_folder_loads_and_promises_what_the_cluster_can_run(
    checkout, tmp_path, monkeypatch, capsys
):
    monkeypatch.undo()
    monkeypatch.setenv("ASSAY_RESULTS", "")  # what the site sets is removed after the test
    monkeypatch.delenv("ASSAY_RESULTS")
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    shutil.rmtree(checkout / "reframe")
    shutil.copytree(ROOT / "reframe", checkout / "reframe")
    assert cli.main(["site", "new", "mine", "--access=--account=hpc"]) == 0
    said = capsys.readouterr().out
    assert "site-config/mine: written, and it loads" in said
    assert "partition ethernet: eth0 is no device of hardware" in said
    made = checkout / "site-config/mine"
    assert {path.name for path in made.iterdir()} == {
        "reframe.py", "assay.yaml", "references.yaml", "promise.yaml"
    }  # fmt: skip
    assert {path.name for path in checkout.iterdir()} == {"site-config", "reframe"}
    assert cli.main(["sites", "mine"]) == 0
    shown = capsys.readouterr().out
    assert "  ethernet, stack system: " in shown and "REFUSED" not in shown
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    configuration = foreign.sections(foreign.load_foreign([made / "reframe.py"]))
    access = {tuple(each["access"]) for each in configuration["systems"][0]["partitions"]}
    assert access == {("--partition=batch", "--exclusive", "--account=hpc")}
    assert "nothing_judged: allowed" in (made / "promise.yaml").read_text()
    promised = promise.load_promise(made / "promise.yaml")
    assert promised.site.partitions["ethernet"] == {"inter-node", "ethernet", "tcp"}
    assert promised.site.environs["ethernet"] == {"system"} <= promised.site.stacks.keys()
    assert {*promised.may_skip} == {*promise.KINDS}
    assert refused(capsys, "mine").startswith("site-config/mine: is there already")


def test_a_dry_run_prints_the_files_and_writes_nothing(checkout, tmp_path, capsys):
    assert cli.main(["site", "new", "mine", "--dry-run", "--access=--qos=test"]) == 0
    said = capsys.readouterr().out
    assert "# --- site-config/mine/assay.yaml" in said
    assert "# --- site-config/mine/references.yaml" in said
    assert {path.name for path in checkout.iterdir()} == {"site-config", "reframe"}
    assert not (checkout / "site-config/mine").exists()
    command = (tmp_path / "srun").read_text()
    assert command.startswith("--partition=batch --exclusive --qos=test --nodes=2 --ntasks=2 ")
    assert "--immediate=600" in command and "provenance.py --questions" in command


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["My Site"], "the name 'My Site' is not of a-z, 0-9, - and _"),
        (["../mine"], "the name '../mine' is not of"),
        (["mine", "--folder", "nowhere"], "nowhere: has no vocabulary.yaml"),
        (["mine", "--folder", "alone/site-config"], "there is no suite (reframe/) beside it"),
        (["there"], "site-config/there: is there already; choose another name"),
        (["mine", "--access=account=hpc"], "--access: 'account=hpc' is not one option of sbatch"),
        (["mine", "--access=--account hpc"], "--access: '--account hpc' is not one option"),
        (["mine", "--partition", "bach"], "Slurm has no 'bach'; did you mean 'batch'?"),
        (["mine", "--module", "openmpi"], "--module: a login shell has no command `module` here"),
    ],
)
def test_a_wrong_input_is_one_line_and_writes_nothing(checkout, capsys, words, says):
    (checkout / "site-config/there").mkdir()
    (checkout / "alone").mkdir()
    shutil.copytree(checkout / "site-config", checkout / "alone/site-config")
    assert says in refused(capsys, *words)
    assert not (checkout / "site-config/mine").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "the following arguments are required: NAME"),
        (["mine", "--wait", "0"], "--wait: '0' is not a number of seconds above 0"),
    ],
)
def test_wrong_usage(checkout, capsys, words, says):
    with pytest.raises(SystemExit) as ended:
        cli.main(["site", "new", *words])
    assert ended.value.code == 64 and says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (
            'echo "srun: error: Unable to allocate resources: they are busy" >&2; exit 1',
            "the last: partition batch of Slurm: its job gave no answer: srun: error: Unable to "
            "allocate resources: they are busy; type it again: try --wait, --access or",
        ),
        ("exit 0", "it printed nothing"),
        ("/usr/bin/head -c 900 {data}/node01.txt | /bin/sed 's/^/0: /'", "its answer is cut"),
        (
            '/bin/sed \'s/"programs": {{[^}}]*}}/"programs": {{}}/;s/^/0: /\' {data}/node01.txt',
            "no program that the suite knows is on PATH of node01: install Open MPI",
        ),
    ],
)
def test_nodes_that_do_not_answer(checkout, tmp_path, capsys, does, says):
    job(tmp_path, does.format(data=DATA))
    assert says in refused(capsys, "mine")
    assert not (checkout / "site-config/mine").exists()


def test_a_partition_that_was_named_must_answer(checkout, tmp_path, capsys):
    job(tmp_path, "echo no >&2; exit 1")
    said = refused(capsys, "mine", "--partition", "batch")
    assert said.startswith("the job on partition 'batch' gave no answer: no; try --wait")


def test_where_there_is_no_slurm_or_it_does_not_answer(checkout, tmp_path, capsys):
    shell.program(tmp_path / "bin", "scontrol", "echo slurm_load_partitions: connect failure")
    assert "lists no partition, it says: slurm_load_partitions" in refused(capsys, "mine")
    shell.program(tmp_path / "bin", "scontrol", f"/bin/sed s/ALLOCATED/DOWN/ {DATA}/nodes.txt "
                  f"{DATA}/partitions.txt")  # fmt: skip
    assert "no node of Slurm takes jobs now" in refused(capsys, "mine")
    (tmp_path / "bin/scontrol").unlink()
    assert "scontrol is not on PATH" in refused(capsys, "mine")


def modules_of(tmp_path, listing):
    """A login shell with a command `module` that lists these modules, one per line."""
    said = "Modules based on Lua: Version 8.7.32\\n\\n" + "\\n".join(listing) + "\\n"
    shell.program(tmp_path / "bin", "bash", f"printf '{said}'")


def test_modules_that_bring_mpi_are_said_and_an_unknown_one_is_refused(checkout, tmp_path, capsys):
    # Made after the documentation of Lmod.
    modules_of(tmp_path, ["gcc/13.2.0", "openmpi/5.0.5", *(f"cuda/12.{n}" for n in range(14))])
    assert cli.main(["site", "new", "mine", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "the stack loads no module; there are openmpi/5.0.5, cuda/12.0, " in said
    assert "cuda/12.10, and 3 more; name those that you want by --module" in said
    assert refused(capsys, "mine", "--module", "openmpi/5.0.4") == (
        "--module: no 'openmpi/5.0.4'; did you mean 'openmpi/5.0.5'?"
    )
    # A module without its version, too.
    assert cli.main(["site", "new", "mine", "--dry-run", "--module", "openmpi"]) == 0
    capsys.readouterr()
    assert cli.main(["site", "new", "mine", "--dry-run", "--module", "openmpi/5.0.5"]) == 0
    said = capsys.readouterr().out
    assert "modules_system: lmod\n" in said and "modules: [openmpi/5.0.5]\n" in said
    assert "module load openmpi/5.0.5 >&2 && exec python3 " in (tmp_path / "srun").read_text()


def test_a_site_that_is_refused_leaves_nothing(checkout, monkeypatch, capsys):
    def fails(site_file, words):
        assert (site_file.parent / "references.yaml").exists()
        raise PromiseError(f"{site_file.name}: the dry run has no case")

    monkeypatch.setattr(expect, "of_site", fails)
    assert cli.main(["site", "new", "mine"]) == 2
    assert "reframe.py: the dry run has no case" in capsys.readouterr().err
    assert {path.name for path in checkout.iterdir()} == {"site-config", "reframe"}
    assert not (checkout / "site-config/mine").exists()


def test_the_job_loads_modules_in_a_login_shell(checkout):
    text = (DATA / "nodes.txt").read_text().replace("Gres=(null)", "Gres=gpu:2")
    pool = slurm.pool(slurm.partitions((DATA / "partitions.txt").read_text())[0], slurm.nodes(text))
    command = new.job(pool, [], ["openmpi/5.0.5", "osu micro"], 60)
    assert command[-3:-1] == ["bash", "-lc"]
    assert command[-1].startswith("module load openmpi/5.0.5 'osu micro' >&2 && exec python3 ")
    assert "--gres=gpu:2" in command and "--immediate=60" in command
    asked = json.loads(new.job(pool, [], [], 60)[-1])
    assert asked["peer"] == "10.77.0.5" and "mpirun" in asked["programs"]
