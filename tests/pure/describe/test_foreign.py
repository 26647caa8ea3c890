"""`beside`: places and stacks beside a ReFrame configuration that a site has already."""

import json
import re
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

pytest.importorskip("reframe")

from reframe.core.config import load_config
from reframe.core.exceptions import ConfigError

from assay import cli, files, sites
from assay.describe import adopt, foreign, slurm
from assay.describe.written import REFRAME
from assay.judge import LAUNCHES_IN_BUDGET, References
from assay.prove.call import Call
from assay.store import promise

#: Two systems of any host, foreign words, a logger, a mode, an environment for one system only.
THEIRS = {
    "systems": [
        {
            "name": "other",
            "hostnames": [".*"],
            "partitions": [
                {"name": "p", "scheduler": "local", "launcher": "local", "environs": ["gnu"]}
            ],
        },
        {
            "name": "aion",
            "hostnames": [".*"],
            "prefix": "/scratch/rfm",
            "partitions": [
                {
                    "name": "login",
                    "scheduler": "local",
                    "launcher": "local",
                    "environs": ["gnu"],
                    "features": ["gpu", "cuda", "memory_per_node"],
                },
                {
                    "name": "batch",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["-p batch", "--gres=gpu:a100:4"],
                    "environs": ["gnu", "foss"],
                    "features": ["gpu", "ce"],
                    "extras": {"nodes": "a few", "theirs": 1},
                    "resources": [{"name": "storage", "options": ["--disk={size}"]}],
                    "processor": {"num_cpus": 128},
                    "prepare_cmds": ["ulimit -s unlimited"],
                },
            ],
        },
    ],
    "environments": [
        {"name": "gnu", "cc": "gcc"},
        {"name": "foss", "modules": ["foss/2020a"]},
        {"name": "foss", "modules": ["foss/2023b"], "target_systems": ["aion"], "features": ["x"]},
    ],
    "general": [{"purge_environment": True, "report_file": "theirs.json"}],
    "logging": [
        {
            "handlers": [{"type": "file", "name": "theirs.log", "level": "info"}],
            "handlers_perflog": [{"type": "httpjson", "url": "http://elastic"}],
        }
    ],
    "modes": [{"name": "nightly", "options": ["--tag=x"]}, {"name": "full", "options": []}],
}

