"""What must run on a site: the files, the comparison of a run with them, and the allowed skips."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from shell import ROOT, SITES

from assay.judge import Verdict
from assay.prove import transports
from assay.prove.call import Call
from assay.show import summary
from assay.show.view import View
from assay.store import promise
from assay.store.cases import Case, Session
from assay.store.promise import Listed, PromiseError, Site
from assay.store.record import Metric
from assay.store.session import case_named, unlisted

PROMISE = """\
nothing_judged: red
partitions:
  node: {stacks: [spack], words: [posix, cma]}
  gpu: {stacks: [spack], words: [posix, cma, gpu]}
stacks:
  spack: [osu]
may_skip:
  too-small: [Osu cma gpu]
"""

CASES = """\
# A comment.
NodeHealth | * | * | smoke
Osu %benchmark=bw %transport=cma | +cma | +osu
Osu %benchmark=bw %transport=posix | +posix | +osu | smoke
Osu %benchmark=latency %transport=cma | +cma | +osu
Osu %benchmark=latency %transport=posix | +posix | +osu
OsuPy | +posix | +osu-py -osu
OsuGpu | +gpu +cuda, +gpu +rocm | +osu
"""

SITE = Site(
    {"node": frozenset(["posix", "cma"]), "gpu": frozenset(["posix", "cma", "gpu"])},
    {"node": frozenset(["spack"]), "gpu": frozenset(["spack"])},
    {"spack": frozenset(["osu"])},
)


def case(test: str, partition: str = "node", why: str = "", **parameters: str) -> Case:
    words = [test, *(f"%{name}={value}" for name, value in parameters.items())]
    place = {"system": "site", "partition": partition, "environ": "spack"}
    return structs.replace(case_named({"display_name": " ".join(words), **place}), why=why)


def osu(partition: str = "node") -> list[Case]:
    return [
        case("Osu", partition, benchmark=benchmark, transport=transport)
        for benchmark in ("bw", "latency")
        for transport in ("cma", "posix")
    ]


#: A call that selects some of the cases.
SELECTED = Call(selected=("-n Osu",))

WHOLE = [case("NodeHealth"), *osu(), case("NodeHealth", "gpu"), *osu("gpu")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The promise of a site, with a suite beside it."""
    (tmp_path / "reframe").mkdir()
    (tmp_path / "reframe/cases.txt").write_text(CASES)
    path = tmp_path / "site-config/site/promise.yaml"
    path.parent.mkdir(parents=True)
    (path.parents[1] / "vocabulary.yaml").touch()
    path.write_text(PROMISE)
    return path


LISTED = [Listed.read(line) for line in CASES.splitlines()[1:]]


def faults(planned: list[Case], site: Site = SITE, profile: str = "full") -> list[str]:
    return promise.compare(site, LISTED, planned, profile)[2]


def test_a_complete_run_keeps_the_promise() -> None:
    assert promise.compare(SITE, LISTED, WHOLE, "full") == (10, 10, [])


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        ([c for c in WHOLE if c.partition != "gpu"], "NodeHealth on gpu+spack: 0 of 1"),
        ([c for c in WHOLE if c.test != "Osu"], "Osu on node+spack: 0 of 4"),
        (
            [c for c in WHOLE if c.parameters.get("transport") != "cma"],
            "Osu on node+spack: 2 of 4, without Osu benchmark=bw transport=cma, Osu bench",
        ),
        (
            WHOLE[2:],
            "NodeHealth on node+spack: 0 of 1, without NodeHealth; Osu on node+spack: 3 of 4",
        ),
        ([], "10 of 10 promised cases are missing"),
    ],
    ids=["a partition", "a test", "a value of a sweep", "single cases", "all"],
)
def test_what_is_missing_is_named(planned: list[Case], said: str) -> None:
    (fault,) = faults(planned)
    assert said in fault


def test_another_case_in_place_of_one_is_no_whole_sweep() -> None:
    """Its values are those of other cases: only the pair is new."""
    swapped = [c for c in WHOLE if c.parameters.get("benchmark") != "bw"]
    swapped += [case("Osu", place, benchmark="bw", transport="posix") for place in ("node", "gpu")]
    swapped += [case("Osu", place, benchmark="bw", transport="tcp") for place in ("node", "gpu")]
    missing, unknown = faults(swapped)
    assert missing.startswith("2 of 10 promised cases are missing: ")
    assert "Osu on node+spack: Osu benchmark=bw transport=tcp" in unknown


def test_a_case_that_nobody_reviewed_is_named() -> None:
    (fault,) = faults([*WHOLE, case("Stream")])
    assert fault == (
        "cases.txt does not list Stream on node+spack: Stream; type assay expect, and review it"
    )


