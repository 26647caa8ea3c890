"""Measures the copies of every GPU of this node: with the host, and with each other GPU.

``python3 gpus.py SIZE REPEATS`` runs on one node with the driver of NVIDIA, and needs nothing else.
SIZE is that of a copy [B]. One way after the other is measured, by the clock of the GPU (events)
and that of the host. A repeat is several copies of the same data; what its last copy left is
compared with what was sent.

A copy between two GPUs is a copy of the driver (cuMemcpyPeerAsync), started on the GPU that has the
data. Without access to each other's memory, the driver moves the bytes through the host.

The output is one JSON object on each line:

============  ====================================================================================
line          keys
============  ====================================================================================
``program``   the first line: `version` of this form, `size` [B], `repeats`, `gpus` (how many),
              `cuda` (the version of the interface that the driver has, 12090 is 12.9)
``gpu``       the number of a GPU: its `name`, `uuid`, `bus` (PCI), `driver` (version, as nvidia-smi
              prints it), and `near`: whether the memory of the host was near it
              (``yes``, ``no``, ``unknown``)
``smi``       what nvidia-smi prints of GPUs and topology: ``gpu/parse/nvidia_smi.py`` has the form
``next``      the numbers of the GPUs `from` and `to` of the way that is measured now (null is the
              host). If the output ends here, this way did not end
``copy``      ``h2d``, ``d2h`` or ``d2d``: the numbers of the GPUs `from` and `to` (null is the
              host), `access` (whether `from` may access the memory of `to`), `copies` of each
              repeat, `gpu_seconds` and `host_seconds` of each repeat, and `wrong_at`, the first
              byte that arrived wrong, or null. The data of `d2d` and `d2h` is what the last
              ``h2d`` to `from` left there
``end``       the last line
============  ====================================================================================
"""

import contextlib
import ctypes
import json
import os
import sys
import time
from uuid import UUID

# Scripts of the core are in a folder of their own.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../node"))

import answers
import lists

FORM = 1

#: The copies of one repeat take about this long together or longer [s], unless so many copies are
#: shorter than that. Trials find their number, so a repeat may be a little shorter.
SECONDS, MOST = 0.005, 64

#: Part of the pattern that is drawn by chance [B], and how far two parts are shifted.
PART, SHIFT = 1 << 16, 4099

#: How long nvidia-smi may take [s]. A GPU that was lost can hang it.
PATIENCE = 60

#: What nvidia-smi is asked for, after the head that names the part.
QUESTIONS = (
    ("[gpu uuid,pci.bus_id]", "--query-gpu=uuid,pci.bus_id", "--format=csv,noheader"),
    ("[topology]", "topo", "-m"),
)

LIBRARY = "libcuda.so.1"

#: Numbers of the driver's interface (cuda.h): attributes of a device, flag of host memory.
BUS, DEVICE, DOMAIN, PORTABLE = 33, 34, 50, 1


class Failure(Exception):
    """A call of the driver failed."""


class Driver:
    """The driver's library: each call raises :class:`Failure` unless it returns 0."""

    def __init__(self):
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise Failure("{}: {}".format(LIBRARY, error)) from None

    def call(self, name, *arguments):
        function = getattr(self._library, name, None)
        if function is None:
            raise Failure("{} has no {}".format(LIBRARY, name))
        code = function(*arguments)
        if code:
            raise Failure("{}: {} ({})".format(name, self._name(code), code))

    def _name(self, code):
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        return (text.value or b"unknown error").decode()

    def made(self, kind, name, *arguments):
        """The value of the type `kind` that a function writes to its first argument."""
        value = kind()
        self.call(name, ctypes.byref(value), *arguments)
        return value


