"""assay.yaml of a site: what it makes, and what is refused in one line."""

import textwrap
from pkgutil import resolve_name

import pytest

pytest.importorskip("reframe")

from reframe.core.exceptions import ConfigError

from assay import sites
from assay.describe import container
from assay.describe.written import REFRAME
from assay.reframe_compat import polling
from assay.sites import site_yaml

WORDS = """\
hostnames: [".*"]
nodes:
  node:
    scheduler: slurm
    launcher: srun
    access: [--exclusive, "${ASSAY_ACCESS:-}"]
    processor: {num_cpus: 48}
    env_vars: [[SLURM_MPI_TYPE, "${HOME}"]]
    extras: {memory_bytes: 100, options: {EachCore.width: 1}}
  with-gpus: {of: node, devices: [{type: gpu, num_devices: 4}]}
places:
  node: {of: node, features: [intra-node, posix]}
  gpu:
    of: with-gpus
    environs: [mpi, hpl]
    features: [intra-node, gpu, cuda]
    extras: {memory_bytes: null, options: {EachCore.seconds: 2}}
  files:
    when: ${SCRATCH}
    of: node
    features: [storage]
    extras: {directory: "${SCRATCH}/assay", file_system: lustre}
stacks:
  mpi: {features: [mpi, ucx], modules: [openmpi]}
  hpl: {when: "${HPL}", features: [mpi, hpl-gpu], extras: {hpl_gpu_command: "${HPL}"}}
"""


