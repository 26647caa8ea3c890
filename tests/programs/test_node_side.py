"""The programs that run on compute nodes, with whichever Python the nodes have."""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import shell
from bench import live_program
from shell import ROOT

import assay
from assay.describe import ask, detect
from assay.fleet import node_limits, nodes
from assay.fleet.node import provenance
from assay.gpu import gpu_health
from assay.node import answers, capacity, recorded
from assay.prove import steering
from assay.prove.transports import opened_transports

SOURCE = Path(assay.__file__).parent
SCRIPTS = sorted(SOURCE.glob("**/node/*.py"))


#: Variables of which only the name may be written: no list of what is measured has them.
SECRETS = (
    *("UCX_APIKEY", "UCX_AUTH", "UCX_PWD", "OMPI_MCA_btl_PASS", "OMP_PASSPHRASE", "UCX_A_TOKEN"),
    *("OMPI_MCA_x_password", "OMPI_MCA_API_KEY", "UCX_TCP_PASSWORD", "FI_SESAME", "UCX_TLSX"),
    *("LD_SESAME", "MALLOC_SESAME", "KMP_SESAME", "MKL_SESAME", "PSM3_SESAME", "I_MPI_SESAME"),
)


def witness_in(folder):
    """The witness with its list, as a test puts them into its stage directory."""
    shutil.copy(steering.RECORDED, folder)
    return Path(shutil.copy(steering.WITNESS, folder))


def test_a_meeting_and_its_tests_name_the_same_files():
    said = (SOURCE / "fleet/node/meeting.py").read_text()

    assert f'ADDRESS = "{nodes.ADDRESS}"' in said
    assert f'LOG_FILE = "{nodes.LOG_FILE}"' in said


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_of_the_nodes_are_readable_by_python_3_6(script):
    ast.parse(script.read_text(), feature_version=(3, 6))


@pytest.fixture
def tree(tmp_path):
    """Control groups as the kernel shows them, with limits of version 1 and of version 2."""
    for folder, name, limit in [
        ("memory", "memory.limit_in_bytes", "9223372036854771712"),
        ("memory/slurm/job_7", "memory.limit_in_bytes", "4096"),
        ("memory/slurm", "memory.limit_in_bytes", "8192"),
        ("slurm/job_7/step", "memory.max", "max"),
        ("slurm/job_7", "memory.max", "2048"),
    ]:
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"{limit}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ("4:memory:/slurm/job_7\n1:cpu:/slurm\n", [4096, 8192, 9223372036854771712]),
        ("0::/slurm/job_7/step\n", [2048]),
        ("0::/\n", []),
        ("1:cpu:/slurm/job_7\n", []),
        ("", []),
    ],
    ids=["version 1", "version 2", "root", "another controller", "no groups"],
)
def test_the_limits_of_all_groups_above_a_process_are_read(tree, groups, limits):
    assert list(capacity.memory_limits(groups, str(tree))) == limits


@pytest.fixture
def patient(monkeypatch):
    """Nothing is known to hang, and what answers has all the time that a busy node needs."""
    monkeypatch.setattr(answers, "hung", {})
    monkeypatch.setattr(answers, "LIMIT", 10**6)


@pytest.fixture
def hurried(patient, monkeypatch):
    """A limit that only what never answers may meet: what answers may be slower on a busy node."""
    monkeypatch.setattr(answers, "LIMIT", 0.3)


@pytest.fixture
def sleeper(hurried, tmp_path, monkeypatch):
    """A program on PATH that never answers; returns the commands that were started."""
    shell.program(tmp_path, "ucx_info", "sleep 1000")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    started, start = [], subprocess.Popen

    # The program itself could be killed before it writes that it was started.
    def noted(command, **options):
        started.append(command)
        return start(command, **options)

    monkeypatch.setattr(answers.subprocess, "Popen", noted)
    return started


def test_a_program_that_hangs_is_named_and_asked_once(sleeper):
    assert provenance.output(["ucx_info", "-d"]) is None
    assert provenance.ucx() == []
    assert answers.hung == {"ucx_info": "ucx_info -d did not end within 0.3 s"}
    assert sleeper == [["ucx_info", "-d"]]


