"""`assay site new`: what Slurm and the module system say. What is not recorded is made by hand."""

import inspect
import re

import pytest

pytest.importorskip("reframe")

from new_site import NODES, PARTITIONS, SAID, drafted, recorded

from assay.describe import described, new, slurm


def test_slurm_of_the_emulated_cluster():
    (batch,) = slurm.partitions(PARTITIONS)
    assert batch == slurm.Partition("batch", default=True)
    nodes = slurm.nodes(NODES)
    assert [node.name for node in nodes] == ["node01", "node02", "node03", "node04"]
    assert nodes[1].address == "10.77.0.3"
    pool = slurm.pool(batch, nodes)
    assert pool.shape == slurm.Shape(1, 2, 1, 5514, "")
    assert len(pool.up) == 4 and pool.others == ()
    assert (SAID.scheduler, SAID.launcher) == ("squeue", "srun")


def test_the_largest_group_of_alike_nodes_counts_and_the_others_are_said():
    lines = NODES.splitlines(keepends=True)
    lines[0] = (
        lines[0]
        .replace("RealMemory=5514", "RealMemory=9000")
        .replace("AvailableFeatures=(null)", "AvailableFeatures=fat,new")
    )
    lines[1] = lines[1].replace("State=ALLOCATED", "State=IDLE+DRAIN Reason=State=IDLE, they say")
    lines.append("NodeName=cloud1 State=IDLE+CLOUD+POWERED_DOWN Partitions=batch\n")
    pool = slurm.pool(slurm.partitions(PARTITIONS)[0], slurm.nodes("".join(lines)))
    assert [node.name for node in pool.nodes] == ["node02", "node03", "node04"]
    assert [node.name for node in pool.up] == ["node03", "node04"]
    assert pool.others == ("node01: 2 processors, 9000 MiB; features fat, new",)
    said = "\n".join(drafted(described.Place(pool, *recorded())).gaps)
    assert "node02 take no jobs (IDLE+DRAIN)" in said and "not described: node01" in said


@pytest.mark.parametrize(
    ("state", "takes"),
    [
        *((state, True) for state in ("IDLE", "MIXED", "ALLOCATED", "IDLE+CLOUD", "IDLE~")),
        *((state, False) for state in ("IDLE*", "DOWN", "IDLE+DRAIN", "")),
        ("DOWN+NOT_RESPONDING", False),
    ],
)
def test_a_state_that_takes_jobs(state, takes):
    (node,) = slurm.nodes(NODES.splitlines()[0].replace("State=ALLOCATED", f"State={state}"))
    assert (not node.out) is takes


def test_limits_of_a_partition_are_said():
    listing = PARTITIONS.replace("AllowAccounts=ALL", "AllowAccounts=physics")
    (batch,) = slurm.partitions(listing)
    assert batch.limits == ("AllowAccounts=physics",)
    listing = PARTITIONS.replace("State=UP", "State=INACTIVE")
    assert not slurm.partitions(listing)[0].open
    assert slurm.partitions("slurm_load_partitions: Unable to contact slurm controller") == []


def chosen(*names, wanted=(), gaps=None):
    listing = "".join(
        PARTITIONS.replace("=batch", f"={name}").replace("Default=YES", f"Default={default}")
        for name, default in names
    )
    nodes = slurm.nodes(NODES.replace("Partitions=batch", "Partitions=batch,debug"))
    gaps = [] if gaps is None else gaps
    return [
        pool.partition.name for pool in new.chosen(slurm.partitions(listing), nodes, wanted, gaps)
    ]


def test_the_default_partition_comes_first_and_one_with_the_same_nodes_is_left_out():
    gaps = []
    both = ("debug", "NO"), ("batch", "YES"), ("empty", "NO")
    assert chosen(*both, gaps=gaps) == ["batch"]
    whose = [gap.partition(":")[0] for gap in gaps]
    assert whose == [f"partition {n} of Slurm" for n in ("debug", "empty")]
    assert chosen(*both, wanted=["debug", "batch", "debug"]) == ["debug", "batch"]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("bach", "--partition: Slurm has no 'bach'; did you mean 'batch'?"),
        ("zzz", "--partition: Slurm has no 'zzz'; known are batch, empty"),
        ("empty", "--partition: no node of 'empty' takes jobs now"),
    ],
)
def test_a_partition_that_cannot_be_had_is_one_line(wanted, says):
    with pytest.raises(new.ConfigError, match=re.escape(says)) as refused:
        chosen(("batch", "YES"), ("empty", "NO"), wanted=[wanted])
    assert "\n" not in str(refused.value)


#: Made after the documentation of Lmod and of Environment Modules.
LMOD = """\
Modules based on Lua: Version 8.7.32  2023-08-28 12:42 -05:00
    by Robert McLay mclay@tacc.utexas.edu

/opt/modulefiles:
gcc/
gcc/13.2.0
openmpi/
openmpi/4.1.6
openmpi/5.0.5(default)
osu-micro-benchmarks/7.5
cuda/12.4
"""
TCL = """\
Modules Release 5.3.1 (2023-06-27)

/usr/share/modules/modulefiles:
dot
mpi/openmpi-x86_64
"""


def test_modules():
    names = new.available(LMOD)
    assert names == [
        *("gcc/13.2.0", "openmpi/4.1.6", "openmpi/5.0.5", "osu-micro-benchmarks/7.5", "cuda/12.4")
    ]
    assert new.module_system(LMOD) == "lmod"
    assert new.useful(names) == [
        *("openmpi/4.1.6", "openmpi/5.0.5", "cuda/12.4", "osu-micro-benchmarks/7.5")
    ]
    assert new.module_system(TCL) == "tmod4"
    assert new.useful(new.available(TCL)) == ["mpi/openmpi-x86_64"]
    assert new.module_system(TCL.replace("5.3.1", "3.2.10")) == "tmod32"
    assert new.module_system("bash: line 1: module: command not found") == "nomod"


def test_each_text_of_a_gap_is_used_and_each_used_one_is_there():
    source = "".join(map(inspect.getsource, (described, new)))
    used = {*re.findall(r'(?:\.gap\(\s*|\.GAPS\[)"([\w-]+)"', source)}
    assert used == {*described.GAPS}
