"""The commands of the room: what would run on a site, a new site, and what it promises."""

from __future__ import annotations

from assay.arguments import Commands, above_zero, add, flag, folder, group, option


def offer(commands: Commands) -> None:
    every = add(
        commands, "sites", "assay.describe.listing:run_sites",
        "list the sites and check every word and reference of them",
        "Load each site as ReFrame would.",
    )  # fmt: skip
    option(every, "names", "SITE", "default: all", nargs="*", type=str)
    folder(every)
    check = add(
        commands, "check", "assay.describe.listing:check_site",
        "say what would run on each partition of a configuration, or what a test is",
        "Load a configuration as ReFrame would. Print for each partition how many cases of the "
        "suite would run there, and which words would add more. Of a TEST, print what it runs, "
        "where, what it proves, what judges it, and the lines of the references of FILE about it.",
    )  # fmt: skip
    option(check, "test", "TEST", "the name of a test, such as Osu", nargs="?", type=str)
    any_of = "assay_settings.py, or any other configuration; needed without a TEST"
    option(check, "-C --config", "FILE", any_of)
    option(check, "--system", "NAME", "default: all, or the one of the places", type=str)
    new = add(
        group(commands, "site", "write the folder of a new site"),
        "new", "assay.describe.new:run_site_new",
        "ask Slurm and its nodes what they have, and write a site that loads",
        "Ask Slurm and, by a short job, two nodes of each partition what they have. Write "
        "site-config/NAME, which loads, and list what could not be found out. Type it on a login "
        "node of the cluster. Nothing is measured.",
    )  # fmt: skip
    option(new, "name", "NAME", "name of the site: a-z, 0-9, - and _", type=str)
    several = {"action": "append", "default": []}
    theirs = (
        "write assay_settings.py and assay.yaml beside this configuration of ReFrame, for its "
        "system NAME, from what it says; may be given again"
    )
    option(new, "--from", "FILE", theirs, dest="theirs", **several)
    for name, metavar, text in (
        ("--partition", "P", "only this partition of Slurm"),
        ("--access", "OPTION", "an option of all jobs (--access=--account=hpc)"),
        ("--module", "M", "a module that the jobs load (openmpi/5.0.5)"),
    ):
        option(new, name, metavar, f"{text}; may be given again", type=str, **several)
    wait = "how long each job may wait for its nodes, in seconds (default: 600)"
    option(new, "--wait", "S", wait, type=above_zero("number of seconds", 6), default=600)
    flag(new, "--dry-run", "print the files, and write nothing")
    folder(new)
    expect = add(
        commands, "expect", "assay.describe.expect:expect_command",
        "write which cases must run",
        "Write reframe/cases.txt, the cases of the suite, and promise.yaml of a site, the words "
        "that it promises. What a person writes in the latter is kept. Review what changes, and "
        "commit it.",
    )  # fmt: skip
    option(expect, "--site", "SITE", "default: only the cases of the suite", type=str)
    own = "assay_settings.py of a site that has a configuration of its own; write promise.yaml "
    option(expect, "-C --config", "FILE", own + "beside it, and no cases")
    flag(expect, "--check", "write nothing; exit code 1 if a file is not current")
    folder(expect)
