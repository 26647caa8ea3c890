"""The command of the room: an output that somebody sent."""

from __future__ import annotations

from assay import files
from assay.arguments import Commands, add, last_size, option


def offer(commands: Commands) -> None:
    judge = add(
        commands, "judge", "assay.opinions.sent:parse_command",
        "judge an output that somebody sent",
        "Print a verdict on the output of a launch that nobody witnessed, with the reasons and "
        "with what cannot be known. PASS needs a log of UCX or NCCL in the output that shows the "
        "path, and a link or a site to compare with. The exit code is that of the verdict.",
    )  # fmt: skip
    option(judge, "file", "FILE", "an output, - for stdin", type=str)
    option(judge, "--site", "SITE", "compare with the references of this site", type=str)
    for name, metavar, text in (
        ("--hardware", "ROLE=NAME", "hardware of hardware.yaml: link=infiniband-hdr"),
        ("--case", "KEY=VALUE", "of the case of the site: partition=gpu; may be given again"),
    ):
        option(judge, name, metavar, text, type=str, action="append", default=[])
    sites = files.SUITE / "site-config"
    option(judge, "--folder", None, "of the sites (default: that of the suite)", default=sites)
    last_size(judge)