def test_the_profile_decides_which_cases_must_run() -> None:
    few = [case("NodeHealth"), osu()[1], case("NodeHealth", "gpu"), osu("gpu")[1]]
    assert promise.compare(SITE, LISTED, few, "smoke") == (4, 4, [])
    (fault,) = faults(few[:-1], profile="smoke")
    assert "Osu on gpu+spack: 0 of 1, without Osu benchmark=bw transport=posix" in fault


def test_the_words_decide_which_cases_must_run() -> None:
    """One of several words is enough, and a word may have to be absent."""
    site = Site(
        {"node": frozenset(["posix", "gpu", "rocm"])},
        {"node": frozenset(["spack", "ports"])},
        {"spack": frozenset(["osu"]), "ports": frozenset(["osu-py"])},
    )
    must = {(one.name, *place) for one in LISTED for place in one.places(site)}
    assert {(name, stack) for name, _, stack in must if not name.startswith("Osu %")} == {
        ("NodeHealth", "spack"), ("NodeHealth", "ports"), ("OsuPy", "ports"), ("OsuGpu", "spack")
    }  # fmt: skip


def test_a_test_that_grows_with_the_machine_has_at_least_one_case() -> None:
    grown = [Listed.read("Bt %ranks=* %mpi_io=ompio | +posix | +osu")]
    cases = [case("Bt", ranks=ranks, mpi_io="ompio") for ranks in ("1", "64")]
    site = replace(SITE, partitions={"node": frozenset(["posix"])})
    assert promise.compare(site, grown, cases, "full") == (1, 1, [])
    assert promise.compare(site, grown, [], "full")[:2] == (1, 0)
    other = [case("Bt", ranks="1", mpi_io="romio")]
    assert len(promise.compare(site, grown, other, "full")[2]) == 2


PLACES = {"node": SITE.partitions["node"]}
STACKS = {"node": SITE.environs["node"]}


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (
            replace(SITE, partitions={**SITE.partitions, "node": frozenset(["posix"])}),
            ["node has not the promised word cma"],
        ),
        (
            replace(SITE, environs={**SITE.environs, "gpu": frozenset()}),
            ["gpu has not the promised stack spack"],
        ),
        (replace(SITE, stacks={"spack": frozenset()}), ["spack has not the promised word osu"]),
        (replace(SITE, stacks={}), ["spack has not the promised word osu"]),
        (
            replace(SITE, partitions=PLACES, environs=STACKS),
            [
                "gpu has not the promised word cma, gpu, posix",
                "gpu has not the promised stack spack",
            ],
        ),
    ],
    ids=["transport", "stack of a partition", "program", "stack", "partition"],
)
def test_a_word_that_is_promised_and_not_there_is_a_fault(
    file: Path, site: Site, said: list[str]
) -> None:
    """The run has all cases that its words select, so nothing else shows it."""
    listed = promise.cases(file.parents[2] / "reframe/cases.txt")
    planned = [
        structs.replace(
            case_named({"name": one.name, "system": "site"}), partition=where, environ=stack
        )
        for one in listed
        for where, stack in one.places(site)
    ]
    faults = promise.state(file, site, Call(), planned, "full")["faults"]
    assert faults == [f"promise.yaml: {line}" for line in said]
    assert promise.state(file, site, SELECTED, planned, "full")["faults"] == []


def test_a_partition_that_promises_no_word_must_still_be_there(file: Path) -> None:
    file.write_text("partitions: {scratch: {}}")
    promised = promise.load_promise(file).site
    assert list(SITE.lacks(promised)) == ["scratch is promised and not there"]


def test_a_skip_of_another_kind_or_of_another_case_is_named_with_its_reason(file: Path) -> None:
    may_skip = promise.load_promise(file).may_skip
    why = "too-small: 4 GPUs are needed"
    good = case("Osu", "gpu", why, benchmark="bw", transport="cma")
    assert promise.unlisted(may_skip, [good]) == ([], [])
    for bad in (
        structs.replace(good, why="it was late"),
        structs.replace(good, why="too small: 4 GPUs are needed"),
        structs.replace(good, why="not-here: the driver is gone"),
        structs.replace(good, partition="node"),
        structs.replace(good, parameters={"transport": "posix"}),
        structs.replace(good, test="OsuPy"),
    ):
        (refused,), _ = promise.unlisted(may_skip, [bad])
        assert refused.startswith(f"skip not allowed: {bad.why}: 1 of {bad.test}; may_skip of ")


def test_a_case_without_its_word_and_one_that_follows_may_be_skipped_everywhere() -> None:
    assert promise.unlisted({}, [case("StackHas", why="lacks: this stack has no hpl")]) == ([], [])
    follows = case("OsuGpuRelation", why="skipped due to skipped dependencies")
    none = case("UcxPerftest", why="no-case: UCX sends small messages over posix")
    assert promise.unlisted({}, [follows, none]) == ([], [])


