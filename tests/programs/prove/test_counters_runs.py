"""The state of a node before and after a benchmark: the script, who runs it, and the verdict."""

import shutil
import subprocess

import pytest
import shell
from bench import HPL, ROOT
from nodes import Nodes, need_namespaces
from replays import judged_hpl

from assay.prove import counters, links, plan

WITNESS = ROOT / "src/assay/node/link-witness.sh"

#: A made machine: path -> content.
MACHINE = {
    "proc/uptime": "12.5 8.0\n",
    "proc/interrupts": "           CPU0       CPU1\n MCE:  1  2  Machine check exceptions\n",
    "sys/devices/system/edac/mc/mc0/ce_count": "3\n",
    "sys/devices/system/edac/mc/mc0/ue_count": "1\n",
    "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "7\n",
    "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error": "5\n",
    "sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "0\n",
    "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_packets": "8\n",
    "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_packets": "9\n",
    "sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence": "4\n",
    "proc/net/snmp": "Ip: Forwarding\nIp: 1\nTcp: OutSegs RetransSegs\nTcp: 70 6\n",
    "sys/devices/pci0/0000:3a:00.0/max_link_speed": "16.0 GT/s PCIe\n",
    "sys/devices/pci0/0000:3a:00.0/max_link_width": "16\n",
    "sys/devices/pci0/0000:3a:00.0/0000:3b:00.0/class": "0x020700\n",
    "sys/devices/pci0/0000:3a:00.0/0000:3b:00.0/current_link_speed": "16.0 GT/s PCIe\n",
    "sys/devices/pci0/0000:3a:00.0/0000:3b:00.0/current_link_width": "4\n",
    "sys/devices/pci0/0000:3a:00.0/0000:3b:00.0/max_link_speed": "32.0 GT/s PCIe\n",
    "sys/devices/pci0/0000:3a:00.0/0000:3b:00.0/max_link_width": "16\n",
    "sys/devices/pci0/0000:3a:00.0/0000:3b:00.0/aer_dev_fatal": "DLP 2\nTOTAL_ERR_FATAL 2\n",
    "sys/devices/pci0/0000:3a:00.0/0000:3b:00.0/net/ens1/carrier_down_count": "6\n",
}

#: A dmesg that reports a hang from its second start on.
HANG = "[  9.1] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [xhpl:1234]"
DMESG = """#!/bin/sh
echo "[  1.0] an older line"
[ ! -e {here}/asked ] || echo "{line}"
touch {here}/asked
"""


def test_the_script_reads_a_machine(tmp_path):
    for name, content in MACHINE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    for bus in ("0000:3a:00.0", "0000:3a:00.0/0000:3b:00.0"):
        link = tmp_path / "sys/bus/pci/devices" / bus.rpartition("/")[2]
        link.symlink_to(tmp_path / "sys/devices/pci0" / bus)
    script = counters.script(str(tmp_path))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    found = counters.parse_counters(done.stdout.replace(str(tmp_path), ""))
    assert found.up == 12.5
    assert found.values == {
        "memory_corrected": {"mc0": 3}, "memory_uncorrected": {"mc0": 1},
        "core_throttled": {"cpu1": 7}, "pcie_fatal": {"0000:3b:00.0": 2},
        "symbol_error": {"mlx5_0:1": 5}, "link_downed": {"mlx5_0:1": 0},
        "out_of_sequence": {"mlx5_0:1": 4}, "packets_resent out_of": {"mlx5_0:1": 17},
        "segments_resent": {"": 6}, "segments_resent out_of": {"": 70},
        "carrier_down": {"0000:3b:00.0:ens1": 6}, "MCE": {"": 3},
    }  # fmt: skip
    assert counters.reading_problems(found, found) == [
        "mc0: uncorrected memory errors: 1, at most 0 (memory_uncorrected)",
        "0000:3b:00.0 (network adapter): the width of its PCIe link is 4, both ends can have 16",
    ]


def test_the_script_reads_this_machine():
    done = subprocess.run(
        ["sh", "-c", counters.script()], capture_output=True, text=True, check=True
    )
    assert counters.parse_counters(done.stdout).up > 0
    assert done.stderr == ""


#: Where Slurm keeps the processes of jobs: cgroup v2, v2 with a name of the node, and v1.
GROUPS = (
    "system.slice/slurmstepd.scope/job_{}/step_0/user/task_0",
    "system.slice/n1_slurmstepd.scope/job_{}/step_batch/user/task_special",
    "cpuset/slurm/uid_1000/job_{}/step_batch/task_0",
)


