"""``assay lock``: checks that the locks of the Spack stacks match their manifests.

The reference environment is ``spack.yaml`` at the top of the repository. It belongs to the site
that it includes. Other sites have their environment in ``site-config/<site>/spack/env/``. Each
environment has a lock, ``spack.lock``, and a seal of the lock, ``spack.lock.seal.yaml``. Spack
writes both (`make lock`). ``docs/stack.md`` explains them.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command ``lock`` to the command ``assay``."""
    parser = commands.add_parser("lock", help="check the locks of the Spack stacks")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="compare the locks with what they were solved from",
        description="Recompute each hash of spack.lock, compare all files with the seal that Spack "
        "wrote when it solved, and print one line for each fault. Needs no Spack.",
    )
    check.add_argument("--site", metavar="SITE", help="default: each site that has a stack")
    check.add_argument(
        "--root", type=Path, default=Path(), metavar="DIR", help="the repository (default: .)"
    )
    check.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from assay.locks import command  # noqa: PLC0415

    return command.run(args.root, args.site)