WORDS = {
    "system": "aion",
    "places": {
        "node": {"of": "batch", "features": ["intra-node", "posix", "cma"]},
        "link": {
            "of": "batch",
            "features": ["inter-node", "rc_mlx5"],
            "extras": {"network_device": "mlx5_0:1"},
            "access": ["-p long"],
            "time_limit": "1h",
        },
    },
    "stacks": {"foss": {"features": ["mpi", "ucx", "osu", "hpl"]}},
}


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch, tmp_path):
    for name in ("ASSAY_RESULTS", "ASSAY_STACK", "ASSAY_DEADLINE", "RFM_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(foreign, "_of_slurm", lambda partition: None)


@pytest.fixture
def site(tmp_path):
    """Writes the files of a site, and gives its configuration as ReFrame has it."""

    def written(theirs=None, words=None, name="settings.yaml", files=None):
        if isinstance(theirs, str):
            (tmp_path / name).write_text(textwrap.dedent(theirs))
        else:
            (tmp_path / name).write_text(yaml.safe_dump(theirs or THEIRS, sort_keys=False))
        said = {"beside": files or [name], **(words or WORDS)}
        (tmp_path / "assay.yaml").write_text(yaml.safe_dump(said, sort_keys=False))
        (tmp_path / "references.yaml").write_text("references: []\n")
        settings = tmp_path / "assay_settings.py"
        settings.write_text(REFRAME)
        forget()
        return load_config("<builtin>", str(settings))

    return written


def forget():
    """ReFrame loads a file again only if Python does not know its module."""
    for name in [name for name in sys.modules if "@" in name and "settings" in name]:
        del sys.modules[name]


def changed(words, path, value):
    """A copy of a mapping with another value at a path; None removes it."""
    copy = json.loads(json.dumps(words))
    *keys, last = path.split("/")
    part = copy
    for key in keys:
        part = part[int(key) if key.isdigit() else key]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return copy


def partitions(config, system="aion"):
    (found,) = (each for each in config["systems"] if each["name"] == system)
    return {each["name"]: each for each in found["partitions"]}


def environment(config, name, of):
    config.select_subconfig(of)
    return next(each for each in config["environments"] if each["name"] == name)


def test_their_partitions_stay_and_a_place_is_a_clone_with_words_of_assay_only(site):
    found = partitions(site())
    assert list(found) == ["login", "batch", "node", "link"]
    assert found["batch"] == THEIRS["systems"][1]["partitions"][1]
    node, link = found["node"], found["link"]
    assert node["features"] == ["intra-node", "posix", "cma"]
    assert node["environs"] == ["foss"]
    assert (node["processor"], node["prepare_cmds"]) == ({"num_cpus": 128}, ["ulimit -s unlimited"])
    # `nodes` is a word of Assay with another meaning, so it is not taken over.
    assert node["extras"] == {"theirs": 1}
    assert link["extras"] == {"theirs": 1, "network_device": "mlx5_0:1"}
    assert (link["access"], link["time_limit"]) == (["-p long"], "1h")
    assert link["resources"] == found["batch"]["resources"]


def test_keys_that_reframe_does_not_ask_for_may_be_absent(site):
    theirs = changed(THEIRS, "systems/1/partitions/0/environs", None)
    theirs = changed(theirs, "systems/1/partitions/1/resources/0/options", None)
    found = partitions(site(theirs))
    assert found["login"]["environs"] == []
    assert found["node"]["resources"] == [{"name": "storage", "options": []}]


def test_the_named_system_comes_first_and_the_others_stay(site):
    assert [each["name"] for each in site()["systems"]] == ["aion", "other", "generic"]


def test_a_stack_has_programs_at_places_only(site):
    config = site()
    assert environment(config, "foss", "aion:node")["features"] == ["mpi", "ucx", "osu", "hpl"]
    assert environment(config, "foss", "aion:node")["modules"] == ["foss/2023b"]
    assert environment(config, "foss", "aion:batch")["features"] == ["x"]
    assert environment(config, "foss", "other:p")["modules"] == ["foss/2020a"]


def test_a_stack_of_another_name_and_with_other_modules(site):
    stacks = {"ours": {"of": "gnu", "features": ["osu"], "modules": ["osu/7.5"]}}
    config = site(words=changed(WORDS, "stacks", stacks))
    assert partitions(config)["node"]["environs"] == ["ours"]
    found = environment(config, "ours", "aion:link")
    assert (found["cc"], found["modules"]) == ("gcc", ["osu/7.5"])
    environment(config, "ours", "aion")  # ReFrame looks for it there, too


def test_an_environment_bound_to_one_partition_is_there_for_its_places(site):
    theirs = changed(THEIRS, "environments/2/target_systems", ["aion:batch"])
    config = site(theirs)
    assert environment(config, "foss", "aion:node")["modules"] == ["foss/2023b"]
    assert environment(config, "foss", "aion")["modules"] == ["foss/2020a"]


def test_their_logging_modes_and_options_stay_and_ours_are_added(site, tmp_path):
    config = site()
    config.select_subconfig("aion")
    (log,), (general,) = config["logging"], config["general"]
    assert [each["name"] for each in log["handlers"]] == [
        "theirs.log",
        str(tmp_path / "results/listing.log"),
    ]
    assert log["handlers_perflog"] == [{"type": "httpjson", "url": "http://elastic"}]
    assert general["purge_environment"] is True
    assert general["report_file"].startswith(str(tmp_path / "results/reports"))
    modes = {each["name"]: each["options"] for each in config["modes"]}
    assert modes["nightly"] == ["--tag=x"]
    assert "--setvar=profile=full" in modes["full"]
    assert f"--max-retries={LAUNCHES_IN_BUDGET - 1}" in modes["smoke"]
    # Compute nodes see the place that they chose for stage directories.
    (system,) = config["systems"]
    assert system["stagedir"].startswith("/scratch/rfm/stage/")
    assert system["outputdir"].startswith(str(tmp_path / "results/output"))
    config.select_subconfig("other")
    assert config["general"][0]["report_file"] == "theirs.json"


def test_the_variable_for_their_prefix_is_where_jobs_write(site, monkeypatch):
    monkeypatch.setenv("RFM_PREFIX", "/scratch/else")
    config = site()
    assert config["systems"][0]["stagedir"].startswith("/scratch/else/stage/")


def test_a_python_file_that_changes_the_path_of_modules_does_no_harm(site, tmp_path):
    theirs = f"""\
    import sys
    sys.path.insert(0, "/theirs/one")
    sys.path.insert(0, "/theirs/two")
    site_configuration = {THEIRS!r}
    """
    before = list(sys.path)
    try:
        config = site(theirs, name="settings.py")
        assert [path for path in sys.path if path in before] == before
        assert sys.path[len(before) :][:2] == ["/theirs/two", "/theirs/one"]
    finally:
        sys.path[:] = before
    assert "node" in partitions(config)


def test_several_files(site, tmp_path):
    (tmp_path / "environments.yaml").write_text(
        yaml.safe_dump({"environments": THEIRS["environments"]})
    )
    config = site(
        changed(THEIRS, "environments", None), files=["settings.yaml", "environments.yaml"]
    )
    assert environment(config, "foss", "aion:node")["modules"] == ["foss/2023b"]


def test_topology_that_reframe_has_found(site, tmp_path):
    folder = tmp_path / "home/.reframe/topology/aion-batch"
    folder.mkdir(parents=True)
    (folder / "processor.json").write_text('{"num_cpus": 64}')
    (folder / "devices.json").write_text('[{"type": "gpu", "num_devices": 8}]')
    node = partitions(site(changed(THEIRS, "systems/1/partitions/1/processor", None)))["node"]
    assert node["processor"] == {"num_cpus": 64}
    assert node["devices"] == [{"type": "gpu", "num_devices": 8}]


def test_a_place_on_this_machine_is_read_from_it(site):
    words = changed(WORDS, "places", {"here": {"of": "login", "features": ["intra-node"]}})
    words["stacks"] = {"gnu": {"features": ["osu"]}}
    config = site(words=words)
    here = partitions(config)["here"]
    assert here["processor"]["num_cpus"] >= 1
    assert here["extras"]["memory_bytes"] > 2**20
    assert config["systems"][0]["max_local_jobs"] == 1


def test_the_number_of_gpus_from_the_options_of_jobs(site):
    words = changed(WORDS, "places/node/features", ["intra-node", "gpu", "cuda"])
    assert partitions(site(words=words))["node"]["devices"] == [{"type": "gpu", "num_devices": 4}]


def test_what_slurm_says_of_the_nodes_of_a_partition(site, monkeypatch):
    shape = slurm.Shape(2, 32, 2, 257000, "gpu:h100:8")
    monkeypatch.setattr(foreign, "_of_slurm", lambda partition: shape)
    words = changed(WORDS, "places/node/features", ["intra-node", "gpu"])
    theirs = changed(THEIRS, "systems/1/partitions/1/processor", None)
    node = partitions(site(changed(theirs, "systems/1/partitions/1/access", []), words))["node"]
    assert (node["processor"]["num_cpus"], node["processor"]["num_cpus_per_core"]) == (128, 2)
    assert node["extras"]["memory_bytes"] == 257000 << 20
    assert node["devices"] == [{"type": "gpu", "num_devices": 8}]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("system", "ion", "assay.yaml: system: settings.yaml: has no system 'ion'; did you mean"),
        ("sytem", "x", "assay.yaml: sytem: unknown key; did you mean 'system'?"),
        ("places/node/of", "bach", "places/node/of: aion has no partition 'bach'; did you mean"),
        ("places/login", {"of": "batch", "features": ["storage"]}, "places/login: is the name of"),
        ("places/node/features", ["intra-nod"], "unknown word 'intra-nod'; did you mean 'intra-no"),
        ("places/node/features", "intra-node", "places/node/features: 'intra-node': expected a li"),
        ("places/link/extras", {"networkdevice": 1}, "did you mean 'network_device'?"),
        ("places/node/environs", ["fos"], "environs: no stack 'fos'; did you mean 'foss'?"),
        ("places/link/acess", [], "places/link/acess: unknown key; did you mean 'access'?"),
        ("stacks/foss/module", [], "stacks/foss/module: unknown key; did you mean 'modules'?"),
        ("stacks/foss/of", "bar", "batch has the environments gnu, foss, and stacks names none"),
        ("stacks/foss/extras", {"osu_version": 7.2}, "'foss': extras: osu_version is 7.2, which"),
    ],
)
def test_each_fault_is_one_line(site, path, value, said):
    with pytest.raises(ConfigError) as error:
        site(words=changed(WORDS, path, value))
    text = str(error.value)
    assert said in text
    assert "assay.yaml" in text
    assert "\n" not in text


