"""The problems of NPB 3.4: size and iterations of each class, and the operations that are counted.

Source: NPB 3.4.3, ``NPB3.4-MPI``: ``sys/setparams.c`` and ``IS/is.c`` have the classes. The main
file of each program has its count of operations, for example ``CG/cg.f90``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

#: Program on a cube of points -> class -> points in each direction, number of iterations.
CUBES: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "bt": {
        "S": (12, 60), "W": (24, 200), "A": (64, 200), "B": (102, 200), "C": (162, 200),
        "D": (408, 250), "E": (1020, 250), "F": (2560, 250),
    },
    "sp": {
        "S": (12, 100), "W": (36, 400), "A": (64, 400), "B": (102, 400), "C": (162, 400),
        "D": (408, 500), "E": (1020, 500), "F": (2560, 500),
    },
    "lu": {
        "S": (12, 50), "W": (33, 300), "A": (64, 250), "B": (102, 250), "C": (162, 250),
        "D": (408, 300), "E": (1020, 300), "F": (2560, 300),
    },
    "mg": {
        "S": (32, 4), "W": (128, 4), "A": (256, 4), "B": (256, 20), "C": (512, 20),
        "D": (1024, 50), "E": (2048, 50), "F": (4096, 50),
    },
}  # fmt: skip

#: FT: class -> points in each direction, number of iterations.
_FT = {
    "S": ((64, 64, 64), 6), "W": ((128, 128, 32), 6), "A": ((256, 256, 128), 6),
    "B": ((512, 256, 256), 20), "C": ((512, 512, 512), 20), "D": ((2048, 1024, 1024), 25),
    "E": ((4096, 2048, 2048), 25), "F": ((8192, 4096, 4096), 25),
}  # fmt: skip

#: CG: class -> order of the matrix, number of iterations, nonzeros of a row as NPB counts them.
_CG = {
    "S": (1400, 15, 7), "W": (7000, 15, 8), "A": (14000, 15, 11), "B": (75000, 75, 13),
    "C": (150000, 75, 15), "D": (1500000, 100, 21), "E": (9000000, 100, 26),
    "F": (54000000, 100, 31),
}  # fmt: skip

#: EP: class -> logarithm of the number of pairs. IS: class -> logarithm of the number of keys.
_EP = {"S": 24, "W": 25, "A": 28, "B": 30, "C": 32, "D": 36, "E": 40, "F": 44}
_IS = {"S": 16, "W": 20, "A": 23, "B": 25, "C": 27, "D": 31, "E": 35}
_IS_ITERATIONS = 10

#: The programs, by the beginning of their names.
KERNELS = ("bt", "cg", "ep", "ft", "is", "lu", "mg", "sp")


def problem(kernel: str, npb_class: str) -> tuple[tuple[int, ...], int] | None:
    """Size and iterations that a program prints for a class; None if it has no such class.

    EP says that it has 0 iterations.
    """
    if kernel in CUBES and npb_class in CUBES[kernel]:
        points, iterations = CUBES[kernel][npb_class]
        return (points,) * 3, iterations
    if kernel == "ft" and npb_class in _FT:
        return _FT[npb_class]
    if kernel == "cg" and npb_class in _CG:
        order, iterations, _ = _CG[npb_class]
        return (order,), iterations
    if kernel == "ep" and npb_class in _EP:
        return (2 ** (_EP[npb_class] + 1),), 0
    if kernel == "is" and npb_class in _IS:
        return (2 ** _IS[npb_class],), _IS_ITERATIONS
    return None


def operations(kernel: str, size: Sequence[int], iterations: int, npb_class: str) -> float | None:
    """The operations that a program counts; None if they do not follow from these numbers.

    :param size: as the program prints it, one number or three.
    """
    points, edge = float(math.prod(size)), sum(size) / len(size)
    if kernel == "bt":
        return iterations * (3478.8 * points - 17655.7 * edge**2 + 28023.7 * edge)
    if kernel == "sp":
        return iterations * (881.174 * points - 4683.91 * edge**2 + 11484.5 * edge - 19272.4)
    if kernel == "lu":
        return iterations * (1984.77 * points - 10923.3 * edge**2 + 27770.9 * edge - 144010.0)
    if kernel == "mg":
        return 58.0 * iterations * points
    if kernel == "ft" and points > 0:
        log = math.log(points)
        return points * (14.8157 + 7.19641 * log + (5.23518 + 7.21113 * log) * iterations)
    if kernel == "cg" and npb_class in _CG:
        nonzeros = _CG[npb_class][2]
        filled = nonzeros * (nonzeros + 1)
        return 2.0 * iterations * points * (3 + filled + 25 * (5 + filled) + 3)
    if kernel == "ep":
        return points
    if kernel == "is":
        return iterations * points
    return None
