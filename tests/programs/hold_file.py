"""Holds a file open for writing until the watch over open files has looked at it.

The words are FILE and names of flags of open(2). The program ends as soon as the file is open, and
leaves a process behind that holds it. The watch (src/assay/node/storage.py) looks a last time
when the benchmark has ended, and then writes what it saw. So it sees the file, however seldom it
gets its turn: on a busy machine it may miss a benchmark that ends within milliseconds.

The program runs in the stage directory, in the job.
"""

import os
import sys
import time
from pathlib import Path

#: What the watch writes; assay.run.storage.WRITTEN.
SEEN = Path("storage.files.json")

path, *flags = sys.argv[1:]
os.open(path, os.O_WRONLY | os.O_CREAT | sum(getattr(os, flag) for flag in flags), 0o600)
if os.fork() == 0:
    # Whoever reads the output of the benchmark does not wait for this process.
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    job = Path("/proc", str(os.getsid(0)))  # ReFrame begins a session for each job
    while job.exists() and not SEEN.exists():
        time.sleep(0.01)
    Path(path).unlink(missing_ok=True)  # no job removes a file outside of its directory
