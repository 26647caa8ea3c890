"""The job scripts of tests between GPUs, made by a dry run for a site with GPUs.

`python tests/programs/job_scripts.py` writes the scripts of tests/data/jobs again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
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

#: The dry run asks this Slurm, because the machine may have its own Slurm or none.
SCONTROL = """#!/bin/sh
echo "slurm_load_node error: Unable to contact slurm controller (connect failure)" >&2
exit 1
"""

#: The path of the stack if it were installed.
PROGRAMS = "/opt/assay/gpu/bin"


def scripts(folder: Path) -> dict[str, str]:
    """Makes all scripts in the empty `folder`; returns name of the case -> job script."""
    home = folder / "spack"
    (home / "env").mkdir(parents=True)
    digest = hashlib.sha256((ROOT / "spack.lock").read_bytes()).hexdigest()
    installed = {"lock_sha256": digest, "path": [PROGRAMS]}
    (home / f"env/{SITE}.gpu.json").write_text(json.dumps(installed))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "RFM_"))}
    environment |= {"ASSAY_RESULTS": str(folder), "ASSAY_SPACK_HOME": str(home)}
    environment |= {"ASSAY_STACK": "spack-gpu", "RFM_COLORIZE": "n"}
    slurm = folder / "slurm/scontrol"
    slurm.parent.mkdir()
    slurm.write_text(SCONTROL)
    slurm.chmod(0o755)
    environment["PATH"] = f"{slurm.parent}:{environment['PATH']}"
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("reframe")), "--dry-run"),
            *("-C", str(ROOT / f"site-config/{SITE}/reframe.py"), f"--system={SITE}"),
            *("-c", str(ROOT / "reframe/network"), "-R", "-n", CASES.replace(" ", "")),
        ],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the dry run failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    names = re.findall(r"DRY *\] (\S.*) /(\w+) @\w+:(\S+)\+", done.stdout)
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
