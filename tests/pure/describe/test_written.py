"""`assay site new`: the files of the folder, and what the script on a node reads."""

import json

import pytest
from shell import ROOT

pytest.importorskip("reframe")

from new_site import (
    EDR,
    GPU_NODES,
    HEAD,
    KNOWN,
    by_name,
    drafted,
    gpu_node,
    gpu_place,
    place,
)

from assay.describe import foreign, written
from assay.fleet.node import provenance
from assay.judge import References, peak
from assay.sites import site_yaml


@pytest.mark.parametrize("made", [drafted(place()), drafted(gpu_place(), place(), modules=["a/1"])])
def test_the_file_of_the_site_has_what_was_found(made, tmp_path):
    text = written.words(HEAD, made)
    assert max(map(len, text.splitlines())) <= 100
    assert "&id" not in text and "*id" not in text  # no anchors
    file = tmp_path / "mine/assay.yaml"
    file.parent.mkdir()
    file.write_text(text)
    said, _ = site_yaml.read(file)
    system = site_yaml.system(file, said, site_yaml.places(file, said))
    (environment,) = site_yaml.environments(file, said)
    assert (system["name"], system["hostnames"]) == ("mine", ["login$"])
    assert environment == made.stack
    wanted = [
        {**made.common[slurm_name], **by_name(made)[each["name"]]}
        for slurm_name, every in made.partitions.items()
        for each in every
    ]
    assert system["partitions"] == json.loads(json.dumps(wanted))
    plain = " ".join(text.replace("\n#", " ").split())
    for gap in made.gaps:
        assert " ".join(str(gap).split()) in plain


def references(tmp_path, text):
    (tmp_path / "site-config/mine").mkdir(parents=True, exist_ok=True)
    for name in ("any-machine.yaml", "hardware"):
        link = tmp_path / "site-config" / name
        link.exists() or link.symlink_to(ROOT / "site-config" / name)
    path = tmp_path / "site-config/mine/references.yaml"
    path.write_text(text)
    return References.load(path)


CASE = {
    **{"partition": "infiniband", "environ": "system", "test": "Osu", "benchmark": "bw"},
    "transport": "rc_mlx5",
}


def test_what_was_not_measured_is_recorded(tmp_path):
    loaded = references(tmp_path, written.references(HEAD, drafted(gpu_place())))
    found = loaded.by_hand(CASE, "bandwidth_1MiB", "MB/s", peak=12500)
    assert found.why == "nothing was measured yet; type assay calibrate --site mine"


def test_a_site_with_gpus_and_modules_is_accepted(tmp_path, monkeypatch):
    site = tmp_path / "site-config/mine"
    site.mkdir(parents=True)
    for path in (ROOT / "site-config").glob("*.yaml"):
        (site.parent / path.name).symlink_to(path)
    made = drafted(gpu_place(), place(), modules=["openmpi/5.0.5"])
    head = written.Head("mine", ["login[0-9]+$"], "lmod", "2026-11-23", ["gpu01", "node01"])
    made_files = {
        "reframe.py": written.REFRAME,
        "assay.yaml": written.words(head, made),
        "references.yaml": written.references(head, made),
        "hardware.yaml": written.hardware(head, made),
    }
    assert "ethernet-20gbit" in made_files["hardware.yaml"]
    for name, text in made_files.items():
        (site / name).write_text(text)
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    References.load(site / "references.yaml")
    configuration = foreign.sections(foreign.load_foreign([site / "reframe.py"]))
    (system,) = configuration["systems"]
    words = {each["name"]: " ".join(each["features"]) for each in system["partitions"]}
    assert words["gpu"] == "intra-node gpu cuda nvlink"
    assert words["batch-scratch"] == "storage"
    assert configuration["environments"][0]["modules"] == ["openmpi/5.0.5"]