@pytest.mark.parametrize("group", GROUPS)
def test_a_job_beside_this_one_on_a_node_is_a_doubt(tmp_path, group):
    """The group of a job that has ended is empty; squeue is asked only by the job script."""
    bin_ = shell.program(tmp_path / "bin", "squeue", "echo '/job_78/ n1,n2'").parent
    for job, processes in ((11, "41\n"), (76, ""), (77, "42\n43\n")):
        folder = tmp_path / "sys/fs/cgroup" / group.format(job)
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(processes)
    (tmp_path / "node-health.sh").write_text(counters.script(str(tmp_path)))

    def doubts(*words, **variables):
        done = shell.run(
            "sh", tmp_path / "node-health.sh", *words, PATH=f"{bin_}:/usr/bin:/bin", **variables
        )
        (tmp_path / "health.n1.before").write_text(done.stdout)
        return counters.beside(tmp_path)

    doubt = "ran beside this one on n1 and may change what is measured"
    assert doubts() == []
    (said,) = doubts(SLURM_JOB_ID="11")
    assert said.startswith(f"job 77 {doubt}") and isinstance(said, plan.Doubt)
    assert [said.split(" and may")[0] for said in doubts("job", SLURM_JOB_ID="11")] == [
        "job 77 ran beside this one on n1", "job 78 ran beside this one on n1,n2",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_job_says_itself_that_another_one_is_beside_it(bench):
    bench.program("turns", "squeue", "#!/bin/sh\necho '/job_78/ node07'\n")
    variables = [["SLURM_JOB_ID", "11"], ["SLURM_JOB_NODELIST", "node07"]]
    _, run, case, _ = judged_hpl(bench, [HPL], "--mode", "smoke", env_vars=variables)
    assert case.verdict == "PASS", run.output
    assert [said.split(" and may")[0] for said in case.doubts if "beside" in said] == [
        "job 78 ran beside this one on node07"
    ]


@pytest.mark.slow
def test_a_fault_during_the_benchmark_fails_it_and_names_the_node(bench):
    bench.program("turns", "dmesg", DMESG.format(here=bench.folder, line=HANG))
    _, run, case, _ = judged_hpl(bench, [HPL], "--mode", "smoke")
    assert case.verdict == "FAIL", run.output
    (problem,) = [said for said in case.problems if "soft lockup" in said]
    assert f": a processor hung in the kernel during the run: {' '.join(HANG.split())}" in problem
    assert [said.problem for said in case.accused] == [problem]


@pytest.mark.slow
def test_an_older_line_fails_nothing(bench):
    bench.program("turns", "dmesg", f"#!/bin/sh\necho '{HANG}'\n")
    _, run, case, _ = judged_hpl(bench, [HPL], "--mode", "smoke")
    assert case.verdict == "PASS", run.output
    ((_, said),) = case.node_health.items()
    assert said["unread"] == ""


def test_the_first_rank_of_a_node_keeps_its_state(tmp_path):
    shutil.copy(WITNESS, tmp_path)
    (tmp_path / "node-health.sh").write_text(
        "echo x >>asked; n=$(cat asked | wc -l); printf '[uptime]\\n%s 1\\n' $n\n"
        "echo '[interrupts]'; echo '[counters]'; echo '[links]'; echo '[kernel]'; echo '[end]'\n"
    )
    again = "./link-witness.sh lo true"
    subprocess.run(
        ["./link-witness.sh", "lo", "sh", "-c", again], cwd=tmp_path, check=True
    )  # the second rank starts while the first one runs
    assert len((tmp_path / "asked").read_text().split()) == 2, "the second rank asks nothing"
    ((host, said),) = counters.counter_problems(tmp_path)[2].items()
    assert said == {"rose": {}, "unread": ""}
    ups = [
        counters.parse_counters((tmp_path / name.replace("*", host)).read_text()).up
        for name in counters.FILES
    ]
    assert ups == [1, 2]
    assert len(list(tmp_path.glob(links.READINGS))) == 2


def test_each_node_of_a_meeting_keeps_its_state(tmp_path):
    need_namespaces()
    (tmp_path / "node-health.sh").write_text(counters.script())
    job = Nodes(tmp_path, "each.py", 2, command=["true"], limit=5, width=1, turns=1)
    job.start(0, 1).end()
    record = counters.counter_problems(tmp_path)[2]
    assert set(record) == {"node01", "node02"}
    assert all("rose" in said for said in record.values())
