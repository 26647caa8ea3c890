#!/usr/bin/env python3
"""Plan an acceptance: a child pipeline with jobs of a few test cases, and the promise of its cases.

    .venv/bin/python ci/gitlab/plan.py --site local --profile full --run DIR --child child.yml

ReFrame says which tests and cases there are, and which need which (`--ci-generate`, `-lC`). Its own
child pipeline cannot be run as it is (4.10.4): it has one job for a test on all of its partitions,
forgets --system, names the checkout of the job that made it, and hands what a case needs from job
to job. Here, a job has cases of one test file on one partition with one stack. Cases that are
compared with each other are in one job, since only what was measured in one run can be compared.
"""

import argparse
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from assay.describe import listing
from assay.judge import LAUNCHES_IN_BUDGET
from assay.prove.call import Call
from assay.store import promise, session

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci/gitlab"))

import gather  # noqa: E402

REFRAME = ROOT / ".venv/bin/reframe"

LISTED = re.compile(r"^ *[-^] ?(?P<name>.+?) /(?P<hash>[0-9a-f]+) @(?P<where>\S+)$")
JOB = re.compile(r" -n /(?P<hash>[0-9a-f]+) ")

#: Options that select test cases. A job selects its cases by their hashes and takes no others.
SELECTING = {
    "-n", "--name", "-x", "--exclude", "-t", "--tag", "-T", "--exclude-tag", "-E", "--filter-expr",
}  # fmt: skip

#: GitLab's limits for the length of a job's name, and for the timeout of a job [s].
LONGEST_NAME, LONGEST_JOB = 255, 30 * 24 * 3600

#: Most cases of a job, unless more are compared with each other: what is lost when its runner dies.
MOST_CASES = 30

#: Time limit [s] of a test that finds its limit on the node. ReFrame ends a case at the real one.
UNSTATED = 4 * 3600


class Refusal(Exception):
    """A request that cannot be planned: one line."""


@dataclass(frozen=True)
class Profile:
    """What a run selects, and what it may use. Above that the verdict is red.

    :ivar mode: of ReFrame.
    :ivar waiting: time of each job for its set-up and the queue [s].
    :ivar select: arguments of ReFrame.
    """

    mode: str
    waiting: float
    minutes: float
    node_hours: float
    select: tuple = ()


#: Value of ASSAY_RUN -> the run: after each merge; daily, the pre-check of the nodes; weekly, and
#: after maintenance. docs/gitlab.md has this table.
PROFILES = {
    "smoke": Profile("smoke", 1800, 60, 4),
    "precheck": Profile("smoke", 900, 30, 2, ("-t", "node")),
    "full": Profile("full", 6 * 3600, 720, 64),
}


@dataclass(frozen=True)
class Case:
    """One test case as ReFrame lists it; `where` is ``system:partition+environ``."""

    name: str
    hash: str
    where: str


def reframe(arguments, action):
    """The output of ReFrame. What is in the environment of this job must not narrow the plan."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    done = subprocess.run(
        [REFRAME, *arguments, *action],
        cwd=ROOT,
        env={**kept, "RFM_COLORIZE": "n"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Refusal(f"reframe {' '.join(action)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def cases(listing):
    """The cases in the output of ``reframe -lC``. A case that several others need is kept once.

    :raises Refusal: their number is not the one that ReFrame states.
    """
    found = [
        Case(**match.groupdict()) for match in map(LISTED.match, listing.splitlines()) if match
    ]
    said = re.search(r"^Concretized (\d+) test case", listing, re.MULTILINE)
    different = list(dict.fromkeys(found))
    if said is None or int(said[1]) != len(different):
        raise Refusal(f"ReFrame counts {said and said[1]} cases, {len(different)} are listed")
    return different


def needs(child):
    """Hash of each test -> hashes that it needs directly, from ReFrame's child pipeline."""
    jobs = {name: job for name, job in child.items() if isinstance(job, dict) and "script" in job}
    hashes = {name: JOB.search(" ".join(job["script"]))["hash"] for name, job in jobs.items()}
    return {hashes[name]: {hashes[n] for n in job["needs"]} for name, job in jobs.items()}


def groups(all_cases, needed):
    """The cases in groups that can be measured separately."""
    by_key = {(case.hash, case.where): [case] for case in all_cases}
    for case in all_cases:
        for other in needed[case.hash]:
            # A test of assay depends only on cases of its own partition and stack (udeps.by_case).
            joined, more = by_key[case.hash, case.where], by_key[other, case.where]
            if joined is not more:
                joined += more
                for each in more:
                    by_key[each.hash, each.where] = joined
    different = {id(group): group for group in by_key.values()}.values()
    # A case that needs others gives the job its name.
    operands = set().union(*needed.values())
    return [sorted(group, key=lambda case: case.hash in operands) for group in different]