def test_an_environment_that_is_not_there_is_one_line(site):
    words = changed(WORDS, "places/node/environs", ["ours"])
    words["stacks"]["ours"] = {"of": "fos", "features": ["osu"]}
    said = "stacks/ours: the partition has no environment 'fos'; did you mean 'foss'?"
    with pytest.raises(ConfigError, match=re.escape(said)):
        site(words=words)


def test_their_configuration_that_cannot_be_loaded_is_one_line(site):
    with pytest.raises(ConfigError, match=r"settings\.py: ReFrame cannot load it: KeyError: 'A_V'"):
        site("import os\nx = os.environ['A_V']\nsite_configuration = {}\n", name="settings.py")


def test_foreign_words_are_no_errors_and_a_mistyped_word_is():
    known = sites.vocabulary(
        files.repository(Path(__file__).parent) / "site-config/vocabulary.yaml"
    )
    words = {**known["partition"]["features"], **known["partition"]["extras"]}
    for theirs in (
        "cpu",
        "ce",
        "nvgpu",
        "memory_per_node",
        "16_nodes",
        "remote",
        "scratch",
        "uenv",
    ):
        assert not sites.mistyped(theirs, words)
    for wrong in ("infinband", "intranode", "inter_node", "ethernt", "rc_mlx_5", "nvlnk"):
        assert sites.mistyped(wrong, words)


