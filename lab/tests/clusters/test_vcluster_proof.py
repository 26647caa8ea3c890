"""`vcluster up` says "up" only if MPI jobs run and the nodes reach each other."""

import os
import shutil
from pathlib import Path

import pytest
from emulated import Cluster, place, reason_to_skip
from test_vcluster import traces

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip())),
]


@pytest.fixture
def unborn():
    with place() as state:
        made = Cluster(state)
        yield made
        made("down")


def start(cluster, program, script):
    """Runs `up` with `script` in place of `program`."""
    with place() as folder:
        folder.chmod(0o755)
        fake = folder / program
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        path = f"{folder}:{os.environ['PATH']}"
        return cluster("up", "--nodes", "2", check=False, PATH=path)


@pytest.mark.parametrize(
    ("program", "script", "says"),
    [
        (
            "srun",
            "echo 'srun: error: mpi/pmix_v4: can not load PMIx library' >&2; exit 1",
            "4 MPI ranks on 2 nodes by srun --mpi=pmix failed: srun --mpi=pmix",
        ),
        (
            "srun",
            'for i in 1 2 3 4; do echo "Hello, World! I am process 0 of 1 on node01."; done',
            "4 MPI ranks on 2 nodes by srun --mpi=pmix are not one world: they say 'Hello",
        ),
        ("ucx_perftest", "echo broken >&2; exit 3", "UCX over tcp from node02 to node01 failed"),
    ],
    ids=["no PMIx", "singletons", "no UCX"],
)
def test_a_cluster_whose_jobs_do_not_run_is_not_up(unborn, program, script, says):
    done = start(unborn, program, script)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line != "vcluster: down"]
    assert len(said) == 1 and says in said[0], done.stderr
    assert "type: ci/" in said[0] and "taken down" in said[0]
    assert traces(unborn.state) == []


def test_a_cluster_without_its_relays_is_not_up(unborn):
    done = start(unborn, "chrt", "echo 'chrt: Operation not permitted' >&2; exit 1")
    assert done.returncode == 1
    assert "no packet relay came up: chrt: Operation not permitted" in done.stderr
    assert traces(unborn.state) == []


def test_packages_on_the_host_leave_the_machines_their_users(unborn):
    unborn("up", "--nodes", "2", "--unproven")
    # dpkg and adduser also put a new file over the old one. The content is the same.
    passwd = Path("/etc/passwd")
    new = passwd.with_name(f"passwd.{os.getpid()}")
    shutil.copy2(passwd, new)
    new.replace(passwd)
    assert unborn("run", "node02", "--", "id", "-un").stdout == "assay\n"
    assert unborn.job("whoami") == {"node01": "assay", "node02": "assay"}