def test_without_a_promise_what_the_site_does_not_describe_is_named() -> None:
    state = {"unpromised": "there is no promise.yaml", "faults": []}
    skipped = [case("Osu", why=f"{kind}: no word") for kind in ("undescribed", "not-here")]
    assert unlisted(state, skipped) == ([], ["1 skipped: undescribed: no word"])


def test_what_the_site_does_not_describe_may_not_be_skipped_by_any_site() -> None:
    every = {kind: ["*"] for kind in promise.KINDS}
    unknown = case("Osu", why="undescribed: this stack does not say which UCX it has")
    assert promise.unlisted(every, [unknown])[0]


def test_words_that_are_not_promised_are_a_fault_of_a_site_that_a_person_wrote(file: Path) -> None:
    more = replace(
        SITE,
        partitions={**SITE.partitions, "new": frozenset(["storage"])},
        environs={**SITE.environs, "new": frozenset()},
    )
    call = Call()
    (fault,) = promise.state(file, more, call, WHOLE, "full")["faults"]
    assert "does not promise all words of the site" in fault
    assert promise.state(file, replace(more, itself=True), call, WHOLE, "full")["faults"] == []


def test_a_machine_that_cannot_run_a_part_makes_a_run_partial() -> None:
    why = "incomplete: 2 ranks are needed; node has cores for 1"
    allowed = {"incomplete": ("*",), "too-small": ("*",)}
    assert promise.unlisted(allowed, [case("Osu", why=why)]) == ([], [f"1 skipped: {why}"])
    more = [case("Osu", why="too-small: 4 ranks are needed; node has cores for 2")]
    assert promise.unlisted(allowed, more) == ([], [])
    assert promise.unlisted({}, [case("Osu", why=why)])[0]