def test_a_place_or_a_stack_without_words_is_left_out_with_its_reason(site, tmp_path):
    words = changed(WORDS, "places/node/features", ["gpu", "cuda"])
    words["stacks"]["gnu"] = {"features": ["gcc"]}
    config = site(words=words)
    assert partitions(config)["link"]["environs"] == ["foss"]
    reasons = sites.left_out[tmp_path / "assay_settings.py"]
    assert reasons == [
        "stack gnu is left out: its features name no program that the suite knows",
        "partition node is left out: it has none of intra-node, inter-node, storage",
    ]


def test_a_host_that_is_not_of_the_system_is_refused(site, monkeypatch):
    call = sites.command.Invocation(run=False, system="other")
    monkeypatch.setattr(sites.command, "of_reframe", lambda: call)
    with pytest.raises(ConfigError, match="--system=other is not of the site 'aion'"):
        site()


# --- assay check, assay site new --from, assay expect -C ------------------------------------------


def test_check_says_what_would_run_and_which_words_add_more(site, tmp_path, capsys):
    site()
    assert cli.main(["check", "-C", str(tmp_path / "assay_settings.py")]) == 0
    said = capsys.readouterr().out
    assert "system aion\n" in said
    assert "other" not in said
    assert "  login: nothing, it has none of intra-node, inter-node, storage\n" in said
    listed = promise.cases(files.repository(Path(__file__).parent) / "reframe/cases.txt")
    words = frozenset(WORDS["places"]["node"]["features"])
    programs = frozenset(WORDS["stacks"]["foss"]["features"])
    number = sum(one.lacks(words, programs) == () for one in listed)
    assert f"  node, stack foss: {number} cases of " in said
    assert "node, stack foss: these words would add cases: " in said
    assert "tcp (" in said


