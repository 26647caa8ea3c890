"""Which provider of libfabric carried the data of a server and a client, by libfabric's own log.

The log (FI_LOG_LEVEL=info) names the provider of an opened fabric, with its version ("Using tcp
provider 1.21": src/fabric.c, not yet in 1.20), and each of a layered one such as ``tcp;ofi_rxm``.
It does not tell whether shm copies through its own segment or by CMA (process_vm_readv).

Seen with libfabric 1.21.0 and 2.5.1 over tcp and shm. Other providers are not yet run on hardware.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Providers that tests use on every machine.
PROVIDERS = ("tcp", "shm")

_OPENED = re.compile(
    r"^libfabric:\d+:\d+:\S*:core:core:fi_fabric_\(\):\d+<info> Using (\S+) provider (\d+\.\d+),",
    re.MULTILINE,
)
_PEER = re.compile(
    r"^libfabric:\d+:\d+:\S*:(\w+):av:ofi_av_insert_addr\(\):\d+<info> fi_addr: ", re.MULTILINE
)
_WARNING = re.compile(r"^libfabric:\d+:\d+:\S*:\S+:\S+\(\):\d+<warn> (.*)", re.MULTILINE)


def provider_variables(provider: str) -> dict[str, str]:
    """Variables that allow libfabric only this provider, and make it say what it opened."""
    return {"FI_PROVIDER": provider, "FI_LOG_LEVEL": "info"}


def prove_provider(provider: str, logs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Whether all processes used this provider and no other.

    :param logs: standard error of each process of one launch.
    :returns: the providers that the processes opened, with their versions; what is wrong or
        unproven, one line each, nothing for a proven run.
    """
    problems: list[str] = []
    found: set[str] = set()
    for number, log in enumerate(logs, 1):
        opened = set(_OPENED.findall(log))
        found |= {f"{name} {version}" for name, version in opened}
        if not opened:
            problems.append(f"nothing that libfabric said shows the provider of process {number}")
        problems += [
            f"libfabric opened the provider {name}, {provider} was asked for"
            for name, _ in sorted(opened)
            if name != provider
        ]
        if opened and provider not in _PEER.findall(log):
            problems.append(f"process {number} knew no peer of the provider {provider}")
        problems += [f"libfabric warns: {said}" for said in dict.fromkeys(_WARNING.findall(log))]
    if len(found) > 1:
        problems.append(f"different providers ran: {', '.join(sorted(found))}")
    return sorted(found), list(dict.fromkeys(problems))
