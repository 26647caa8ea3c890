"""ReFrame loads tests in half the time if its warnings do not read source files.

For each test that it makes, ReFrame 4.10 looks for the stack frame of the user, to warn about a
variable of its own (``variables``). It then suppresses the warning. ``inspect.stack()`` reads the
source of every frame. With it, listing the suite took 2.8 s of processor time. With the frames
alone, listing takes 1.55 s (measured 2026-11-22). The frames alone are enough to find the user's.
"""

from __future__ import annotations

import sys
from types import FrameType, ModuleType, SimpleNamespace
from typing import NamedTuple

import reframe.core.warnings


class Level(NamedTuple):
    """The part of an element of ``inspect.stack()`` that ReFrame reads."""

    frame: FrameType


def stack() -> list[Level]:
    """The stack frames from the caller's frame upwards."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append(Level(frame))
        frame = frame.f_back
    return found


def getmodule(frame: FrameType) -> ModuleType | None:
    """The module whose code runs in `frame`."""
    return sys.modules.get(frame.f_globals.get("__name__", ""))


def install() -> None:
    """Makes ReFrame's warnings look only at frames."""
    reframe.core.warnings.inspect = SimpleNamespace(stack=stack, getmodule=getmodule)