def test_check_asks_in_one_line_for_what_nobody_says(site, tmp_path, capsys):
    theirs = changed(THEIRS, "systems/1/partitions/1/processor", None)
    theirs = changed(theirs, "systems/1/partitions/1/access", [])
    words = changed(WORDS, "places/link/extras", {})
    words = changed(words, "places/files", {"of": "batch", "features": ["storage"]})
    site(theirs, changed(words, "places/node/features", ["intra-node", "gpu", "cuda"]))
    assert cli.main(["check", "-C", str(tmp_path / "assay_settings.py")]) == 0
    said = capsys.readouterr().out
    assert "  node, link, files: add processor: {num_cpus: 128, num_cpus_per_core: 1}" in said
    assert said.count("processor") == 1
    assert "  node: add devices: [{type: gpu, num_devices: 4}]" in said
    assert (
        "  link: add the extra network_device, without which no case of inter-node passes" in said
    )
    assert (
        "  node, link, files: add the extra ucx_version, without which no case of mpi and ucx"
        in said
    )
    assert (
        "  node, link, files: add the extra osu_version, without which no case of osu passes"
        in said
    )
    assert (
        # No program computes on a place for files.
        "  node, link: add the extra memory_fraction, without which no case of hpl passes" in said
    )


def test_check_of_a_configuration_without_words_is_red(site, tmp_path, capsys):
    site()
    assert cli.main(["check", "-C", str(tmp_path / "settings.yaml"), "--system=aion"]) == 1
    said = capsys.readouterr().out
    assert "batch: nothing, it has none of intra-node, inter-node, storage" in said
    assert "nothing of Assay runs here: say what its places and stacks have" in said


def test_check_of_places_without_programs_is_red_with_the_reason(site, tmp_path, capsys):
    site(words=changed(WORDS, "stacks/foss/features", []))
    assert cli.main(["check", "-C", str(tmp_path / "assay_settings.py")]) == 1
    said = capsys.readouterr().out
    assert "stack foss is left out: its features name no program that the suite knows" in said
    assert "partition link is left out: all of its stacks are" in said


