"""Two groups of nodes with a link between them: which node is in which, and what the link can do.

A site describes the link in the extra ``between`` of a partition with the feature ``across``:

    between:
      groups: {east: "node[01-02]", west: "node[03-04]"}    # features of Slurm -> their nodes
      bandwidth: 25                                         # in one direction [MB/s]
      latency: 145                                          # one way [us]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Annotated, Any

import msgspec
from reframe.utility import nodelist_expand

from assay import files
from assay.prove.launch import short_name

Above0 = Annotated[float, msgspec.Meta(gt=0, lt=1e12)]


class Between(msgspec.Struct, forbid_unknown_fields=True):
    """The link has groups, two, each with the list of its nodes, bandwidth and latency.

    :ivar groups: name of each group -> the names of its nodes.
    :ivar bandwidth: of all its traffic in one direction [MB/s].
    :ivar latency: one way, from node to node [us].
    """

    groups: Annotated[dict[str, Any], msgspec.Meta(min_length=2, max_length=2)]
    bandwidth: Above0
    latency: Above0

    def __post_init__(self) -> None:
        self.groups = {name: _nodes(name, said) for name, said in self.groups.items()}
        first, second = self.groups.values()
        if both := sorted({*first} & {*second}):
            raise ValueError(f"groups: {both[0]} is in both groups")

    def group_of(self, host: str) -> str:
        """The group of a node, by its short name; "" if it is in none."""
        name = short_name(host)
        return next((group for group, nodes in self.groups.items() if name in nodes), "")

    def halves(self, nodes: int) -> list[str]:
        """Options of Slurm by which half of the nodes of a job are in each group.

        :raises ValueError: there are no such halves.
        """
        half = nodes // 2
        if nodes % 2:
            raise ValueError(f"{nodes} nodes are needed, which are not half on each side")
        for group, there in self.groups.items():
            if half > len(there):
                raise ValueError(f"{half} nodes are needed in {group}, which has {len(there)}")
        return [f"--constraint=[{'&'.join(f'{group}*{half}' for group in self.groups)}]"]

    def astray(self, hosts: Collection[str]) -> list[str]:
        """Problems if the hosts of a run are not half on each side, one line each."""
        names = {short_name(host) for host in hosts}
        found = Counter(dict.fromkeys(self.groups, 0))
        found.update(self.group_of(name) for name in names)
        if unknown := sorted(name for name in names if not self.group_of(name)):
            why = "the site's assay.yaml names the nodes of each group"
            return [f"{', '.join(unknown)}: in no group of the extra `between`; {why}"]
        if len(set(found.values())) == 1:
            return []
        there = ", ".join(f"{number} in {group}" for group, number in found.items())
        return [f"the nodes are not half on each side of the link: {there}"]


def parse_groups(raw: Any) -> Between:
    """The extra ``between`` of a partition.

    :raises ValueError: it is not such a description; the message names the key and the fix.
    """
    if fault := files.misshapen(raw, Between):
        raise ValueError(fault)
    return msgspec.convert(raw, Between)


def _nodes(group: object, said: object) -> tuple[str, ...]:
    """The nodes of a group.

    :raises ValueError: what the site says of them is no list of nodes as Slurm writes it.
    """
    try:
        if nodes := tuple(nodelist_expand(said)) if isinstance(said, str) else ():
            return nodes
    except ValueError:
        pass
    mend = 'write "node[01-02]", or "node01,node02"'
    raise ValueError(f"groups: {group}: {said!r} is no list of nodes; {mend}")
