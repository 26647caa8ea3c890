"""Slurm's commands as scripts. Jobs run at once on this machine, and hang if a test says so."""

import sys

#: A job ends in the normal way, unless its name asks for another end.
COMMANDS = {
    "sbatch": """\
if broken("sbatch-fails"):
    sys.exit(
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller "
        "(connect failure)"
    )
if broken("sbatch-refuses"):
    sys.exit("sbatch: error: Batch job submission failed: Invalid account")
if broken("sbatch-hangs"):
    time.sleep(1000)
script = sys.argv[-1]
text = open(script).read()
before = [job.read_text() for job in (here / "jobs").iterdir()]
number = len(before) + 1
with open(here / "beside", "a") as log:
    log.write(f"{sum(state.startswith('LINGERING') for state in before)} ")
options = dict(re.findall(r"^#SBATCH --([a-z-]+)=\\"?([^\\"\\n]*)", text, re.M))
stuck = [s for s in ("PENDING", "COMPLETING", "LINGERING") if s.title() in options["job-name"]]
ends = [s for s in ENDS if s.title().replace("_", "") in options["job-name"]]
state = [*stuck, *ends, "COMPLETED"][0]
if state != "PENDING":
    with open(options["output"], "w") as out, open(options["error"], "w") as err:
        if "Early" not in options["job-name"]:
            subprocess.run(["bash", script], stdout=out, stderr=err)
if state == "LINGERING":
    state = 5 * "LINGERING "
(here / "jobs" / str(number)).write_text(state)
for command in ("squeue", "scontrol"):
    if command.title() + "Forgets" in options["job-name"] or "AllForget" in options["job-name"]:
        (here / f"{command}-forgot-{number}").touch()
print("Submitted batch job", number)
""",
    "squeue": """\
if broken("squeue-fails"):
    sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
if (here / "squeue-hangs").exists():
    time.sleep(1000)
(here / "asked").touch()
for number in sys.argv[sys.argv.index("-j") + 1].split(","):
    job = here / "jobs" / number
    state = job.read_text()
    if (here / f"squeue-forgot-{number}").exists():
        continue
    if state.startswith("LINGERING"):
        # It is completing for as many calls as the file has words, and then it has ended.
        job.write_text(state.partition(" ")[2] or "COMPLETED")
        state = "COMPLETING"
    if state != "gone":
        # The real one without `-t all` does not list what has ended.
        if state not in ("COMPLETED", *ENDS) or "all" in sys.argv:
            print(f"{number}|{state}|node07|None")
""",
    "scancel": """\
with open(here / "cancelled", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if (here / "scancel-fails").exists():
    sys.exit("scancel: error: Kill job error on job id 1: Access/permission denied")
for number in sys.argv[1:]:
    if (here / "jobs" / number).read_text() == "PENDING":
        (here / "jobs" / number).write_text("gone")
""",
    "scontrol": """\
if (here / "scontrol-hangs").exists():
    time.sleep(1000)
if "job" in sys.argv:
    number = sys.argv[-1]
    state = (here / "jobs" / number).read_text().replace("gone", "CANCELLED")
    if (here / f"scontrol-forgot-{number}").exists():
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    reason, code = ENDS.get(state, ("None", "0:0"))
    print(
        f"JobId={number} JobName=any UserId=u(1) GroupId=u(1) JobState={state} Reason={reason} "
        f"Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 ExitCode={code} Partition=batch "
        "ReqNodeList=(null) NodeList=node07 BatchHost=node07 Command=/a/b NodeList=x"
    )
elif "hostname" in sys.argv:
    print("node07")
else:
    print("NodeName=node07 State=IDLE Partitions=batch ")
""",
    "sacct": """\
if not (here / "accounting").exists():
    sys.exit("Slurm accounting storage is disabled")
for number in sys.argv[sys.argv.index("-j") + 1].split(","):
    state = (here / "jobs" / number).read_text()
    code = ENDS.get(state, ("", "0:0"))[1]
    said = state + " by 1000" * (state == "CANCELLED")
    if "-nPX" in sys.argv:
        print(f"{said}|{code}|node07")
    else:
        print(f"{number}|{said}|{code}|1700000000|node07")
""",
}

#: How Slurm ends a job -> reason and exit code, as ``scontrol show job`` says them.
ENDS = {
    "OUT_OF_MEMORY": ("OutOfMemory", "0:125"),
    "NODE_FAIL": ("NodeDown", "1:0"),
    "BOOT_FAIL": ("None", "1:0"),
    "TIMEOUT": ("TimeLimit", "0:15"),
    "DEADLINE": ("DeadLine", "0:15"),
    "PREEMPTED": ("None", "0:15"),
    "CANCELLED": ("None", "0:15"),
    "FAILED": ("NonZeroExitCode", "1:0"),
}

HEAD = """\
#!{python}
import os, pathlib, re, subprocess, sys, time
here = pathlib.Path({here!r})
ENDS = {ends!r}

def broken(how):
    once = here / (how + "-once")
    if once.exists():
        once.unlink()
        return True
    return (here / how).exists()

"""


class FakeSlurm:
    """The Slurm commands in `folder`. :attr:`path` must come first on PATH."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "bin"
        (folder / "jobs").mkdir(parents=True)
        self.path.mkdir()
        for name, body in COMMANDS.items():
            command = self.path / name
            command.write_text(
                HEAD.format(python=sys.executable, here=str(folder), ends=ENDS) + body
            )
            command.chmod(0o755)

    def broken(self, how):
        """Breaks a command, such as squeue-fails, squeue-fails-once or scontrol-hangs."""
        (self.folder / how).touch()

    @property
    def hangs(self):
        """The commands that do not end."""
        return [path.name.partition("-")[0] for path in self.folder.glob("*-hangs")]

    @property
    def beside(self):
        """How many jobs had not ended when each job was submitted."""
        return [int(number) for number in (self.folder / "beside").read_text().split()]

    @property
    def cancelled(self):
        """The numbers of jobs given to scancel, once for each call."""
        log = self.folder / "cancelled"
        return log.read_text().split() if log.exists() else []
