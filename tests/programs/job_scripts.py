"""The job scripts of tests between GPUs, made by a dry run for a site with GPUs.

`python tests/programs/job_scripts.py` writes the scripts of tests/data/jobs again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from pathlib import Path

from bench import ROOT, run_reframe
from shell import program

EXPECTED = ROOT / "tests/data/jobs"
SITE = "ibisco"

#: Each configuration once at each place (in a node, between nodes); then both orders of the
#: buffers, and collectives.
CASES = (
    r"OsuGpu %benchmark=latency %buffers=DD|"
    r"OsuGpu %benchmark=bw %buffers=HD %configuration=all|"
    r"OsuGpuCollective %benchmark=reduce %gpus=4 %configuration=all|"
    r"UcxGpu %operation=tag_bw %gpus=2 %configuration=all"
)

#: The path of the stack if it were installed.
PROGRAMS = "/opt/assay/gpu/bin"


def without_slurm(folder: Path) -> str:
    """A PATH whose Slurm does not answer. This machine may have its own Slurm or none."""
    said = "slurm_load_node error: Unable to contact slurm controller (connect failure)"
    program(folder, "scontrol", f'echo "{said}" >&2; exit 1')
    return f"{folder}:{os.environ['PATH']}"


def scripts(folder: Path) -> dict[str, str]:
    """Makes all scripts in the empty `folder`; returns name of the case -> job script."""
    home = folder / "spack"
    (home / "env").mkdir(parents=True)
    digest = hashlib.sha256((ROOT / "spack.lock").read_bytes()).hexdigest()
    installed = {"lock_sha256": digest, "path": [PROGRAMS]}
    (home / f"env/{SITE}.gpu.json").write_text(json.dumps(installed))
    done = run_reframe(
        ROOT / f"site-config/{SITE}/reframe.py",
        folder,
        *("--dry-run", f"--system={SITE}"),
        *("-c", "reframe/network", "-R", "-n", CASES.replace(" ", "")),
        ASSAY_SPACK_HOME=str(home),
        ASSAY_STACK="spack-gpu",
        PATH=without_slurm(folder / "slurm"),
    )
    if done.returncode != 0:
        raise RuntimeError(f"the dry run failed:\n{done.output[-3000:]}")
    names = re.findall(r"DRY *\] (\S.*) /(\w+) @\w+:(\S+)\+", done.output)
    found = {}
    for name, code, partition in names:
        (script,) = folder.glob(f"stage/*/{SITE}/{partition}/*/*_{code}/rfm_job.sh")
        words = [re.sub(r"%\w+=", "", word) for word in name.split()]
        # The hash identifies the version of the test and has no effect on the run.
        found["-".join([*words, partition])] = script.read_text().replace(f"_{code}", "")
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        made = scripts(Path(empty))
    for old in EXPECTED.glob("*.sh"):
        old.unlink()
    for name, text in made.items():
        (EXPECTED / f"{name}.sh").write_text(text)
        print(name)