def test_a_program_that_hangs_is_not_taken_for_one_that_is_not_there(sleeper, monkeypatch, capsys):
    monkeypatch.setattr(ask, "LIMIT", 0.3)
    assert opened_transports(ask.output("ucx_info", "-d")) == []
    assert detect.version("ucx_version") is None
    said = "ucx_info -d did not end within 0.3 s; what it would have said is missing"
    assert capsys.readouterr().err == f"assay: {said}\n"


def test_a_file_system_that_does_not_answer_is_an_error_of_its_own(hurried, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: time.sleep(1000))
    # The programs of this machine are not asked: they may take longer than the limit.
    monkeypatch.setattr(answers, "output", lambda *_, **__: None)
    found = capacity.file_system("/")
    assert found["error"] == "did not answer within 0.3 s"
    said = node_limits.limit_problems(
        {**provenance.collect(["/"]), "programs": {}}, {"free_bytes_min": 1, "mount_options": ["x"]}
    )
    assert list(said) == ["/: the file system did not answer within 0.3 s"]


def test_what_a_process_of_its_own_says_is_what_it_would_have_said_here(patient):
    assert capacity.file_system("/")["type"]
    assert capacity.file_system("/nonexistent")["error"] == "No such file or directory"
    assert answers.within(lambda: ["x" * 10**6]) == ["x" * 10**6]
    with pytest.raises(FileNotFoundError):
        answers.within(lambda: Path("/nonexistent").stat().st_size)


def test_the_state_of_the_gpus_is_that_of_the_script_that_was_given(tmp_path):
    script = "echo '[driver]'; echo 803"
    words = [sys.executable, provenance.__file__]
    for given, said in ((["--gpus", script], "[driver]\n803"), ([], None)):
        done = subprocess.run([*words, *given, str(tmp_path)], capture_output=True, check=True)
        found = json.loads(done.stdout)
        assert found["gpus"] == said
        assert [each["directory"] for each in found["file_systems"]] == [str(tmp_path)]


@pytest.mark.parametrize(
    ("near", "visible", "cpus", "chosen"),
    [
        ("0-1;2-3", "0,1", "0 1 2 3", ["0", "2"]),
        ("0-1;2-3", "1,0", "0 1 2 3", ["2", "0"]),
        ("0-1;2-3", "GPU-b", "0 1 2 3", ["2", "3"]),
        ("2;2", "0,1", "0 1 2", ["2", "0"]),
        ("8;9", "0,1", "0 1", ["0", "1"]),
        ("", "0,1", "5 7", ["5", "7"]),
    ],
)
def test_each_of_two_processes_gets_a_processor_near_its_gpu(tmp_path, near, visible, cpus, chosen):
    lists = dict(enumerate(near.split(";")))
    state = tmp_path / "state"
    rows = "".join(f"GPU{n}\t X \tNV1\t{cpu}\tN/A\n" for n, cpu in lists.items() if cpu)
    state.write_text(
        "[gpu uuid,pci.bus_id]\nGPU-a, 0000:1B:00.0\nGPU-b, 0000:2B:00.0\n"
        f"[topology]\n\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n{rows}"
    )
    script = ROOT / "src/assay/gpu/node/near-cores.sh"
    done = shell.run(script, state, visible, *cpus.split(), cwd=tmp_path)
    assert done.stdout.split() == chosen
    taken = [gpu_health.taken(path.read_text()) for path in sorted(tmp_path.glob("gpu.*.?"))]
    uuids = {"0": "GPU-a", "1": "GPU-b", "GPU-b": "GPU-b"}
    words = visible.split(",")
    assert [one.uuid for one in taken] == [uuids[words[n % len(words)]] for n in (0, 1)]
    assert [one.cpus for one in taken] == [{int(cpu)} for cpu in chosen]