@pytest.mark.parametrize(
    ("rate", "link", "bandwidth"),
    [
        ("100 Gb/sec (4X EDR)", "infiniband-edr", 12500),
        ("56 Gb/sec (4X FDR)", "infiniband-fdr", 6818),
        ("100 Gb/sec (2X HDR)", "infiniband-hdr100", 12500),
        ("100 Gb/sec", "infiniband-100gbit", 12500),
    ],
)
def test_a_link_has_the_rate_that_its_port_states(tmp_path, rate, link, bandwidth):
    network = {"infiniband": {"mlx5_0:1": {**EDR, "rate": rate}}, "interfaces": {}}
    made = drafted(place(GPU_NODES, [{**gpu_node(), "network": network, "toward_peer": None}]))
    named = by_name(made)["infiniband"]["extras"]["hardware"]
    assert named == {"link": link}
    site = tmp_path / "site-config/mine"
    site.mkdir(parents=True)
    (site.parent / "hardware").symlink_to(ROOT / "site-config/hardware")
    text = written.hardware(HEAD, made)
    assert bool(text) is (link not in KNOWN["link"])
    if text:
        (site / "hardware.yaml").write_text(text)
    assert peak(site, named, "link", "bandwidth") == bandwidth


def test_on_nodes_of_one_machine_nothing_is_judged(tmp_path):
    loaded = references(tmp_path, written.references(HEAD, drafted(place())))
    assert loaded.judged == 0
    found = loaded.by_hand({**CASE, "partition": "ethernet"}, "bandwidth_1MiB", "MB/s")
    assert "one machine" in found.why


def test_a_folder_is_published_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "site-config"
    folder.mkdir()
    (folder / "vocabulary.yaml").touch()
    made = folder / "mine"
    with pytest.raises(KeyError), written.published(made):
        (made / "reframe.py").write_text("x")
        raise KeyError
    assert [*folder.iterdir()] == [folder / "vocabulary.yaml"]
    with written.published(made):
        (made / "reframe.py").write_text("x")
    assert (folder / "mine/reframe.py").read_text() == "x"
    # Somebody else was faster.
    with pytest.raises(OSError), written.published(made):
        (made / "reframe.py").write_text("y")
    assert (folder / "mine/reframe.py").read_text() == "x"
    assert {path.name for path in tmp_path.iterdir()} == {"site-config"}


def test_mounts_that_hold_files_of_users():
    listing = (
        "proc /proc proc rw 0 0\n"
        "10.0.0.1@o2ib:/l /lustre\\040a lustre rw,flock 0 0\n"
        "/dev/sda1 /boot ext4 rw 0 0\n"
        "srv:/home /home nfs4 ro,relatime 0 0\n"
    )
    assert provenance.user_mounts(listing) == [
        {"mount": "/lustre a", "type": "lustre", "read_only": False},
        {"mount": "/home", "type": "nfs4", "read_only": True},
    ]


def test_a_directory_that_can_be_written_is_found_and_left_as_it_was(tmp_path, monkeypatch):
    for name in provenance.OF_USERS:
        monkeypatch.delenv(name, raising=False)
    mount = provenance.mount_point(str(tmp_path))
    each = {"mount": mount, "type": "ext4", "read_only": False}
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    assert provenance.first_writable(each, "me") == str(tmp_path)
    assert [*tmp_path.iterdir()] == []
    monkeypatch.setattr(provenance, "writable", lambda _: False)
    assert provenance.first_writable(each, "me") is None


def test_the_topology_of_a_node(tmp_path):
    for cpu, (package, core) in enumerate([(0, 0), (0, 0), (1, 0), (1, 0)]):
        folder = tmp_path / f"cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
        (folder / "core_id").write_text(f"{core}\n")
    (tmp_path / "node/node0").mkdir(parents=True)
    assert provenance.topology(str(tmp_path)) == {
        "cpus": 4, "cores": 2, "sockets": 2, "numa_nodes": 1
    }  # fmt: skip
    (tmp_path / "cpu/cpu3/topology/physical_package_id").unlink()
    assert provenance.topology(str(tmp_path))["sockets"] is None
