"""ucx_perftest between each pair of GPUs of a node: it names the pair whose link is slow.

Not yet run on hardware. UcxGpu and OSU measure the first GPUs that a job sees. A link that lost
half of its lanes may join two others.
"""

import itertools
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.accused import Against, How
from assay.checks import StrictCheck, pair, perftest
from assay.checks.gpu import GpuMixin
from assay.checks.ucx import text
from assay.evidence import gpu_pairs, gpu_paths, gpu_places
from assay.evidence.gpu_ipc import Sent
from assay.evidence.launch import REFUSED_FILE
from assay.outputs import Parsed, ParseError, ucx_log, ucx_perftest

SIZE = 16 << 20
ITERATIONS = 20

#: The script that measures the pairs, each in a directory of its own: pair-0-1.
SCRIPT = "gpu-pairs.sh"


@rfm.simple_test
class GpuPairs(GpuMixin, StrictCheck):
    """Bandwidth between each pair of GPUs of a node; the metric is that of the slowest pair."""

    # gdrcopy makes no difference to messages of this size.
    configuration = parameter(["no-gdrcopy"])
    kind = "network"
    time_limit = "10m"
    tags = {"smoke", "network", "gpu"}
    valid_systems = ["+gpu +intra-node"]
    built = "ucx"
    declares = {"bandwidth_16MiB": "MB/s"}
    keep_files = ["pair-*"]
    judges_itself = True

    @run_after("init")
    def declare(self):
        self.descr = f"ucx_perftest tag_bw, {SIZE} B, each pair of GPUs, {self.configuration}"
        self.on_stacks_with("ucx-perftest")

    @property
    def way(self):
        return gpu_paths.Way(self.configuration, gpu_paths.INTRA, self.accelerator)

    @run_after("setup")
    def take_them_all(self):
        self.number = self.gpus_of_a_node()
        self.leave_out("too-small", self.number < 2, "a pair needs 2 GPUs")
        self.take_gpus(self.number)
        self.pairs = list(itertools.combinations(range(self.number), 2))

    @run_before("run")
    def command(self):
        self.choose_the_path()
        visible, memory = self.accelerator.visible, self.accelerator.word
        client = perftest.client("tag_bw", SIZE, ITERATIONS, "-m", f"{memory},{memory}")
        lines = [
            "assay_stage=$PWD failed=0 number=0",
            f"all=${visible}",
            f"for pair in {' '.join(f'{a}-{b}' for a, b in self.pairs)}; do",
            'mkdir "pair-$pair" && cd "pair-$pair" || exit 1',
            "number=$((number + 1))",
            "first=$((${pair%-*} + 1)) second=$((${pair#*-} + 1))",
            f'export {visible}=$(echo "$all" | cut -d , -f "$first,$second")',
            'export UCX_LOG_FILE="../ucx.$pair.%h.%p.log"',
            *perftest.server(self.near_cores(), "port=$((port + number))"),
            f"{perftest.COMMAND} {' '.join(client)} >client.out 2>client.err",
            "assay_rc=$?",
            *pair.END_OF_SERVER,
            '[ "$assay_rc" -eq 0 ] || failed=$assay_rc',
            "cd ..",
            "done",
            'exit "$failed"',
        ]
        (Path(self.stagedir) / SCRIPT).write_text("\n".join(lines) + "\n")
        self.executable, self.executable_opts = "sh", [SCRIPT]
        self.prerun_cmds += self.accelerator.restricted(self.number, REFUSED_FILE)

    def read(self):
        rows, problems, complete, version = [], [], True, None
        for a, b in self.pairs:
            folder = Path(f"pair-{a}-{b}")
            said = text(folder / pair.SERVER_FILE) + text(folder / "client.out")
            try:
                one = ucx_perftest.parse(said)
            except ParseError as error:
                raise ParseError(f"GPUs {a} and {b}: {error}") from None
            problems += [f"GPUs {a} and {b}: {problem}" for problem in one.problems]
            problems += [
                f"GPUs {a} and {b}: the buffers were in {memory or 'no known'} memory"
                for memory in {one.facts.get("send_memory"), one.facts.get("recv_memory")}
                if memory != self.accelerator.word
            ]
            complete, version = complete and one.complete, one.version
            rows += [{"pair": f"{a}-{b}", **row} for row in one.rows]
        units = {"iterations": "1", "bandwidth": "MB/s"}
        rows = [{key: row[key] for key in ("pair", *units)} for row in rows]
        return Parsed(
            "ucx-perftest", "ucx_perftest", version, complete, tuple(rows), units, tuple(problems)
        )

    def requested(self):
        return {"iterations": ITERATIONS}

    def examine(self, parsed):
        problems = super().examine(parsed)
        before, _ = self._readings
        self.on_node = {}
        for a, b in self.pairs:
            logs = sorted(Path().glob(f"ucx.{a}-{b}.*.log"))
            log = ucx_log.parse("".join(map(text, logs)))
            version = self.ucx_version()
            proof = gpu_paths.prove(self.way, log, Sent("Dd", (SIZE,)), version, processes=2)
            files = sorted(Path(f"pair-{a}-{b}").glob(gpu_places.FILES))
            taken = [one for path in files if (one := gpu_places.parse(text(path)))]
            # A job may see other numbers than the node.
            there = [gpu.number for one in taken if (gpu := before.named(one.uuid))]
            self.on_node[a, b] = tuple(there) if len(there) == 2 else (a, b)
            found = [
                *proof.problems, *gpu_places.together(self.accelerator, log, 2),
                *gpu_places.shared(taken), *gpu_places.far(before, taken),
            ]  # fmt: skip
            problems += [f"GPUs {a} and {b}: {problem}" for problem in found]
        return problems

    def accused(self, parsed):
        before, _ = self._readings
        pairs, rates = self.on_node.values(), parsed.column("bandwidth")
        if not parsed.complete:
            return []
        slow = gpu_pairs.slow(dict(zip(pairs, rates)), before)
        return [Against(problem, self.hosts, How.SLOW) for problem in slow]

    def measure(self, parsed):
        return {"bandwidth_16MiB": min(parsed.column("bandwidth"))}

    def peaks(self, parsed):
        return self.link_peaks(self.declares)