class Gpu:
    """A GPU with its context, a buffer that is sent and one that receives, on both sides."""

    def __init__(self, driver, number, size):
        self.number, self._driver, self._size = number, driver, size
        self.device = driver.made(ctypes.c_int, "cuDeviceGet", number)
        name, uuid = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
        driver.call("cuDeviceGetName", name, 256, self.device)
        driver.call("cuDeviceGetUuid", uuid, self.device)
        of_bus = [
            driver.made(ctypes.c_int, "cuDeviceGetAttribute", which, self.device).value
            for which in (DOMAIN, BUS, DEVICE)
        ]
        self.name, self.uuid = name.value.decode(), "GPU-{}".format(UUID(bytes=uuid.raw))
        self.bus = "{:08X}:{:02X}:{:02X}.0".format(*of_bus)
        self.path = "/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0".format(*of_bus)

    def __str__(self):
        return "GPU {} ({}, {}, {})".format(self.number, self.name, self.uuid, self.bus)

    def prepare(self):
        """Makes context, stream, events and buffers; fills the buffers that are sent."""
        made, size = self._driver.made, ctypes.c_size_t(self._size)
        self.context = made(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", self.device)
        self.use()
        if made(ctypes.c_int, "cuCtxGetDevice").value != self.device.value:
            raise Failure("the driver gave the context of another GPU")
        self.stream = made(ctypes.c_void_p, "cuStreamCreate", 1)
        self.events = [made(ctypes.c_void_p, "cuEventCreate", 0) for _ in range(2)]
        self.sent, self.received = (made(ctypes.c_uint64, "cuMemAlloc_v2", size) for _ in range(2))
        with near(self.path) as self.near:
            self.pattern, self.back = (
                made(ctypes.c_void_p, "cuMemHostAlloc", size, PORTABLE) for _ in range(2)
            )
            fill(self.pattern.value, self._size)
            ctypes.memset(self.back, 0, self._size)

    def use(self):
        """Makes its context the current one."""
        self._driver.call("cuCtxSetCurrent", self.context)


@contextlib.contextmanager
def near(path):
    """Runs a block on processors near a device of the PCI bus, where this process may use some.

    Memory that is first used in the block is near the device, too. Gives ``yes``, ``no`` or
    ``unknown``.
    """
    usable = os.sched_getaffinity(0)
    close = lists.numbers(answers.read(path + "/local_cpulist") or "")
    if not close & usable:
        yield "no" if close else "unknown"
        return
    os.sched_setaffinity(0, close & usable)
    try:
        yield "yes"
    finally:
        os.sched_setaffinity(0, usable)


def fill(address, size):
    """Writes a pattern by chance, no two parts of it alike: a part at a wrong place is seen."""
    chance = os.urandom(2 * PART)
    there = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
    for number, at in enumerate(range(0, size, PART)):
        shift = number * SHIFT % PART
        length = min(PART, size - at)
        there[at : at + length] = chance[shift : shift + length]


def first_difference(one, other, size):
    """The first byte in which two buffers differ, by their addresses; None if they are equal."""
    differ = ctypes.CDLL(None).memcmp
    differ.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    if not differ(one, other, size):
        return None
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if differ(one + low, other + low, middle - low):
            high = middle
        else:
            low = middle
    return low


class Measurement:
    """The copies of one way: `copy` starts one on the stream of `gpu`.

    `spoil` overwrites what arrived; `arrived` gives the first wrong byte, or None.
    """

    def __init__(self, driver, gpu, copy, spoil, arrived):
        self._driver, self._gpu = driver, gpu
        self._copy, self._spoil, self._arrived = copy, spoil, arrived

    def _timed(self, copies):
        """Time of so many copies by the GPU and by the host [s]."""
        call, (begin, end), stream = self._driver.call, self._gpu.events, self._gpu.stream
        self._spoil()
        self._gpu.use()
        before = time.perf_counter()
        call("cuEventRecord", begin, stream)
        for _ in range(copies):
            self._copy()
        call("cuEventRecord", end, stream)
        call("cuEventSynchronize", end)
        host = time.perf_counter() - before
        return self._driver.made(ctypes.c_float, "cuEventElapsedTime", begin, end).value / 1e3, host

    def _enough(self):
        """How many copies make a repeat that is long enough.

        The first copy of a way is not counted: the driver may set up the way during it.
        """
        self._timed(1)
        copies = 1
        while copies < MOST:
            seconds = max(self._timed(copies)[0], 1e-9)
            if seconds >= SECONDS:
                break
            copies = min(MOST, max(copies + 1, int(copies * SECONDS / seconds) + 1))
        return copies

    def run(self, repeats):
        """The keys of a line that a measurement gives."""
        copies = self._enough()
        by_gpu, by_host, wrong = [], [], None
        for _ in range(repeats):
            gpu, host = self._timed(copies)
            by_gpu.append(float("%.6g" % gpu))
            by_host.append(float("%.6g" % host))
            at = self._arrived()
            wrong = at if wrong is None else wrong
        return {"copies": copies, "gpu_seconds": by_gpu, "host_seconds": by_host, "wrong_at": wrong}


def with_host(driver, gpu, size, repeats):
    """The lines of the copies between a GPU and the memory of the host."""
    length, call = ctypes.c_size_t(size), driver.call

    def spoil_device():
        gpu.use()
        call("cuMemsetD8_v2", gpu.sent, ctypes.c_ubyte(0x5A), length)
        call("cuCtxSynchronize")

    def spoil_host():
        ctypes.memset(gpu.back, 0xA5, size)

    def to_device():
        call("cuMemcpyHtoDAsync_v2", gpu.sent, gpu.pattern, length, gpu.stream)

    def to_host():
        call("cuMemcpyDtoHAsync_v2", gpu.back, gpu.sent, length, gpu.stream)

    def came_back():
        return first_difference(gpu.back.value, gpu.pattern.value, size)

    def arrived():
        spoil_host()
        call("cuMemcpyDtoH_v2", gpu.back, gpu.sent, length)
        return came_back()

    def way(kind, source, target, *how):
        yield {"next": [source, target]}
        line = {"copy": kind, "from": source, "to": target, "access": True}
        yield dict(line, **Measurement(driver, gpu, *how).run(repeats))

    yield from way("h2d", None, gpu.number, to_device, spoil_device, arrived)
    yield from way("d2h", gpu.number, None, to_host, spoil_host, came_back)


def between(driver, source, target, size, repeats):
    """The line of the copies from a GPU to another one."""
    length, call = ctypes.c_size_t(size), driver.call
    can = driver.made(ctypes.c_int, "cuDeviceCanAccessPeer", source.device, target.device).value
    if can:
        source.use()
        call("cuCtxEnablePeerAccess", target.context, 0)

    def spoil():
        target.use()
        call("cuMemsetD8_v2", target.received, ctypes.c_ubyte(0x5A), length)
        call("cuCtxSynchronize")

    def copy():
        call(
            "cuMemcpyPeerAsync", target.received, target.context, source.sent, source.context,
            length, source.stream,
        )  # fmt: skip

    def arrived():
        ctypes.memset(target.back, 0xA5, size)
        target.use()
        call("cuMemcpyDtoH_v2", target.back, target.received, length)
        return first_difference(target.back.value, source.pattern.value, size)

    measured = Measurement(driver, source, copy, spoil, arrived).run(repeats)
    if can:
        source.use()
        call("cuCtxDisablePeerAccess", target.context)
    return {
        "copy": "d2d", "from": source.number, "to": target.number, "access": bool(can), **measured
    }  # fmt: skip


def smi(*words):
    """What nvidia-smi prints; empty if it does not answer."""
    with contextlib.suppress(OSError):
        return answers.bounded(["nvidia-smi", *words], PATIENCE)[1].decode(errors="replace")
    return ""


def versions():
    """UUID -> version of the driver."""
    lines = smi("--query-gpu=uuid,driver_version", "--format=csv,noheader").splitlines()
    return dict(line.split(", ", 1) for line in lines if ", " in line)


def measure(size, repeats):
    """The lines of the output. The GPUs are in the order of the PCI bus."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    driver = Driver()
    driver.call("cuInit", 0)
    number = driver.made(ctypes.c_int, "cuDeviceGetCount").value
    cuda = driver.made(ctypes.c_int, "cuDriverGetVersion").value
    yield {
        "program": "each_gpu", "version": FORM, "size": size, "repeats": repeats,
        "gpus": number, "cuda": cuda,
    }  # fmt: skip
    known, gpus = versions(), [Gpu(driver, each, size) for each in range(number)]
    for gpu in gpus:
        with named(gpu):
            gpu.prepare()
        yield {
            "gpu": gpu.number, "name": gpu.name, "uuid": gpu.uuid, "bus": gpu.bus,
            "driver": known.get(gpu.uuid, "unknown"), "near": gpu.near,
        }  # fmt: skip
    yield {"smi": "".join("{}\n{}\n".format(head, smi(*words)) for head, *words in QUESTIONS)}
    for gpu in gpus:
        with named(gpu):
            yield from with_host(driver, gpu, size, repeats)
    for source in gpus:
        for target in gpus:
            if source is not target:
                yield {"next": [source.number, target.number]}
                with named(source, target):
                    yield between(driver, source, target, size, repeats)
    yield {"end": True}


@contextlib.contextmanager
def named(*gpus):
    """Names the GPUs in a failure of the block."""
    try:
        yield
    except Failure as error:
        raise Failure("{}: {}".format(" -> ".join(map(str, gpus)), error)) from None


def main(size, repeats):
    """Prints the lines as they come."""
    try:
        for line in measure(size, repeats):
            print(json.dumps(line), flush=True)
    except Failure as error:
        sys.exit("{}: {}".format(os.uname().nodename, error))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
