"""Real tests on recorded runs with a fault in them: tests/data/replay/NAME.yaml lists the faults.

Each list belongs to the recorded run in the folder NAME. The keys:

file       file of the test, below reframe/
case       option -n of ReFrame, which selects one case
arguments  further options of ReFrame
program    name of the program that replays the run
run        may be absent: the folder of the run, if it is not NAME
changes    may be absent: what the run of this list said otherwise; see `changes` of a fault
compiler   may be absent: name of the compiler by which the job makes the program
stack      features of the stack, and its extras
storage    for a storage test: `direct` if the program has its file open with O_DIRECT, or `cached`
healthy    part of the record of the unchanged run, which must pass
faults     name -> `reason` of the failure, and `changes`: each names a `file` of the run (a shell
           pattern), and replaces `old` by `new`, or the whole text by the file `with` of
           tests/data; `verdict` if it is not FAIL; `storage` if it is not that of the run
sound      may be absent: name -> `changes` after which the run passes, and part of its `proof`
"""

import pytest
import yaml
from bench import DATA, Recorded

pytestmark = pytest.mark.slow

LISTS = sorted(path.stem for path in (DATA / "replay").glob("*.yaml"))


@pytest.mark.parametrize("name", LISTS)
def test_the_recorded_run_passes_and_each_fault_fails_with_its_reason(bench, name):
    spec = yaml.safe_load((DATA / "replay" / f"{name}.yaml").read_text())
    recorded = Recorded.load(spec.get("run", name)).changed(spec.get("changes", []))
    bench.catches(spec, recorded, f"reframe/{spec['file']}")