def test_processors_are_chosen_without_a_state(tmp_path):
    script = ROOT / "src/assay/gpu/node/near-cores.sh"
    done = shell.run(script, tmp_path / "gone", "0,1", "3", "4", cwd=tmp_path)
    assert done.stdout.split() == ["3", "4"]


@pytest.mark.parametrize("text", ["UCX_RNDV_THRESH: 0\n", "\ufeffUCX_RNDV_THRESH = 0\n"])
def test_a_ucx_conf_is_read_as_ucx_reads_it(text, tmp_path):
    witness_in(tmp_path)
    (tmp_path / "ucx.conf").write_text(text, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    witness = ["/bin/sh", str(tmp_path / "witness.sh"), "rank", "true"]
    subprocess.run(witness, cwd=tmp_path, env=environment, check=True)
    (left,) = tmp_path.glob("rank.*")
    assert steering.rank(left.read_text()).policy in ("", "default")  # empty without NUMA
    assert [where[2:] for where in steering.rank(left.read_text()).files] == [
        ("UCX_RNDV_THRESH", "0")
    ] * 2


def test_the_settings_of_the_machine_are_those_below_the_prefix_of_its_programs(tmp_path):
    programs = shell.program(tmp_path / "mpi/bin", "mpirun", "true").parent
    (tmp_path / "mpi/etc").mkdir()
    (tmp_path / "mpi/etc/openmpi-mca-params.conf").write_text(
        "# a comment\n  btl_tcp_if_include = lo\nx_password = secret\n"
    )
    path = f"{programs}:{os.environ['PATH']}"
    done = shell.run("/bin/sh", steering.WITNESS, "machine", PATH=path)
    mine = [line for line in done.stdout.splitlines() if str(tmp_path) in line]
    file = f"file {tmp_path}/mpi/etc/openmpi-mca-params.conf"
    assert mine == [f"{file}:2:btl_tcp_if_include = lo", f"{file}:3:x_password =***"]


def test_the_census_reads_the_settings_of_the_machine(tmp_path, monkeypatch):
    programs = shell.program(tmp_path / "mpi/bin", "mpirun", "true").parent
    (tmp_path / "mpi/etc").mkdir()
    (tmp_path / "mpi/etc/prte.conf").write_text("rmaps = seq\nx = 2\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert provenance.settings()[f"{tmp_path}/mpi/etc/prte.conf"] == "rmaps = seq; x =***"


@pytest.mark.parametrize(
    ("of_mpi", "of_tools", "extras"),
    [
        ("1.20.1", "1.13.1", {"ucx_version": "1.20.1", "ucx_tools_version": "1.13.1"}),
        ("1.13.1", "1.13.1", {"ucx_version": "1.13.1"}),
        ("", "1.13.1", {"ucx_version": "1.13.1"}),
        ("1.20.1", "", {"ucx_version": "1.20.1"}),
    ],
)
def test_the_version_of_ucx_is_that_of_the_library_which_the_mpi_loads(
    of_mpi, of_tools, extras, tmp_path, monkeypatch
):
    """Open MPI of PyPI brings a UCX of its own; `ucx_info` is of another one."""
    loads = "echo '  7: calling init: /x/libucp.so.0' >&2" if of_mpi else "exit 1"
    programs = {
        "mpirun": "exit 0",
        "ompi_info": loads,
        "python3": f'[ "$3" = /x/libucp.so.0 ] && echo Version {of_mpi}',
        "ucx_info": f"echo '# Library version: {of_tools}'" if of_tools else "exit 1",
    }
    tools = shell.tools(tmp_path / "bin", "sh sed head xargs grep")
    for name, body in programs.items():
        shell.program(tools, name, body)
    monkeypatch.setenv("PATH", str(tools))
    _, found = detect.describe_programs()
    assert {name: found[name] for name in found if name.startswith("ucx_")} == extras


def test_the_value_of_a_secret_is_written_nowhere(tmp_path):
    plain = {
        "UCX_IB_PKEY": "0x7fff", "UCX_RNDV_THRESH": "8k", "UCX_TLS": "tcp,self", "FI_PROVIDER": "x",
        "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_pml": "ob1", "OMP_NUM_THREADS": "2",
        "LD_LIBRARY_PATH": "/a b:/c", "OMPI_MCA_plm_rsh_agent": "ssh://***@node",
    }  # fmt: skip
    secrets = dict.fromkeys(SECRETS, "s3cret")
    witness_in(tmp_path)
    environment = {"PATH": os.environ["PATH"], **secrets, **plain}
    environment["OMPI_MCA_plm_rsh_agent"] = "ssh://me:s3cret@node"
    for how in (("rank", "true"), ("job",)):
        witness = ["/bin/sh", str(tmp_path / "witness.sh"), *how]
        subprocess.run(witness, cwd=tmp_path, env=environment, check=True)
    for path in tmp_path.glob("*.*"):
        assert "s3cret" not in path.read_text(errors="replace"), path
    job = steering.node((tmp_path / steering.JOB).read_text()).job.variables
    assert job == {**dict.fromkeys(secrets, "***"), **plain}
    known = {name: value for name, value in job.items() if name.startswith(provenance.VARIABLES)}
    assert provenance.variables(environment) == known
    rank = steering.rank(min(tmp_path.glob("rank.*")).read_text()).variables
    assert rank == {name: it for name, it in job.items() if not name.startswith("I_MPI_")}


def test_without_its_list_the_witness_writes_no_value(tmp_path):
    script = Path(shutil.copy(steering.WITNESS, tmp_path))
    assert shell.run(script, "rank", "true", UCX_TLS="s3cret").returncode == 0
    (left,) = tmp_path.glob("rank.*")
    assert steering.rank(left.read_text()).variables == {"UCX_TLS": "***"}


def test_every_variable_of_the_ucx_of_this_machine_may_be_written_down():
    done = shell.run(live_program("ucx_info"), "-c")
    settings = re.findall(r"^(UCX_\w+)=(.+)$", done.stdout, re.MULTILINE)
    assert len(settings) > 100
    known = recorded.listed()
    assert [
        name for name, value in settings if recorded.recorded(name, value, known) == "***"
    ] == []


def test_what_steers_the_start_of_the_ranks_is_read_in_the_job_only(tmp_path):
    witness_in(tmp_path)
    steered = {"OPAL_PREFIX": "/tmp/x", "PMIX_MCA_gds": "hash", "HWLOC_XMLFILE": "/tmp/y"}
    environment = {"PATH": os.environ["PATH"], **steered}
    for how in (("rank", "true"), ("job",)):
        witness = ["/bin/sh", str(tmp_path / "witness.sh"), *how]
        subprocess.run(witness, cwd=tmp_path, env=environment, check=True)
    (left,) = tmp_path.glob("rank.*")
    assert steering.rank(left.read_text()).variables == {}
    job = steering.node((tmp_path / steering.JOB).read_text()).job
    assert steering.steering_of_job(job).variables == steered


@pytest.mark.parametrize("openssl", ["as installed", "absent", "broken"])
def test_the_witness_hashes_the_loaded_libraries_by_openssl_or_without(openssl, tmp_path):
    library = tmp_path / "libmpi.so.40"
    library.write_bytes(b"a library of this test")
    (tmp_path / "loaded.here.7").write_text(f"    7:\tcalling init: {library}\n")
    (tmp_path / "assay.nonce").write_text("0badcafe\n")
    witness = witness_in(tmp_path)
    used = tmp_path / "used"
    real = shutil.which("openssl") or "false"
    bodies = {"as installed": f': >{used}; exec {real} "$@"', "broken": "exit 127"}
    tools = shell.tools(tmp_path / "bin", "awk cat env grep readlink sed sh sha256sum uname xargs")
    if openssl in bodies:
        shell.program(tools, "openssl", bodies[openssl])
    assert shell.run(witness, "job", path=tools).returncode == 0
    assert used.exists() == (openssl == "as installed")
    node = steering.node((tmp_path / "assay.witness").read_text())
    assert node.libraries == {str(library): hashlib.sha256(library.read_bytes()).hexdigest()}
