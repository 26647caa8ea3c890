"""Speaks to /dev/gdrdrv as libgdrapi does, without libgdrapi: test_vgpu_gdrdrv.py starts it.

``gdrdrv_client.py LIBCUDA LIBRARY SCENE [ARGUMENT]`` prints what each step of a scene gave. LIBRARY
is gdrdrv_library.c: the library that opens the device must map it, as libgdrapi does.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import sys

SIZE = 128 << 10
PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
library = ctypes.CDLL(sys.argv[2], use_errno=True)
library.its_mmap.restype = ctypes.c_void_p
FAILED = ctypes.c_void_p(-1).value
#: From src/gdrdrv/gdrdrv.h of gdrcopy 2.5: number -> format of the question. All but two give
#: _IOWR the type of a pointer.
FORMATS = {"UNPIN": (2, "Q"), "IS_FREED": (3, "QI4x"), "ABOUT": (5, "QQQIIQI4x"),
           "ATTRIBUTE": (6, "II"), "PIN": (1, "QQQI4xQ"), "PIN_V2": (7, "QQIIQ"),
           "MAP_AS": (8, "QI4x"), "VERSION": (255, "II"), "OTHER": (99, "Q")}  # fmt: skip


def said(result):
    """The name of the error, or the result."""
    return errno.errorcode[ctypes.get_errno()] if result in (-1, FAILED) else result


def ask(file, name, *words):
    """The words of the answer of ioctl, or the name of its error."""
    number, form = FORMATS[name]
    length = struct.calcsize(form) if name in ("PIN", "PIN_V2") else 8
    question = 3 << 30 | length << 16 | 0xDA << 8 | number
    given = words + (0,) * (len(struct.unpack(form, bytes(struct.calcsize(form)))) - len(words))
    buffer = ctypes.create_string_buffer(struct.pack(form, *given), struct.calcsize(form))
    result = libc.ioctl(file, ctypes.c_ulong(question), buffer)
    return said(result) if result else struct.unpack(form, buffer.raw)


def opened(function="open"):
    flags = os.O_RDWR | os.O_CLOEXEC
    folder = (-100,) if "at" in function else ()  # AT_FDCWD
    return said(getattr(library, f"its_{function}")(*folder, b"/dev/gdrdrv", flags))


def mapped(file, handle, length=SIZE):
    offset = ctypes.c_long(handle * PAGE)
    return said(library.its_mmap(None, ctypes.c_size_t(length), 3, 1, file, offset))


def unmapped(at):
    return said(library.its_munmap(ctypes.c_void_p(at), ctypes.c_size_t(SIZE)))


class Gpu:
    def __init__(self, library):
        self.cuda, self.at, context = ctypes.CDLL(library), ctypes.c_uint64(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuMemAlloc_v2", ctypes.byref(self.at), ctypes.c_size_t(SIZE))
        self.call("cuMemsetD8_v2", self.at, ctypes.c_ubyte(0x5A), ctypes.c_size_t(SIZE))

    def call(self, name, *arguments):
        assert getattr(self.cuda, name)(*arguments) == 0, name

    def free(self):
        self.call("cuMemFree_v2", self.at)

    def pinned(self, file):
        return ask(file, "PIN", self.at.value, SIZE)[-1]

    def bytes(self):
        host = ctypes.create_string_buffer(SIZE)
        self.call("cuMemcpyDtoH_v2", host, self.at, ctypes.c_size_t(SIZE))
        return host.raw


def copies(gpu, function):
    """Bytes go both ways through a mapping; what the driver says of the buffer on the way."""
    file = opened(function)
    print(fcntl.fcntl(file, fcntl.F_GETFD), ask(file, "VERSION"), ask(file, "ATTRIBUTE", 1)[1])
    *_, handle = ask(file, "PIN_V2", gpu.at.value, SIZE)
    print(ask(file, "ABOUT", handle)[-1], ask(file, "MAP_AS", handle) != -1)
    at = mapped(file, handle)
    print(ctypes.string_at(at, SIZE) == b"\x5a" * SIZE)
    ctypes.memset(at + PAGE, 0x33, PAGE)
    print(gpu.bytes() == b"\x5a" * PAGE + b"\x33" * PAGE + b"\x5a" * (SIZE - 2 * PAGE))
    _, address, size, page, *_, kind = ask(file, "ABOUT", handle)
    print(address == gpu.at.value, size == SIZE, page, kind)
    print(unmapped(at), ask(file, "ABOUT", handle)[-1], ask(file, "UNPIN", handle) != -1)
    print(ask(file, "UNPIN", handle), os.close(file))


def overwritten(gpu, when):
    """As `copies`, in a process where somebody overwrites the code of mmap and munmap."""
    if when == "before":
        assert library.overwrite() == 0
    else:
        os.close(opened())
        assert library.overwrite() == 0
    copies(gpu, "open")


def refusals(gpu):
    file = opened()
    host = ctypes.create_string_buffer(SIZE)
    print("host memory", ask(file, "PIN", ctypes.addressof(host), SIZE))
    print("nothing", ask(file, "PIN", gpu.at.value, 0))
    print("more than there is", ask(file, "PIN", gpu.at.value, 1 << 40))
    print("another bus", ask(file, "PIN_V2", gpu.at.value, SIZE, 1))
    print("another question", ask(file, "OTHER", gpu.pinned(file)))
    first, second = gpu.pinned(file), gpu.pinned(file)
    print("a cached mapping", ask(file, "MAP_AS", first, 2))
    print("another handle", mapped(file, 1 << 20))
    print("too long", mapped(file, first, SIZE + PAGE))
    mapped(file, first)
    print("twice", mapped(file, first))
    print("the second pin", mapped(file, second) > 0)
    *_, inside = ask(file, "PIN", gpu.at.value + PAGE, PAGE)
    print("an address within a page of the GPU", mapped(file, inside, PAGE))
    sys.stdout.flush()
    if os.fork() == 0:
        print("another process", ask(file, "VERSION"), mapped(file, second), flush=True)
        os._exit(0)
    os.wait()


def touches(gpu, after):
    """The CPU touches a mapping whose pages the driver has taken back."""
    file = opened()
    handle = gpu.pinned(file)
    at = mapped(file, handle)
    print(ask(file, "IS_FREED", handle)[1], flush=True)
    if after == "free":
        gpu.free()
        print(ask(file, "IS_FREED", handle)[1], mapped(file, handle), flush=True)
    else:
        ask(file, "UNPIN", handle)
    print(ctypes.string_at(at, 1), flush=True)


def faults(_):
    file = opened()
    print(file if isinstance(file, str) else ask(file, "VERSION")[0])


def others(_, folder):
    """What calls for other files give; the device is open, and was open under a reused number."""
    opened()
    closed = opened()
    if isinstance(closed, int):
        os.close(closed)
    path = f"{folder}/file".encode()
    os.umask(0)
    file = library.its_open(path, os.O_CREAT | os.O_RDWR, 0o640)
    os.write(file, b"a" * PAGE + b"b" * PAGE)
    print(oct(os.fstat(file).st_mode), ctypes.string_at(mapped(file, 1, PAGE), 1))
    print(ask(file, "VERSION"), ask(file, "PIN", 1 << 20, 1), ask(-1, "VERSION"))
    print(
        mapped(-1, 1, PAGE), said(library.its_open(path + b"x", 0)), said(library.its_open(None, 0))
    )
    unnamed = library.its_openat64(-100, folder.encode(), os.O_TMPFILE | os.O_RDWR, 0o600)
    print(oct(os.fstat(unnamed).st_mode), said(library.its_open64(b"/dev/gdrdr", 0)))
    memory = os.memfd_create("another")
    os.ftruncate(memory, SIZE)
    print(ask(memory, "VERSION"), ctypes.string_at(mapped(memory, 0), 1))
    ends, waiting = os.pipe(), ctypes.c_int()
    os.write(ends[1], b"abc")
    print(libc.ioctl(ends[0], 0x541B, ctypes.byref(waiting)), waiting.value)  # FIONREAD
    print(unmapped(mapped(file, 0)), unmapped(1))


def main():
    cuda, _, scene, *rest = sys.argv[1:]
    gpu = None if scene in ("faults", "others") else Gpu(cuda)
    globals()[scene](gpu, *rest)


main()
