"""Names, addresses and places of the emulated cluster, on which all other modules agree.

A cluster is named after its directory, :data:`STATE`. Several clusters can be up at the same time.
Everything created outside of that directory carries the name. ``down`` therefore finds it without
any record of how far a start had come.
"""

import dataclasses
import hashlib
import json
import os
import pwd
import re
import sys
from pathlib import Path

USUAL = Path("/var/tmp/assay-vcluster")  # noqa: S108
STATE = Path(os.environ.get("ASSAY_VCLUSTER", USUAL))
CHECKOUT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


def name_of(state):
    """Name of the cluster whose directory is `state`.

    Two directories can have the same last part, so the name of any but the usual one also has a
    digest of the whole path. Otherwise `down` of one cluster would end the other.
    """
    if state == USUAL:
        return state.name
    return f"{state.name}-{hashlib.sha256(bytes(state)).hexdigest()[:6]}"


#: Name of the cluster. Its control group has this name, and its network namespaces begin with it.
NAME = name_of(STATE)

#: The file system of each node, and the one that all nodes share.
SCRATCH = STATE / "scratch"
SHARED = STATE / "shared"

#: Where all machines mount a parallel file system, if the cluster has one.
GLUSTER = STATE / "glusterfs"

#: The cluster's control group as a machine sees it. lab/sites/vcluster reads the file in it.
ACCOUNT = STATE / "account"

#: Size of a node's XFS image. mkfs.xfs makes none below 300 MiB.
DISK_MIB = 512


class Refusal(Exception):
    """One line for the user: what is wrong, and what to do."""


@dataclasses.dataclass(frozen=True)
class Link:
    """One node's link to the switch.

    :ivar rate: in the words of tc, each direction.
    :ivar delay: by which each arriving packet is held [us].
    :ivar loss: share of arriving TCP packets that are dropped.
    :ivar peers: host -> delay [us] of packets from that host only.
    :ivar rail_rate: of the second rail, in the words of tc; empty: that of a healthy link.
    """

    rate: str = "1gbit"
    delay: int = 100
    loss: float = 0.0
    peers: dict = dataclasses.field(default_factory=dict)
    rail_rate: str = ""


#: Names of the two groups of `up --groups 2`: features of Slurm, and the ends of their bridges.
GROUPS = ("east", "west")

#: Names of the two switches of `up --switches 2`, as Slurm's topology has them.
SWITCHES = ("s1", "s2")

#: Factors of tc's units of a rate.
_UNITS = {"bit": 0.125, "bps": 1.0}
_PREFIXES = {"": 1e0, "k": 1e3, "m": 1e6, "g": 1e9}


