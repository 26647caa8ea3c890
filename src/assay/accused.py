"""Problems that name the nodes at fault.

A diagnosis knows the nodes that it accuses. It gives them together with its line, and the record
keeps both. So no reader of a record searches a text for the names of nodes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec


class How(str, enum.Enum):
    """What shows that a node is at fault; the strongest evidence first."""

    #: The scheduler gives the node no job.
    OUT = "out of service"
    #: A program failed there, or the node did not answer.
    FAILED = "failed"
    #: It was measured several times and compared with the other nodes.
    SLOW = "slower than the others"
    #: Counters show that its link loses or damages data.
    LOSSY = "loses data"
    #: Its state is not that of the other nodes, or beyond a limit; or a counter moved in a run.
    DIFFERS = "differs"


class Against(str):
    """A problem in one line, with the nodes that it accuses.

    :param nodes: names of the nodes; two for a pair whose link or nodes are at fault.
    :param part: the part of the network that it accuses instead of nodes: ``switch leaf1``.
    """

    __slots__ = ("how", "nodes", "part")

    nodes: tuple[str, ...]
    how: How
    part: str

    def __new__(cls, line: str, nodes: Iterable[str], how: How, part: str = "") -> Against:
        said = super().__new__(cls, line)
        said.nodes, said.how, said.part = tuple(nodes), how, part
        return said

    def __reduce__(self) -> tuple[type[Against], tuple[str, tuple[str, ...], How, str]]:
        """What a copy of it is made from."""
        return Against, (str(self), self.nodes, self.how, self.part)


class Accusation(msgspec.Struct, frozen=True):
    """A problem of a case that accuses nodes or a part of the network."""

    nodes: tuple[str, ...] = ()
    how: str = ""
    problem: str = ""
    part: str = ""


def accusations(problems: Iterable[str]) -> tuple[Accusation, ...]:
    """The problems that accuse nodes or a part of the network, as the record keeps them."""
    return tuple(
        Accusation(one.nodes, one.how.value, str(one), one.part)
        for one in problems
        if isinstance(one, Against) and (one.nodes or one.part)
    )