def test_every_test_that_skips_says_a_kind() -> None:
    sources = [*ROOT.glob("src/assay/**/*.py"), *ROOT.glob("reframe/**/*.py")]
    kinds, bare = set(), []
    for path in sources:
        text = path.read_text()
        kinds |= set(re.findall(r'leave_out\(\s*"([\w-]+)"', text))
        kinds |= set(re.findall(r'SizingError\([^()]*(?:\([^()]*\)[^()]*)*, "([\w-]+)"\)', text))
        bare += [path.name] * len(re.findall(r"self\.skip(?:_if)?\(", text))
    assert kinds == {*promise.KINDS, "lacks", "no-case", "undescribed"}
    # The helper itself, and a case that the deadline ends, which is red for that.
    assert bare == ["strict.py"] * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory: nothing says which cases must run; type assay expect"),
        ("partitions: [", "is not valid YAML"),
        (
            "nothing_judged: green\npartitions: {x: {}}",
            "nothing_judged: 'green' is not known; known are allowed, red",
        ),
        ("partitions: {x: {}}\nskip: []", "skip: unknown key"),
        ("partitions: {x: {word: [a]}}", "partitions/x/word: unknown key; did you mean 'words'"),
        ("partitions: {x: {words: cma}}", "partitions/x/words: 'cma': expected a list"),
        ("partitions: {}", "partitions: {}: expected a mapping of length >= 1"),
        ("partitions: {x: {}}\nmay_skip: {not-here: ['']}", "may_skip/not-here/0: ''"),
        ("partitions: {x: {}}\nmay_skip: {late: [Osu]}", "may_skip/late: 'late' is not known; "),
        (
            "partitions: {x: {}}\nmay_skip: {too-small: '*'}",
            "may_skip/too-small: '*': expected a list",
        ),
        ("nothing_judged: red", "`partitions` is missing"),
        ("[]", "expected a mapping"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(file: Path, text: str | None, said: str) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    with pytest.raises(PromiseError, match=f"^{file}") as error:
        promise.load_promise(file)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert promise.state(file, SITE, Call(), [], "full")["faults"] == [str(error.value)]
    assert promise.state(file, SITE, SELECTED, [], "full")["faults"] == []


@pytest.mark.parametrize("text", [None, "Osu %benchmark=bw\n", "Osu | * | * | somke\n"])
def test_a_list_that_cannot_be_read_is_one_line(file: Path, text: str | None) -> None:
    path = file.parents[2] / "reframe/cases.txt"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    (fault,) = promise.state(file, SITE, Call(), WHOLE, "full")["faults"]
    assert fault.startswith(f"{path}: ") and fault.endswith("type assay expect")


def test_a_probe_that_failed_is_a_fault_of_any_run(file: Path) -> None:
    site = replace(SITE, itself=True, problems=("ucx_info -d ended with exit code 139",))
    for call in (Call(), SELECTED):
        state = promise.state(file, site, call, WHOLE, "full")
        assert state["faults"] == ["ucx_info -d ended with exit code 139"]


def test_a_narrowed_run_says_what_was_selected(file: Path) -> None:
    state = promise.state(file, SITE, SELECTED, osu(), "full")
    assert state["faults"] == []
    assert promise.narrowing(state) == ["4 of 10 promised cases selected by -n Osu"]
    assert promise.narrowing(promise.state(file, SITE, Call(), WHOLE, "full")) == []


def test_an_option_that_is_not_in_the_plan_is_named_and_the_cases_are_still_promised(
    file: Path,
) -> None:
    call = Call(("-r", "-J nodelist=n1"), (), ("-J nodelist=n1",))
    state = promise.state(file, SITE, call, WHOLE[1:], "full")
    (missing,) = state["faults"]
    assert missing.startswith("1 of 10 promised cases are missing")
    assert promise.changes(state) == [
        "-J nodelist=n1 is not in the plan of the site and may change what is measured: leave it "
        "out, or put it into the site"
    ]
    other = Call((), (), ("-S local=1",), other_cases=True)
    assert promise.state(file, SITE, other, [], "full")["faults"] == []


PASSED = Metric("rate", 1.0, "MB/s", Verdict.PASS)
RECORDED = structs.replace(PASSED, verdict=Verdict.RECORDED)


def run(*metrics: Metric, **more: object) -> Session:
    verdict = metrics[0].verdict if metrics else Verdict.RECORDED
    done = structs.replace(case("Osu"), verdict=verdict, metrics=metrics)
    return Session(Path("r"), "", "", None, 1.0, "", "", (done,), **more)  # type: ignore[arg-type]


def test_nothing_judged_is_no_pass_and_a_site_says_whether_it_is_red() -> None:
    (fault,) = summary.outcome(run(RECORDED)).faults
    assert fault.startswith("nothing was judged: no metric has a reference")
    allowed = run(RECORDED, nothing_judged="allowed", promised=4)
    assert not summary.outcome(allowed).faults
    lines = summary.closing_lines(View.of(allowed))
    assert lines[-1] == "verdict: RECORDED"
    assert "judged: 0 of 1 case that ran; the site promises 4 cases" in lines
    assert summary.outcome(run(PASSED)).faults == ()


def test_a_part_of_a_run_is_partial_and_never_a_pass() -> None:
    part = run(PASSED, partial=("1 of 4 promised cases selected by -n Osu",))
    assert summary.closing_lines(View.of(part))[-1] == (
        "verdict: PARTIAL: 1 of 4 promised cases selected by -n Osu"
    )
    assert summary.outcome(part).verdict is not Verdict.PASS
    assert summary.outcome(run(RECORDED, partial=part.partial)).faults == ()
    red = structs.replace(part, faults=("a probe failed",))
    assert summary.closing_lines(View.of(red))[-1] == "verdict: FAIL: a probe failed"


@pytest.mark.parametrize(
    "path",
    [path.with_name(promise.FILE) for path in SITES.values()],
    ids=lambda path: path.parent.name,
)
def test_the_promise_of_each_site_has_cases_of_each_profile(path: Path) -> None:
    """As far as a site says which programs it has; one that describes itself has cases of none."""
    site = promise.load_promise(path).site
    listed = promise.cases(ROOT / "reframe/cases.txt")
    assert len(listed) > 100
    stacks = {**site.stacks, "any": frozenset[str]()}
    for partition in site.partitions:
        environs = {partition: site.environs[partition] or frozenset(["any"])}
        place = Site({partition: site.partitions[partition]}, environs, stacks)
        for profile in ("full", "smoke"):
            assert promise.compare(place, listed, [], profile)[0] > 0, (partition, profile)


@pytest.mark.parametrize("site", ["local", "any", "debian12"])
def test_what_a_machine_cannot_run_may_be_skipped_where_the_site_describes_itself(site):
    may_skip = promise.load_promise(ROOT / "site-config" / site / promise.FILE).may_skip
    reason = f"not-here: {transports.unusable('tcp', '1.20.1', 'lo')}"
    few = "incomplete: 2 ranks are needed; local:intra-node has cores for 1"
    cases = [case("OsuPy", "intra-node", why, transport="tcp") for why in (reason, few)]
    refused, partial = promise.unlisted(may_skip, cases)
    assert not refused
    assert partial == [f"1 skipped: {few}"]
    refused, _ = promise.unlisted(may_skip, [case("OsuPy", "intra-node", "no reason")])
    assert refused


def test_a_folder_that_is_no_site_of_the_suite_may_promise_nothing(tmp_path: Path) -> None:
    """No run of it is more than a part; a site of the suite without its promise is red."""
    state = promise.state(tmp_path / "site/promise.yaml", Site(), Call(), [], "full")
    assert state["faults"] == []
    (line,) = promise.narrowing(state)
    said = "nothing says which cases must run; type assay expect -C FILE"
    assert line == f"there is no {tmp_path / 'site/promise.yaml'}: {said}"