def megabytes(rate):
    """A rate in the words of tc, such as 900mbit, in MB/s.

    :raises Refusal: it is not a rate.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)(bit|bps)", rate)
    if not match or not float(match[1]):
        raise Refusal(f"{rate!r} is not a rate of tc; write it like 900mbit")
    return float(match[1]) * _PREFIXES[match[2]] * _UNITS[match[3]] / 1e6


@dataclasses.dataclass(frozen=True)
class Between:
    """The link between two groups of nodes, which all traffic between them shares.

    :ivar rate: in the words of tc, each direction.
    :ivar delay: by which it delays a packet, beside the links of both nodes [us].
    :ivar bandwidth: the rate in MB/s.
    """

    rate: str = "500mbit"
    delay: int = 145
    bandwidth: float = 62.5

    @classmethod
    def parse(cls, text):
        """Reads ``delay=145us,rate=500mbit``; either part may be missing.

        :raises Refusal: it is not such a text.
        """
        words = dict(word.partition("=")[::2] for word in text.split(",") if word)
        delay = re.fullmatch(r"(\d+)us", words.pop("delay", f"{cls.delay}us"))
        rate = words.pop("rate", cls.rate)
        if words or not delay:
            raise Refusal(f"--between {text!r}: write it like delay=145us,rate=500mbit")
        return cls(rate, int(delay[1]), megabytes(rate))


@dataclasses.dataclass
class Cluster:
    """The arguments of ``up``, kept in ``cluster.json`` while the cluster is up.

    :ivar kernel: path of the kernel that each node runs; empty if nodes are namespaces.
    :ivar gpus: emulated GPUs of each node.
    :ivar shared: the parallel file system over the nodes, `glusterfs`; empty if there is none.
    :ivar between: the link between the two groups of nodes; None if there is one group.
    :ivar switches: 1, or 2 with half of the nodes each and a trunk between them.
    :ivar machines: what a node is, `namespace`, `uml` or `vm`.
    :ivar rails: network devices of a node with a kernel: eth0 and rxe0, eth1 and rxe1...
    :ivar cores: ranks that a test between nodes starts on each node; they share the host's cores.
    """

    nodes: int
    user: str
    uid: int
    gid: int
    accounting: bool
    link: Link
    expose: list
    kernel: str = ""
    gpus: int = 0
    shared: str = ""
    between: Between = None
    switches: int = 1
    machines: str = "namespace"
    rails: int = 1
    cores: int = 1

    def __post_init__(self):
        if self.switches == 2:
            if self.nodes % 2 or self.nodes < 4:
                raise Refusal(
                    f"two switches need an even number of nodes, at least 4, not {self.nodes}"
                )
            if self.between or self.kernel:
                raise Refusal(
                    "two switches are for one group of nodes that are namespaces: leave out "
                    "--groups and --machines"
                )
        if self.cores > 1 and self.kernel:
            raise Refusal("--cores is for nodes that are namespaces: leave it out")
        if self.rails > 2 and self.machines != "vm":
            raise Refusal(f"--rails {self.rails} is for virtual machines: add --machines vm")
        if self.rails > 1 and not self.kernel:
            raise Refusal("rails are for nodes with a kernel of their own: add --machines uml")
        if self.between and (self.nodes % 2 or self.nodes < 4):
            raise Refusal(f"two groups need an even number of nodes, at least 4, not {self.nodes}")
        if self.between and self.kernel:
            raise Refusal("groups are for nodes that are namespaces: leave out --groups")

    def group(self, name):
        """0 or 1: the group of a machine. The login machine is in the first one."""
        return int(bool(self.between) and self.number(name) > self.nodes // 2)

    def side(self, name):
        """0 or 1: the bridge of a machine. The login machine is on the first one."""
        apart = self.between or self.switches == 2
        return int(bool(apart) and self.number(name) > self.nodes // 2)

    def on_switch(self, switch):
        """The nodes on a switch. An unknown switch is refused.

        :param switch: a name of :data:`SWITCHES`.
        """
        if self.switches < 2 or switch not in SWITCHES:
            there = ", ".join(SWITCHES) if self.switches == 2 else "only one: up --switches 2"
            raise Refusal(f"no switch {switch!r}; there are {there}")
        at = SWITCHES.index(switch)
        return [name for name in self.node_names if self.side(name) == at]

    def healthy(self, name):
        """The link of a node without faults. The link between the groups delays what it receives.

        That of all others is :attr:`link`.
        """
        far = [peer for peer in self.node_names if self.group(peer) != self.group(name)]
        return dataclasses.replace(
            self.link, peers=dict.fromkeys(far, self.link.delay + self.between.delay if far else 0)
        )

    @property
    def patience(self):
        """How many times longer a step may take. A virtual machine is emulated by software."""
        return 6 if self.machines == "vm" else 1

    @property
    def node_names(self):
        return [f"node{number:02d}" for number in range(1, self.nodes + 1)]

    @property
    def names(self):
        return ["login", *self.node_names]

    @property
    def networks(self):
        """Number of networks of the nodes: the rails of virtual machines share one."""
        return 1 if self.machines == "vm" else self.rails

    def address(self, name, rail=0):
        """The IPv4 address of a machine in 10.77.0.0/16; on the second rail in 10.78.0.0/16."""
        number = self.number(name)
        return f"10.{77 + rail}.{number // 250}.{number % 250 + 1}"

    def number(self, name):
        """1 for the first node, 0 for the login machine."""
        return self.names.index(name)

    def has_kernel(self, name):
        """Whether a machine runs a kernel of its own."""
        return bool(self.kernel) and name != "login"

    def node(self, name):
        """Returns `name`. An unknown name is refused with the list of nodes."""
        if name in self.node_names:
            return name
        raise Refusal(f"no node {name!r}; there are {', '.join(self.node_names)}")

    def save(self):
        path = STATE / "cluster.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        partial.replace(path)

    @classmethod
    def load(cls):
        try:
            found = json.loads((STATE / "cluster.json").read_text())
        except FileNotFoundError:
            raise Refusal("the cluster is not up; type: lab/vcluster/vcluster up") from None
        found["link"] = Link(**found["link"])
        if found.get("between"):
            found["between"] = Between(**found["between"])
        found.setdefault("machines", "uml" if found.get("kernel") else "namespace")
        return cls(**found)


def namespace(name):
    """Network namespace of a machine."""
    return f"{NAME}.{name}"


#: The namespace that holds the bridge.
SWITCH = namespace("switch")


def port(name, rail=0):
    """The switch's end of a machine's link."""
    return f"{'pr'[rail]}-{name}"


def ordinary_user():
    """Name, uid and gid of the user that runs jobs: the caller of sudo, or a user of our own."""
    caller = os.environ.get("SUDO_UID")
    if caller and caller != "0":
        found = pwd.getpwuid(int(caller))
        return found.pw_name, found.pw_uid, found.pw_gid
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    uid = next(number for number in range(2000, 60000) if number not in taken)
    return "assay", uid, uid


def say(text):
    print(f"vcluster: {text}", file=sys.stderr, flush=True)
