"""``assay lock``: checks that the locks of the Spack stacks match their manifests.

The reference environment is ``spack.yaml`` at the top of the repository. It belongs to the site
that it includes. Other sites have their environment in ``site-config/<site>/spack/env/``. Each
environment has a lock, ``spack.lock``, and a seal of the lock, ``spack.lock.seal.yaml``.
``docs/stack.md`` explains them.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command ``lock`` to the command ``assay``."""
    parser = commands.add_parser("lock", help="check or seal the locks of the Spack stacks")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, about in (
        (
            "check",
            "Recompute each hash of spack.lock, compare it with manifest, site, recipes, pins and "
            "seal, and print one line for each fault. Needs no Spack.",
        ),
        (
            "seal",
            "Write down in spack.lock.seal.yaml what spack.lock was solved from. Do it right after "
            "solving: it refuses a lock that does not fit its manifest, but does not solve.",
        ),
    ):
        command = actions.add_parser(
            name, help=about.split(",")[0].split(" in ")[0].lower(), description=about
        )
        command.add_argument("--site", metavar="SITE", help="default: each site that has a stack")
        command.add_argument(
            "--root", type=Path, default=Path(), metavar="DIR", help="the repository (default: .)"
        )
        command.set_defaults(run=_run, action=name)


def _run(args: argparse.Namespace) -> int:
    from assay.locks import command  # noqa: PLC0415

    return command.run(args.action, args.root, args.site)
