"""A process on an emulated GPU, driven by lines on its standard input: test_vgpu.py starts it.

``alloc``, ``fill``, ``export`` use memory of this process; ``open HEX`` and ``read`` that of
another; ``touch`` reads device memory by the CPU, which must kill the process.
"""

import ctypes
import os
import sys

SIZE = 4096


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Gpu:
    def __init__(self, library: str, number: int):
        self.cuda = ctypes.CDLL(library)
        self.at = ctypes.c_uint64()
        self.handle = Handle()
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise OSError(f"{name}: {code}")

    def alloc(self):
        self.call("cuMemAlloc_v2", ctypes.byref(self.at), ctypes.c_size_t(SIZE))
        return "done"

    def fill(self):
        self.call("cuMemsetD8_v2", self.at, ctypes.c_ubyte(0x5A), ctypes.c_size_t(SIZE))
        return "done"

    def export(self):
        self.call("cuIpcGetMemHandle", ctypes.byref(self.handle), self.at)
        return bytes(self.handle.bytes).hex()

    def open(self, text):
        self.handle.bytes[:] = bytes.fromhex(text)
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(self.at), self.handle, 1)
        return "done"

    def read(self):
        host = (ctypes.c_ubyte * SIZE)()
        length = ctypes.c_size_t(SIZE)
        self.call("cuMemcpyDtoH_v2", host, self.at, length)
        return f"{bytes(host).count(0x5A)}"

    def copy(self):
        """Into memory of this process, as UCX receives by CUDA IPC."""
        mine, length = ctypes.c_uint64(), ctypes.c_size_t(SIZE)
        self.call("cuMemAlloc_v2", ctypes.byref(mine), length)
        self.call("cuMemcpyDtoD_v2", mine, self.at, length)
        self.at = mine
        return "done"

    def version(self):
        """As UCX 1.18 asks whether a context is valid."""
        version = ctypes.c_uint()
        self.call("cuCtxGetApiVersion", None, ctypes.byref(version))
        return str(version.value)

    def touch(self):
        return ctypes.string_at(self.at.value, 1).hex()


def main():
    gpu = Gpu(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        name, *arguments = line.split()
        try:
            answer = getattr(gpu, name)(*arguments)
        except OSError as error:
            answer = str(error)
        os.write(1, f"{answer}\n".encode())


main()