@pytest.fixture(autouse=True)
def variables(monkeypatch, tmp_path):
    for name in ("ASSAY_ACCESS", "ASSAY_STACK", "ASSAY_DEADLINE", "SCRATCH", "HPL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    return monkeypatch


@pytest.fixture
def site(tmp_path):
    """Writes the file of a site; gives the file that ReFrame loads."""

    def written(text=WORDS):
        folder = tmp_path / "mine"
        folder.mkdir(exist_ok=True)
        (folder / "assay.yaml").write_text(textwrap.dedent(text))
        (folder / "reframe.py").write_text(REFRAME)
        return folder / "reframe.py"

    return written


def made(site_file):
    configuration = sites.from_yaml(site_file)
    (system,) = configuration["systems"]
    return {each["name"]: each for each in system["partitions"]}, configuration["environments"]


def test_a_place_is_a_copy_of_nodes_to_which_extras_are_added_key_by_key(site):
    places, stacks = made(site())
    assert list(places) == ["node", "gpu"]
    node, gpu = places["node"], places["gpu"]
    assert (node["scheduler"], node["processor"]) == ("slurm", {"num_cpus": 48})
    assert "devices" not in node
    assert gpu["devices"] == [{"type": "gpu", "num_devices": 4}]
    assert node["extras"] == {"memory_bytes": 100, "options": {"EachCore.width": 1}}
    assert gpu["extras"] == {"options": {"EachCore.width": 1, "EachCore.seconds": 2}}
    assert stacks == [{"name": "mpi", "features": ["mpi", "ucx"], "modules": ["openmpi"]}]


@pytest.mark.parametrize(("word", "alone"), [("", True), ("one_at_a_time: false", False)])
def test_one_word_of_a_site_lets_cases_run_beside_each_other(site, word, alone, monkeypatch):
    file = site()
    yaml = file.with_name("assay.yaml")
    yaml.write_text(f"{yaml.read_text()}\n{word}\n")
    monkeypatch.setattr(polling, "one_at_a_time", not alone)
    made(file)
    assert polling.one_at_a_time is alone


def test_a_variable_stands_for_its_value_and_in_a_list_for_its_words(site, variables):
    file = site()
    assert made(file)[0]["node"]["access"] == ["--exclusive"]
    variables.setenv("ASSAY_ACCESS", "--account=a '--comment=b c'")
    variables.setenv("SCRATCH", "/scratch")
    places, _ = made(file)
    assert places["node"]["access"] == ["--exclusive", "--account=a", "--comment=b c"]
    assert places["files"]["extras"]["directory"] == "/scratch/assay"
    # The shell of the job reads its variables itself.
    assert places["node"]["env_vars"] == [["SLURM_MPI_TYPE", "${HOME}"]]


def test_a_default_may_have_a_variable(site, variables):
    variables.setenv("WORK", "/home/me")
    text = WORDS.replace("when: ${SCRATCH}", "when: true")
    places, _ = made(site(text.replace("${SCRATCH}/assay", "${SCRATCH:-${WORK}}/assay")))
    assert places["files"]["extras"]["directory"] == "/home/me/assay"


def test_a_stack_whose_variable_is_not_set_is_not_there_and_is_named_and_promised(site, variables):
    file = site()
    _, stacks = made(file)
    assert [each["name"] for each in stacks] == ["mpi"]
    assert "stack hpl is not there: its `when` is empty" in sites.left_out[file]
    declared, _ = sites.found_on[file]
    assert declared.environs["gpu"] == {"mpi", "hpl"}
    assert declared.stacks["hpl"] == {"mpi", "hpl-gpu"}
    variables.setenv("HPL", "hpl.sh")
    places, (_, hpl) = made(file)
    assert places["gpu"]["environs"] == ["mpi", "hpl"]
    assert hpl["extras"] == {"hpl_gpu_command": "hpl.sh"}


def test_facts_are_functions_of_a_file(site):
    text = WORDS.replace("num_cpus: 48", 'num_cpus: "${cores}"').replace("${HPL}", "${hpl}")
    file = site(f"facts: facts.py\n{text}")
    facts = (
        "def cores(site_file):\n    return len(site_file.name)\n\ndef hpl(_):\n    return None\n"
    )
    file.with_name("facts.py").write_text(facts)
    places, stacks = made(file)
    assert places["node"]["processor"] == {"num_cpus": len("reframe.py")}
    assert [each["name"] for each in stacks] == ["mpi"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("hostnames", "hostname", "hostname: unknown key; did you mean 'hostnames'?"),
        ("scheduler", "schedular", "nodes/node/schedular: unknown key; did you mean 'scheduler'?"),
        (
            "num_cpus",
            "num_cpu",
            "nodes/node/processor/num_cpu: unknown key; did you mean 'num_cpus",
        ),
        (
            "{num_cpus: 48}",
            "{num_cpus: many}",
            "processor/num_cpus: 'many': expected a whole number",
        ),
        (
            "intra-node, posix",
            "intra-nod, posix",
            "unknown word 'intra-nod'; did you mean 'intra-no",
        ),
        (
            "memory_bytes: 100",
            "memory_byte: 1",
            "unknown word 'memory_byte'; did you mean 'memory_by",
        ),
        (
            "of: with-gpus",
            "of: with-gpu",
            "places/gpu/of: no nodes 'with-gpu'; did you mean 'with-g",
        ),
        (
            "environs: [mpi, hpl]",
            "environs: [mpy]",
            "places/gpu/environs: no stack 'mpy'; did you m",
        ),
        (
            "    launcher: srun\n",
            "",
            "places/node: `launcher` is missing; add it, or name nodes by",
        ),
        (
            "ASSAY_ACCESS:-",
            "ASSAY_ACCESS",
            "nodes/node/access/1: the variable ASSAY_ACCESS is not s",
        ),
        ("[[SLURM_MPI_TYPE,", "[[A, B,", "nodes/node/env_vars/0: ['A', 'B', '${HOME}']: expected"),
        (
            "{features: [mpi, ucx]",
            "{featurs: [mpi]",
            "stacks/mpi/featurs: unknown key; did you mean",
        ),
        (
            "hostnames:",
            "machine: thiss\nhostnames:",
            "machine: 'thiss' is not known; did you mean 'this",
        ),
    ],
)
def test_each_fault_is_one_line_with_file_key_and_remedy(site, old, new, said):
    assert old in WORDS
    with pytest.raises(ConfigError) as error:
        sites.from_yaml(site(WORDS.replace(old, new)))
    text = str(error.value)
    assert said in text
    assert "mine/assay.yaml" in text
    assert "\n" not in text


@pytest.mark.parametrize("function", sites.MACHINES.values())
def test_a_machine_that_describes_itself_has_a_function(function):
    assert callable(resolve_name(function))


def test_a_stack_of_an_image_has_its_programs_and_the_words_of_the_file(monkeypatch, tmp_path):
    def stack(site_file, image):
        return {"name": "container", "features": ["mpi"], "extras": {"image": image}}

    monkeypatch.setattr(container, "look", lambda path, repository: path)
    monkeypatch.setattr(container, "container_stack", stack)
    its = site_yaml.Stack(image="/x.sif", extras={"more": "1"})
    made = site_yaml.environments(tmp_path / "reframe.py", site_yaml.SiteFile(stacks={"own": its}))
    extras = {"image": "/x.sif", "more": "1"}
    assert made == [{"name": "own", "features": ["mpi"], "extras": extras}]
