"""The words of a site: what it has, and what it promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Site:
    """The words that a site has, or promises.

    :ivar partitions: the features of each partition.
    :ivar environs: the names of its stacks.
    :ivar stacks: the programs of each stack.
    :ivar itself: whether the site describes itself, so that it has other words elsewhere.
    :ivar problems: probes of the machine that failed, one line each.
    """

    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    environs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    stacks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    itself: bool = False
    problems: tuple[str, ...] = ()

    def lacks(self, promised: Site) -> Iterator[str]:
        """What is promised and not there, one line each."""
        for kind, word in (("partitions", "word"), ("environs", "stack"), ("stacks", "word")):
            there = getattr(self, kind)
            for name, words in getattr(promised, kind).items():
                if lost := sorted(words - there.get(name, frozenset())):
                    yield f"{name} has not the promised {word} {', '.join(lost)}"
                elif name not in there and kind != "environs":
                    yield f"{name} is promised and not there"
