"""The command of the room: an output that somebody sent."""

from __future__ import annotations

from assay import files
from assay.arguments import Commands, add, flag, last_size, option


def offer(commands: Commands) -> None:
    judge = add(
        commands, "judge", "assay.opinions.sent:parse_command",
        "is this number right? judge outputs that somebody sent",
        "Answer in a sentence for each output in each text, with the reasons, what cannot be known "
        "and the next step. The text may be a whole job's log. PASS needs a log of UCX or NCCL in "
        "the output that shows the path, and hardware or a site to compare with. The exit code is "
        "that of the worst verdict.",
    )  # fmt: skip
    option(
        judge, "files", "FILE", "an output, a folder or an archive of them, - for stdin",
        type=str, nargs="+",
    )  # fmt: skip
    flag(judge, "--json", "print one JSON object for each output")
    option(judge, "--site", "SITE", "compare with the references of this site", type=str)
    for name, metavar, text in (
        ("--hardware", "ROLE=NAME", "a part of site-config/hardware/: link=infiniband-hdr"),
        ("--case", "KEY=VALUE", "of the case of the site: partition=gpu; may be given again"),
    ):
        option(judge, name, metavar, text, type=str, action="append", default=[])
    sites = files.SUITE / "site-config"
    option(judge, "--folder", None, "of the sites (default: that of the suite)", default=sites)
    last_size(judge)
