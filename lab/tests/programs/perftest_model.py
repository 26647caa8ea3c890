"""tag_bw of ucx_perftest between emulated GPUs: the real program, with the rate of the model.

The words are the real program and its own words. The bytes go as they do without this file, so the
logs and the trace prove their way. Nothing delays them. The result of the client is that of a
machine that keeps up with the model of the links (GPUEMU_LINKS). A busy machine does not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys


def rate(links: str, gpus: str) -> float | None:
    """The modelled rate between the two GPUs that are visible [B/s]; None without a model.

    :param gpus: numbers or UUIDs; the last digit of an emulated UUID is the number.
    """
    numbers = "-".join(sorted(each[-1] for each in gpus.split(",")))
    rates = dict(re.findall(r"(nvlink(?::\d-\d)?)=[\d.]+:([\d.e+]+)", links))
    said = rates.get(f"nvlink:{numbers}", rates.get("nvlink"))
    return float(said) if said else None


def result(line: str, size: int, rate: float) -> str:
    """A last line with another rate: time of a message [us], 2^20 B/s and messages/s."""
    head, iterations, median, *_ = line.split()
    assert head == "Final:", line
    time, mib, messages = 1e6 * size / rate, rate / 2**20, rate / size
    return (
        f"{head} {iterations:>21} {median:>10} {time:9.3f} {time:9.3f} {mib:10.2f} {mib:10.2f} "
        f"{messages:11.0f} {messages:11.0f}"
    )


def main(words: list[str]) -> int:
    variables = {**os.environ, "GPUEMU_LINKS": ""}
    if "-t" not in words:  # the server, or a question
        os.execvpe(words[0], words, variables)
    size = int(words[words.index("-s") + 1])
    model = rate(os.environ.get("GPUEMU_LINKS", ""), os.environ["CUDA_VISIBLE_DEVICES"])
    done = subprocess.run(words, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    for line in done.stdout.splitlines():
        print(result(line, size, model) if model and line.startswith("Final:") else line)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
