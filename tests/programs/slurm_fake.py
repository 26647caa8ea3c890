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
number = len(os.listdir(here / "jobs")) + 1
options = dict(re.findall(r"^#SBATCH --([a-z-]+)=\\"?([^\\"\\n]*)", text, re.M))
stuck = [s for s in ("PENDING", "COMPLETING", "LINGERING") if s.title() in options["job-name"]]
state = stuck[0] if stuck else "COMPLETED"
if state != "PENDING":
    with open(options["output"], "w") as out, open(options["error"], "w") as err:
        subprocess.run(["bash", script], stdout=out, stderr=err)
if state == "LINGERING":
    state = 5 * "LINGERING "
(here / "jobs" / str(number)).write_text(state)
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
    if state.startswith("LINGERING"):
        # It is completing for as many calls as the file has words, and then it has ended.
        job.write_text(state.partition(" ")[2] or "COMPLETED")
        state = "COMPLETING"
    if state != "gone":
        # The real one without `-t all` does not list what has ended.
        if state != "COMPLETED" or "all" in sys.argv:
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
if "hostname" in sys.argv:
    print("node07")
else:
    print("NodeName=node07 State=IDLE Partitions=batch ")
""",
}

HEAD = """\
#!{python}
import os, pathlib, re, subprocess, sys, time
here = pathlib.Path({here!r})

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
            command.write_text(HEAD.format(python=sys.executable, here=str(folder)) + body)
            command.chmod(0o755)

    def broken(self, how):
        """Breaks a command, such as squeue-fails, squeue-fails-once or scontrol-hangs."""
        (self.folder / how).touch()

    @property
    def hangs(self):
        """The commands that do not end."""
        return [path.name.partition("-")[0] for path in self.folder.glob("*-hangs")]

    @property
    def cancelled(self):
        """The numbers of jobs given to scancel, once for each call."""
        log = self.folder / "cancelled"
        return log.read_text().split() if log.exists() else []