def test_check_of_a_configuration_that_is_refused(tmp_path, capsys):
    (tmp_path / "settings.yaml").write_text("systems: 1\n")
    assert cli.main(["check", "-C", str(tmp_path / "settings.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_files_beside_a_configuration_are_written_and_load(tmp_path, capsys):
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(THEIRS, sort_keys=False))
    assert cli.main(["site", "new", "aion", "--from", str(tmp_path / "settings.yaml")]) == 0
    references = References.load(tmp_path / "references.yaml")
    why = "nothing was measured yet; type assay calibrate -C assay_settings.py"
    assert why in (tmp_path / "references.yaml").read_text()
    assert references.recorded == 2
    (tmp_path / "references.yaml").write_text("references: []\n")
    assert len((tmp_path / "assay_settings.py").read_text().splitlines()) == 3
    text = (tmp_path / "assay.yaml").read_text()
    assert "node-batch: {of: batch, features: [intra-node, posix, cma]}" in text
    assert "login" not in text
    assert "  foss: {features: [mpi]}" in text  # a toolchain with Open MPI
    assert "  gnu: {features: []}" in text
    assert "#? node-batch: {of: batch, features: [intra-node, posix, cma, gpu, cuda]" in text
    assert "not known: 5 lines" in capsys.readouterr().out
    settings = str(tmp_path / "assay_settings.py")
    assert cli.main(["check", "-C", settings]) == 0
    assert "stack gnu is left out" in capsys.readouterr().out
    # Each marked line with a place is right without its mark.
    (tmp_path / "assay.yaml").write_text(
        text.replace("#? link-", "link-").replace("#? files", "files")
    )
    forget()
    assert cli.main(["check", "-C", settings]) == 0
    said = capsys.readouterr().out
    assert "link-batch, stack foss" in said
    assert "files, stack foss" in said
    assert cli.main(["site", "new", "aion", "--from", str(tmp_path / "settings.yaml")]) == 2
    assert "assay_settings.py: is there already; delete or rename it" in capsys.readouterr().err
    (tmp_path / "assay_settings.py").unlink()
    assert cli.main(["site", "new", "aion", "--from", str(tmp_path / "settings.yaml")]) == 2
    assert "assay.yaml: is there already" in capsys.readouterr().err
    assert not (tmp_path / "assay_settings.py").exists()
    (tmp_path / "assay.yaml").unlink()
    assert cli.main(["site", "new", "aion", "--from", str(tmp_path / "settings.yaml")]) == 0
    assert (tmp_path / "references.yaml").read_text() == "references: []\n"


@pytest.mark.parametrize(
    ("partition", "modules", "said"),
    [
        ({}, ["PrgEnv-gnu", "cray-mpich/8.1"], 'extras: {mpi: cray-mpich, osu_version: "7.4"}'),
        ({}, ["PrgEnv-gnu"], 'extras: {mpi: cray-mpich, osu_version: "7.4"}'),
        ({}, ["intel/2023", "openmpi/4"], 'extras: {ucx_version: "1.15.0", osu_version: "7.4"}'),
        (
            {},
            ["openmpi/4.1.4", "UCX/1.16.0-GCCcore-13", "osu-micro-benchmarks/7.4"],
            "  e: {features: [mpi, mpicc, ucx, osu, ucx-perftest], extras: "
            '{openmpi_version: "4.1.4", ucx_version: "1.16.0", osu_version: "7.4"}}\n',
        ),
        ({"features": ["gpu", "amd"]}, [], "gpu, rocm], devices: [{type: gpu, num"),
        ({"access": ["--gres=gpu:mi250:8"]}, [], "gpu, rocm]}"),
        ({"access": ["--gres=gpu:a100:4"]}, [], "gpu, cuda]}"),
        # Whose the GPUs are, by the modules; a processor of AMD decides nothing.
        ({"features": ["gpu"]}, ["rocm/5.7"], "gpu, rocm], devices"),
        ({"features": ["gpu"]}, ["craype-accel-amd-gfx90a"], "gpu, rocm], devices"),
        ({"name": "amd-epyc", "features": ["gpu"]}, ["cuda/12.4"], "gpu, cuda], devices"),
        ({"features": ["gpu", "amd", "a100"]}, [], "gpu, cuda], devices"),
        # The link by what shows the network.
        ({}, ["foss/2023"], 'rc_mlx5], extras: {network_device: "mlx5_0:1", nodes: 4}}'),
        ({}, ["cray-mpich/8.1"], 'inter-node, tcp], extras: {network_device: "hsn0", nodes: 4}}'),
        ({"access": ["-C hdr"]}, ["PrgEnv-gnu"], 'rc_mlx5], extras: {network_device: "mlx5_0'),
        ({"features": ["opa"]}, [], 'inter-node, tcp], extras: {network_device: "ib0", nodes: 4}}'),
        # Programs for GPUs, where all nodes have some.
        ({"features": ["gpu"]}, ["cuda/12", "foss"], "features: [mpi, ucx-cuda, osu-cuda, hpl, "),
        ({}, ["cuda/12", "foss"], "features: [mpi, ucx, osu, hpl, iozone]"),
        # What a site may have to fill.
        (
            {"resources": [{"name": "qos", "options": ["--qos={qos}"]}]},
            [],
            'features: [intra-node, posix, cma], extras: {qos: ""}}   #? fill in\n',
        ),
        (
            {
                "resources": [
                    {"name": "account", "options": ["--account={account}", "--wckey={account}"]},
                    {"name": "project", "options": ["-A {account}"]},
                ],
                "extras": {"account": None},
            },
            [],
            'cma], extras: {account: ""}}   #? fill in\n',
        ),
    ],
)
def test_a_marked_line_follows_from_what_the_configuration_says(partition, modules, said):
    base = {"name": "b", "scheduler": "slurm", "environs": ["e"], **partition}
    text = adopt.words({"name": "s", "partitions": [base]}, [{"name": "e", "modules": modules}], "")
    assert said in text


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ({}, 1),
        ({"extras": {"account": ""}}, 1),
        ({"extras": {"account": "hpc"}}, 0),
        ({"access": ["--account=hpc"]}, 0),
        ({"resources": []}, 0),
    ],
)
def test_check_is_red_while_a_resource_is_empty(site, tmp_path, capsys, place, code):
    """The jobs would lack the account, which the site may ask for."""
    account = [{"name": "account", "options": ["--account={account}"]}]
    theirs = changed(THEIRS, "systems/1/partitions/1/resources", account)
    words = changed(WORDS, "places", {"node": {**WORDS["places"]["node"], **place}})
    site(theirs, words)
    assert cli.main(["check", "-C", str(tmp_path / "assay_settings.py")]) == code
    said = capsys.readouterr().out
    assert ("node: resources: account stays empty: if the site" in said) == bool(code)
    assert ("resources are empty: fill them, or give the place" in said) == bool(code)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("systems/1/name", "aion.lu", "only letters, digits, - and _ in names: in a copy"),
        ("environments/0/name", "gcc@12", "only letters, digits, - and _ in names: in a copy"),
        ("schedulers", [{"name": "slurm"}], "put its options into sched_options"),
    ],
)
def test_a_configuration_for_another_reframe_gets_the_way_out(tmp_path, capsys, path, value, said):
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(changed(THEIRS, path, value)))
    assert cli.main(["site", "new", "aion", "--from", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(file) in line
    assert said in line


def test_a_new_site_of_a_system_that_is_not_there(tmp_path, capsys):
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(THEIRS, sort_keys=False))
    assert cli.main(["site", "new", "ion", "--from", str(tmp_path / "settings.yaml")]) == 2
    assert "has no system 'ion'; did you mean 'aion'?" in capsys.readouterr().err


def test_a_new_site_beside_refuses_what_it_would_not_use_or_cannot_find(tmp_path, capsys):
    file = tmp_path / "settings.yaml"
    command = ["site", "new", "aion", "--from", str(file)]
    file.write_text(yaml.safe_dump(THEIRS))
    assert cli.main([*command, "--module=foss"]) == 2
    assert "--module: --from reads files only" in capsys.readouterr().err
    file.write_text(yaml.safe_dump(changed(THEIRS, "environments/0/name", "cray")))
    assert cli.main(command) == 2
    said = "settings.yaml: no environment 'gnu'; name its file by a further --from"
    assert said in capsys.readouterr().err
    assert not (tmp_path / "assay.yaml").exists()


def test_a_promise_is_written_beside_it(site, tmp_path, capsys):
    site()
    assert cli.main(["expect", "-C", str(tmp_path / "assay_settings.py")]) == 0
    found = yaml.safe_load((tmp_path / "promise.yaml").read_text())
    assert found["partitions"]["link"] == {"stacks": ["foss"], "words": ["inter-node", "rc_mlx5"]}
    assert "batch" not in found["partitions"]
    # Nothing can be judged yet. What a person makes of this is kept.
    assert found["nothing_judged"] == "allowed"
    (tmp_path / "promise.yaml").write_text("partitions: {link: {}}\nnothing_judged: red\n")
    assert cli.main(["expect", "-C", str(tmp_path / "assay_settings.py")]) == 0
    kept = yaml.safe_load((tmp_path / "promise.yaml").read_text())
    assert kept["nothing_judged"] == "red"
    assert "may_skip" not in kept
    # A word that is lost later is seen by each complete run.
    site(words=changed(WORDS, "places/link/features", ["inter-node", "tcp"]))
    here, _ = sites.found_on[tmp_path / "assay_settings.py"]
    faults = promise.state(tmp_path / promise.FILE, here, Call(), [], "full")["faults"]
    assert faults[0] == "promise.yaml: link has not the promised word rc_mlx5"
