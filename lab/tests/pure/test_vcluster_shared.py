"""A parallel file system of the emulated cluster: volume files, and mounts."""

import re

import pytest

VOLUME = re.compile(r"^volume (\S+)\n    type (\S+)\n((?:    .*\n)*)end-volume$", re.M)


def layers(text):
    """Name -> type, options, and layers below it, in the order of the file."""
    found = {}
    for name, kind, body in VOLUME.findall(text):
        lines = [line.split() for line in body.splitlines()]
        options = {words[1]: words[2] for words in lines if words[0] == "option"}
        below = [word for words in lines if words[0] == "subvolumes" for word in words[1:]]
        assert set(below) <= set(found), "a layer is above layers that the file has named before"
        found[name] = kind, options, below
    assert text.count("end-volume") == len(found), "a layer is not understood"
    return found


@pytest.fixture
def configured(modules, tmp_path, monkeypatch):
    """Configures a cluster of so many nodes with this file system; returns it."""
    monkeypatch.setattr(modules("gluster").shutil, "which", lambda name: f"/usr/sbin/{name}")

    def configure(nodes, shared="glusterfs"):
        layout = modules("layout")
        made = layout.Cluster(nodes, "assay", 9, 9, False, layout.Link(), [], shared=shared)
        modules("gluster").configure(made)
        return made

    return configure


@pytest.mark.parametrize("nodes", [1, 4, 9])
def test_the_mount_reaches_the_brick_of_each_node_where_it_listens(configured, tmp_path, nodes):
    cluster = configured(nodes)
    of_mount = layers((tmp_path / "etc/glusterfs").read_text())
    reached = {}
    for name, (kind, options, _) in of_mount.items():
        if kind == "protocol/client":
            reached[name] = options["remote-host"], options["remote-port"]
            assert options["remote-subvolume"] == "brick"
    assert list(reached) == cluster.node_names
    for name, where in reached.items():
        of_brick = layers((tmp_path / f"etc/brick.{name}").read_text())
        kind, options, below = of_brick["server"]
        assert (kind, below) == ("protocol/server", ["brick"])
        listens = "transport.socket.bind-address", "transport.socket.listen-port"
        assert tuple(options[key] for key in listens) == where
        assert of_brick["files"][1]["directory"] == str(tmp_path / "scratch/.brick/files")
    assert len(set(reached.values())) == nodes
    (kind, options, below), *more = [v for v in of_mount.values() if v[2] == cluster.node_names]
    assert (kind, more) == ("cluster/distribute", [])
    top = list(of_mount.values())[-1]
    assert top == ("features/shard", {"shard-block-size": "4MB"}, ["distribute"])
    assert (tmp_path / "glusterfs").is_dir()


def test_no_brick_serves_without_locks(configured, tmp_path):
    """MPI-IO locks parts of a file that several nodes write."""
    configured(1)
    of_brick = layers((tmp_path / "etc/brick.node01").read_text())
    assert [of_brick[name][2] for name in ("server", "brick", "locks")] == [
        ["brick"],
        ["locks"],
        ["files"],
    ]
    assert of_brick["locks"][0] == "features/locks"


def test_without_the_switch_nothing_of_it_is_made(configured, modules, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    cluster = configured(2, shared="")
    assert sorted(tmp_path.rglob("*")) == before
    modules("gluster").mend(cluster)  # asks no machine


def test_a_machine_without_glusterfs_is_told_what_to_type(configured, modules, monkeypatch):
    monkeypatch.setattr(modules("gluster").shutil, "which", lambda name: None)
    with pytest.raises(modules("layout").Refusal, match=r"lab/vcluster/packages\.sh --shared"):
        configured(2)


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        ({}, ""),
        ({"node02": "connected = 0"}, "login does not reach the brick of node02"),
        ({"node01": ""}, "login does not reach the brick of node01"),
    ],
)
def test_a_brick_that_is_not_reached_is_named(configured, modules, monkeypatch, answers, missing):
    gluster, cluster = modules("gluster"), configured(2)
    monkeypatch.setattr(gluster, "mounted", lambda name: True)

    def ask(cluster, name, *words, check):
        files = {f"node0{n}": word for n, word in enumerate(words[-2:], 1)}
        return "".join(f"{f}:{answers.get(n, 'connected = 1')}\n" for n, f in files.items())

    monkeypatch.setattr(gluster.machine, "ask", ask)
    assert gluster.missing(cluster) == missing
    monkeypatch.setattr(gluster, "mounted", lambda name: name != "node02")
    if not missing:
        assert gluster.missing(cluster) == f"node02 has no {gluster.GLUSTER}"


def test_a_mount_of_another_kind_does_not_count(modules, monkeypatch, tmp_path):
    gluster = modules("gluster")
    monkeypatch.setattr(gluster.machine, "first_process", lambda name: 1)
    for kind, there in (("fuse.glusterfs", True), ("xfs", False)):
        text = f"x {gluster.GLUSTER} {kind} rw 0 0\n"
        monkeypatch.setattr(gluster.Path, "read_text", lambda self, text=text: text)
        assert gluster.mounted("node01") is there


def test_files_that_go_stale_are_refused_where_none_are_shared(configured, modules):
    with pytest.raises(modules("layout").Refusal, match=r"shares no files; type: .*--shared"):
        modules("gluster").never_look_again(configured(2, shared=""), "node02")


@pytest.mark.parametrize(
    "case",
    [("", [""], False), ("", ["x", "x", ""], False), ("node02", [""], True), ("stale", [""], True)],
)
def test_clear_makes_the_volume_anew_only_if_something_is_lost(
    configured, modules, monkeypatch, case
):
    lost, answers, renewed = case
    gluster, cluster = modules("gluster"), configured(2)
    if lost == "stale":
        (gluster.STATE / "run/stale.node01").touch()
    said, done = iter(answers), []
    monkeypatch.setattr(gluster, "mounted", lambda name: name != lost)
    monkeypatch.setattr(gluster, "missing", lambda cluster: next(said))
    monkeypatch.setattr(gluster, "_renew", done.append)
    gluster.mend(cluster)
    assert bool(done) is renewed