@dataclass(frozen=True)
class Job:
    """Cases that run one after the other, in the order in which ReFrame lists them.

    :ivar file: name of the file of their tests, without its ending.
    :ivar number: of the job among those of the same file and place, from 1.
    """

    file: str
    number: int
    cases: list[Case]

    @property
    def where(self):
        return self.cases[0].where

    @property
    def title(self):
        """The name in the pipeline."""
        return f"{self.file} {self.number} @{self.where}"

    @property
    def folder(self):
        """The folder of the results: no blanks, the same each time."""
        where = self.where.partition(":")[2]
        return re.sub(r"[^\w.-]", "-", f"{self.file}-{self.number}.{where}")


def file_of(case, tests):
    """The name of the file of a test. ReFrame describes no fixture, which only runs with a test."""
    named = tests.get(case.hash, {}).get("@file", case.name.split(" ")[0])
    return Path(named).stem


def jobs(all_cases, needed, tests):
    """All cases, in jobs. A group (:func:`groups`) is never divided."""
    filled = {}
    for group in groups(all_cases, needed):
        key = file_of(group[0], tests), group[0].where
        parts = filled.setdefault(key, [[]])
        if parts[-1] and len(parts[-1]) + len(group) > MOST_CASES:
            parts.append([])
        parts[-1] += group
    return [
        Job(file, number, part)
        for (file, _), parts in filled.items()
        for number, part in enumerate(parts, 1)
    ]


def timeout(cases, tests, profile):
    """The time limit of a job [s].

    Each case may take its own limit, and the longest be launched as often as ReFrame does. More
    launches are of a machine that is not sound.
    """
    limits = [0.0]
    for case in cases:
        test = tests.get(case.hash, {})
        # A comparison only reads what others measured.
        limits.append(test.get("time_limit") or UNSTATED * (test.get("executable") != "true"))
    again = (LAUNCHES_IN_BUDGET - 1) * max(limits)
    return min(profile.waiting + sum(limits) + again, LONGEST_JOB)


def entry(job, tests, options):
    """A job as an entry of GitLab's pipeline."""
    system, _, environ = job.where.partition("+")
    results = f"{options.directory}results/jobs/{job.folder}"
    profile = PROFILES[options.profile]
    words = [options.run, job.folder, os.environ.get("CI_PIPELINE_ID", "0"), profile.mode, system]
    words += [f"/{case.hash}" for case in job.cases]
    return {
        "stage": system.partition(":")[2],
        "needs": [],
        # Two measurements never share nodes.
        "resource_group": f"assay-nodes-{options.site}",
        "script": [f"{options.directory}ci/gitlab/case.sh {shlex.join(map(str, words))}"],
        "timeout": f"{math.ceil(timeout(job.cases, tests, profile) / 60)}m",
        "variables": {"ASSAY_STACK": environ},
        "artifacts": {
            "when": "always",
            "expire_in": "30 days",
            "paths": [f"{results}/"],
            "exclude": [f"{results}/scratch/**/*"],
        },
    }


def child(planned, options):
    """The child pipeline."""
    return {
        "workflow": {"rules": [{"when": "always"}]},
        "stages": list(dict.fromkeys(each["stage"] for each in planned.values())),
        "variables": {
            "SITE": options.site,
            "GIT_CLEAN_FLAGS": os.environ.get("GIT_CLEAN_FLAGS", "-ffdx"),
            "GIT_SUBMODULE_STRATEGY": os.environ.get("GIT_SUBMODULE_STRATEGY", "none"),
        },
        "default": {
            **({"tags": options.tags} if options.tags else {}),
            # If a later commit interrupted an acceptance, its measurements would be lost.
            "interruptible": False,
            # GitLab 17 and newer runs this after a cancelled job, too.
            "after_script": [f"{options.directory}ci/gitlab/end.sh"],
            "retry": {"max": 1, "when": ["runner_system_failure"]},
        },
        **planned,
    }


def selection(arguments):
    """The arguments, if all of them select test cases.

    :raises Refusal: an argument does not select; the jobs would not know of it.
    """
    words = iter(arguments)
    for word in words:
        option, given, _ = word.partition("=")
        if option not in SELECTING:
            raise Refusal(
                f"select: {word!r} does not select: only {', '.join(sorted(SELECTING))} do; what a "
                "test is set to belongs into the site's assay.yaml"
            )
        if not given and next(words, None) is None:
            raise Refusal(f"select: {word!r} lacks its value")
    return arguments


