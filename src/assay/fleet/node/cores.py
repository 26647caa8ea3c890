"""Measures every core of this node while all of them work; prints the rates as JSON.

``python3 cores.py SECONDS WINDOWS`` runs on one node, and needs numpy. A process on each core that
the job may use does the same at the same time:

===========  =======================================================================  =========
quantity     what each core does                                                      unit
===========  =======================================================================  =========
``dgemm``    multiplies matrices of order 256, which fit into its cache                GFLOP/s
``copy``     copies an array of BYTES into another; reads and writes count             GB/s
``latency``  follows a random cycle through an array of BYTES, each step by the        ns
             value of the last one; the time that the interpreter takes for a cycle
             within the cache is subtracted
===========  =======================================================================  =========

The output has `cores`: processor -> quantity -> one value for each window of SECONDS; `bytes`, the
size of an array; and `clock`: processor -> its clock in the middle of ``dgemm`` [MHz], where the
kernel says it.
"""

import json
import multiprocessing
import os
import sys
import time

import provenance

#: Variables that say how many threads a library of numpy starts.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")

#: Order of the matrices: 3 matrices of doubles take 1.5 MiB.
ORDER = 256

#: Largest size of an array [B], which is beyond the share of a core of any cache; and the share of
#: the free memory that all arrays may take.
BYTES, SHARE = 1 << 26, 0.25

#: Arrays of each core: two to copy, one for the cycle.
ARRAYS = 3

#: Size of a cycle that fits into the cache [B], and number of steps between two looks at the clock.
NEAR, STEPS = 1 << 13, 20000

QUANTITIES = ("dgemm", "copy", "latency")

CPU = "/sys/devices/system/cpu/cpu{}/"


def one_of_each_core(usable, siblings):
    """The first usable processor of each core.

    `siblings` tells of a processor the list of those on its core: ``0,64`` or ``0-1``; or nothing.
    """
    first = {}
    for cpu in sorted(usable):
        first.setdefault(siblings(cpu) or cpu, cpu)
    return sorted(first.values())


def size(free, cores):
    """Size of an array [B]: a power of two, so that equal nodes have equal arrays."""
    most = min(BYTES, free * SHARE / (ARRAYS * cores))
    return 1 << (int(most).bit_length() - 1)


def free_memory(found):
    """The free memory [B], of what :func:`capacity.memory` found, within the control groups."""
    if found["MemAvailable"] is None:
        sys.exit("/proc/meminfo does not say how much memory is free")
    return min(found["MemAvailable"], found["limit"])


def cycle(numpy, length, seed):
    """An array in which each element holds the place of the next one, in one random cycle."""
    order = numpy.random.default_rng(seed).permutation(length)
    found = numpy.empty(length, dtype=numpy.int64)
    found[order] = numpy.roll(order, -1)
    # memoryview reads an element several times faster than numpy does.
    return memoryview(found)


def walk(places, at):
    """Follows a cycle for :data:`STEPS` steps; returns where it ends and the time of a step [s]."""
    began = time.perf_counter()
    for _ in range(STEPS):
        at = places[at]
    return at, (time.perf_counter() - began) / STEPS


def kernels(numpy, bytes_):
    """Quantity -> a function that takes a duration [s] and gives a value.

    The arrays are written here, on the core that uses them, so they are in the memory near it.
    """
    chance = numpy.random.default_rng(1)
    a, b = chance.random((ORDER, ORDER)), chance.random((ORDER, ORDER))
    c = numpy.empty((ORDER, ORDER))
    source, target = numpy.ones(bytes_ // 8), numpy.zeros(bytes_ // 8)
    far, near = cycle(numpy, bytes_ // 8, 2), cycle(numpy, NEAR // 8, 3)
    at = {"far": 0, "near": 0}

    def repeat(work, seconds):
        """How often `work` is done in a second."""
        count, began = 0, time.perf_counter()
        while True:
            work()
            count += 1
            took = time.perf_counter() - began
            if took >= seconds:
                return count / took

    def latency(seconds):
        steps = {"far": [], "near": []}
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or not steps["far"]:
            for name, places in (("near", near), ("far", far)):
                at[name], step = walk(places, at[name])
                steps[name].append(step)
        # A step takes longer only if somebody disturbed it.
        far_step, near_step = (sorted(steps[n])[len(steps[n]) // 2] for n in ("far", "near"))
        return 1e9 * max(far_step - near_step, 1e-10)

    return {
        "dgemm": lambda s: repeat(lambda: numpy.matmul(a, b, out=c), s) * 2e-9 * ORDER**3,
        "copy": lambda s: repeat(lambda: numpy.copyto(target, source), s) * 2e-9 * bytes_,
        "latency": latency,
    }


def measure(found, seconds, windows, together):
    """All quantities of one core, each when all cores are ready for it.

    `found` has a function for each quantity, from :func:`kernels`.
    """
    measured = {}
    for quantity, kernel in found.items():
        kernel(seconds / 4)
        together()
        measured[quantity] = [float("%.4g" % kernel(seconds)) for _ in range(windows)]
    return measured


def clocks(cpus):
    """Processor -> its clock now [MHz]; empty if the kernel does not say it."""
    place = CPU + "cpufreq/scaling_cur_freq"
    said = {str(cpu): provenance.read(place.format(cpu)) or "" for cpu in cpus}
    return {cpu: int(kilohertz) / 1000 for cpu, kilohertz in said.items() if kilohertz.isdigit()}


def start(work, cpu):
    """Starts `work(cpu, together)` in a process; returns a connection, which has the result."""
    here, there = multiprocessing.Pipe()

    def run():
        here.close()  # so it sees the end of its parent
        there.send(work(cpu, lambda: (there.send("ready"), there.recv())))

    multiprocessing.get_context("fork").Process(target=run, name=f"cpu{cpu}", daemon=True).start()
    there.close()
    return here


def said(member, cpu):
    """What the process on a processor says next."""
    try:
        return member.recv()
    except EOFError:
        sys.exit(f"the process on cpu{cpu} ended")


def main(seconds, windows):
    """What the script prints."""
    # A process is a core; more threads would take the cores of others. numpy reads this once.
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        import numpy  # noqa: PLC0415
    except ImportError as error:
        sys.exit("{} of {} cannot measure: {}".format(sys.executable, os.uname().nodename, error))
    cpus = one_of_each_core(
        os.sched_getaffinity(0),
        lambda cpu: provenance.read(CPU.format(cpu) + "topology/thread_siblings_list"),
    )
    bytes_ = size(free_memory(provenance.capacity.memory()), len(cpus))

    def work(cpu, together):
        os.sched_setaffinity(0, {cpu})
        return measure(kernels(numpy, bytes_), seconds, windows, together)

    members = [start(work, cpu) for cpu in cpus]
    clock = {}
    for quantity in QUANTITIES:
        for member, cpu in zip(members, cpus):
            said(member, cpu)
        for member in members:
            member.send("go")
        if quantity == "dgemm":
            time.sleep(seconds * windows / 2)
            clock = clocks(cpus)
    found = {str(cpu): said(member, cpu) for member, cpu in zip(members, cpus)}
    return {"cores": found, "bytes": bytes_, "clock": clock}


if __name__ == "__main__":
    json.dump(main(float(sys.argv[1]), int(sys.argv[2])), sys.stdout)
    print()