def plan(options):
    """Write the child pipeline and the promise.

    :raises Refusal: nothing is selected, or the selection does not fit the request.
    """
    if options.profile not in PROFILES:
        raise Refusal(
            f"nothing is planned for ASSAY_RUN={options.profile}: set it to {', '.join(PROFILES)}"
        )
    profile = PROFILES[options.profile]
    select = [*profile.select, *options.arguments]
    config = f"site-config/{options.site}/reframe.py"
    # The pipeline names its site, so the name of the runner's host decides nothing.
    system = options.system or options.site
    arguments = ["-C", config, f"--system={system}", "-c", "reframe", "-R"]
    arguments += [f"--mode={profile.mode}"]
    arguments += selection(select)
    with tempfile.TemporaryDirectory() as scratch:
        generated = Path(scratch) / "child.yml"
        reframe(arguments, [f"--ci-generate={generated}"])
        needed = needs(yaml.safe_load(generated.read_text()))
    listed = cases(reframe(arguments, ["-lC"]))
    partitions = {case.where.partition("+")[0].partition(":")[2] for case in listed}
    if unknown := set(options.partitions) - partitions:
        raise Refusal(
            f"no case on the partition {', '.join(sorted(unknown))} of {options.site}; "
            f"there are cases on {', '.join(sorted(partitions)) or 'none'}"
        )
    wanted = set(options.partitions) or partitions
    chosen = [c for c in listed if c.where.partition("+")[0].partition(":")[2] in wanted]
    if not chosen:
        raise Refusal(f"no case of {options.site} is selected by {' '.join(arguments)}")
    tests = described(reframe(arguments, ["--describe"]))
    narrowed = [" ".join(select)] if select else []
    narrowed += [f"--system={system}"] if ":" in system else []
    narrowed += [f"partitions: {' '.join(options.partitions)}"] if options.partitions else []
    planned, promised = {}, []
    for job in jobs(chosen, needed, tests):
        if len(job.title) > LONGEST_NAME or job.title in planned:
            raise Refusal(f"not a valid name for a job of GitLab: {job.title!r}")
        planned[job.title] = entry(job, tests, options)
        their = [
            {
                "name": case.name,
                "where": case.where,
                "figures": tests.get(case.hash, {}).get("figures", []),
            }
            for case in job.cases
        ]
        promised.append({"title": job.title, "folder": job.folder, "cases": their})
    options.run.mkdir(parents=True)
    promise = {
        "schema": gather.SCHEMA,
        "node_hours": profile.node_hours,
        "minutes": profile.minutes,
        # What `case.sh` makes each session state, and what none that is older can state.
        "extras": {
            "pipeline": os.environ.get("CI_PIPELINE_ID", "0"),
            "commit": os.environ.get("CI_COMMIT_SHORT_SHA", "unknown"),
        },
        "planned": time.strftime("%Y%m%dT%H%M%S%z"),
        "site": compared(ROOT / config, narrowed, chosen, profile.mode),
        "jobs": promised,
    }
    (options.run / gather.FILE).write_text(json.dumps(promise, indent=1) + "\n")
    text = yaml.safe_dump(child(planned, options), sort_keys=False, width=1000)
    options.child.write_text(text)
    print(f"plan: {len(chosen)} cases in {len(planned)} jobs: {options.child}, {options.run}")


def described(output):
    """Hash of each test -> what ReFrame says of it, from the output of ``reframe --describe``."""
    start = output.find("[\n")
    tests = json.JSONDecoder().raw_decode(output, start)[0] if start >= 0 else []
    return {test["hashcode"]: test for test in tests}


def compared(site_file, narrowed, chosen, mode):
    """How the cases compare with the promise of the site."""
    site, fewer = listing.words_found(site_file)
    cases = []
    for case in chosen:
        system, _, environ = case.where.partition("+")
        system, _, partition = system.partition(":")
        place = {"system": system, "partition": partition, "environ": environ}
        cases.append(session.case_named({"name": case.name, **place}))
    path = site_file.with_name(promise.FILE)
    # ASSAY_STACK leaves out stacks of the site.
    call = Call(selected=(*narrowed, *fewer))
    return promise.state(path, site, call, cases, mode)


def parser():
    described, _, more = __doc__.partition("\n\n")
    top = argparse.ArgumentParser(
        prog="plan", description=described, epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    top.add_argument("--site", default=os.environ.get("SITE", "local"), help="default: $SITE")
    top.add_argument("--system", help="of ReFrame: the site (default), or SITE:PARTITION")
    top.add_argument("--profile", default="full", help=f"{', '.join(PROFILES)} (full)")
    top.add_argument(
        "--partitions", default=[], type=str.split, help="only these, separated by blanks"
    )
    top.add_argument("--run", required=True, type=Path, help="a new folder that all runners see")
    top.add_argument("--child", required=True, type=Path, help="the pipeline to write")
    top.add_argument("--tags", default=[], type=json.loads, help="of the runners, JSON")
    top.add_argument("--directory", default="", help="of Assay in the checkout, with a slash")
    top.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="of ReFrame: a selection")
    return top


if __name__ == "__main__":
    try:
        plan(parser().parse_args())
    except (Refusal, OSError) as problem:
        sys.exit(f"plan: {problem}")
