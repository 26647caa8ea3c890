"""What must run on a site: the file, the comparison of a run with it, and the allowed skips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from shell import ROOT, SITES

from assay.evidence import transports
from assay.evidence.plan import Call
from assay.judge import Verdict
from assay.report import summary
from assay.results import promise
from assay.results.cases import Case, Metric, Session
from assay.results.promise import Found, Promise, PromiseError
from assay.results.session import named

FIXED = """\
nothing_judged: red
cases:
  - at: [node+spack, gpu+spack]
    tests:
      NodeHealth: 1
      Osu: {full: 4, smoke: 2, benchmark: [bw, latency], transport: [cma, posix]}
skips:
  - {test: [Osu], at: [gpu+spack], transport: [cma], why: '* has no *'}
"""

FOUND = """\
cases:
  - at: [node]
    tests:
      Osu: {needs: ['osu {transport}'], cases: 4, benchmark: [bw, latency], transport: [cma, posix]}
      OsuPy: {needs: [-osu osu-py], cases: 1}
      OsuGpu: {needs: [cuda, rocm], cases: 1}
  - at: [infiniband]
    tests:
      NodeHealth: 1
"""


def case(test: str, partition: str = "node", why: str = "", **parameters: str) -> Case:
    words = [test, *(f"%{name}={value}" for name, value in parameters.items())]
    place = {"system": "site", "partition": partition, "environ": "spack"}
    return replace(named({"display_name": " ".join(words), **place}), why=why)


def osu(partition: str = "node") -> list[Case]:
    return [
        case("Osu", partition, benchmark=benchmark, transport=transport)
        for benchmark in ("bw", "latency")
        for transport in ("cma", "posix")
    ]


#: A call that selects some of the cases.
SELECTED = Call(selected=("-n Osu",))

WHOLE = [case("NodeHealth"), *osu(), case("NodeHealth", "gpu"), *osu("gpu")]


def read(folder: Path, text: str = FIXED) -> Promise:
    (folder / "expected.yaml").write_text(text)
    return promise.load(folder / "expected.yaml")


def test_a_complete_run_keeps_the_promise(tmp_path: Path) -> None:
    kept = promise.compare(read(tmp_path), WHOLE, "full")
    assert (kept.promised, kept.there, kept.missing, kept.unknown) == (10, 10, (), ())


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        ([c for c in WHOLE if c.partition != "gpu"], "NodeHealth on gpu+spack: 0 of 1"),
        ([c for c in WHOLE if c.test != "Osu"], "Osu on node+spack: 0 of 4"),
        (
            [c for c in WHOLE if c.parameters.get("transport") != "cma"],
            "Osu on node+spack: 2 of 4, without transport=cma",
        ),
        (WHOLE[2:], "NodeHealth on node+spack: 0 of 1; Osu on node+spack: 3 of 4"),
        ([], "10 of 10 promised cases are missing"),
    ],
    ids=["a partition", "a test", "a value of a sweep", "single cases", "all"],
)
def test_what_is_missing_is_named(tmp_path: Path, planned: list[Case], said: str) -> None:
    faults = list(promise.compare(read(tmp_path), planned, "full").faults("expected.yaml"))
    assert len(faults) == 1
    assert said in faults[0]


def test_another_value_in_place_of_one_is_no_whole_sweep(tmp_path: Path) -> None:
    swapped = [*WHOLE[:1], case("Osu", benchmark="bibw", transport="cma"), *WHOLE[2:]]
    kept = promise.compare(read(tmp_path), swapped[:5], "full")
    assert kept.unknown == ("Osu on node+spack: 4 in place of 4, with benchmark=bibw",)


def test_a_case_that_nobody_reviewed_is_named(tmp_path: Path) -> None:
    kept = promise.compare(read(tmp_path), [*WHOLE, case("Stream")], "full")
    (fault,) = kept.faults("expected.yaml")
    assert fault == (
        "expected.yaml does not promise Stream on node+spack: 1 in place of 0; review the change, "
        "and type assay expect"
    )


def test_the_profile_decides_the_number(tmp_path: Path) -> None:
    few = [case("NodeHealth"), *osu()[:2], case("NodeHealth", "gpu"), *osu("gpu")[:2]]
    kept = promise.compare(read(tmp_path), few, "smoke")
    assert (kept.promised, kept.missing) == (6, ())
    assert promise.compare(read(tmp_path), few[:-1], "smoke").missing == (
        "Osu on gpu+spack: 1 of 2",
    )


def machine(*lacks: str, **more: object) -> Found:
    return Found(
        stacks={"node": ("spack",)},
        lacks={"node": frozenset(lacks), "spack": frozenset(["osu-py", "cuda", "rocm"])},
        optional=frozenset(["infiniband"]),
        **more,  # type: ignore[arg-type]
    )


def test_a_machine_promises_what_it_has(tmp_path: Path) -> None:
    read(tmp_path, FOUND)
    told = promise.load(tmp_path / "expected.yaml")
    kept = promise.compare(told, osu(), "full", machine())
    assert (kept.promised, kept.missing, kept.unknown) == (4, (), ())
    without = [c for c in osu() if c.parameters["transport"] != "cma"]
    kept = promise.compare(told, without, "full", machine("cma"))
    assert (kept.promised, kept.missing, kept.unknown) == (2, (), ())
    # Nothing shows that the machine lacks the transport.
    kept = promise.compare(told, without, "full", machine())
    assert kept.missing == ("Osu on node+spack: 2 of 4, without transport=cma",)


def test_one_of_several_words_is_enough_and_a_word_may_have_to_be_absent(tmp_path: Path) -> None:
    told = read(tmp_path, FOUND)
    found = Found({"node": ("spack",)}, {"spack": frozenset(["osu", "cuda"])})
    kept = promise.compare(told, [case("OsuPy"), case("OsuGpu")], "full", found)
    assert (kept.promised, kept.missing) == (
        3,
        ("NodeHealth on infiniband: 0 of 1",),
    )


def test_an_optional_partition_may_be_absent_and_any_other_may_not(tmp_path: Path) -> None:
    told = read(tmp_path, FOUND.replace("infiniband", "scratch"))
    kept = promise.compare(told, osu(), "full", machine())
    assert kept.missing == ("NodeHealth on scratch: 0 of 1",)


def test_a_test_that_grows_with_the_machine_has_at_least_its_first_cases(tmp_path: Path) -> None:
    text = """\
grows: {Bt: {ranks: ['1']}}
cases: [{at: [node+spack], tests: {Bt: {cases: 1, ranks: ['1']}}}]
"""
    told = read(tmp_path, text)
    cases = [case("Bt", ranks="1"), case("Bt", ranks="64")]
    assert list(promise.compare(told, cases, "full").faults("f")) == []
    assert promise.compare(told, cases[1:], "full").missing == ("Bt on node+spack: 0 of 1",)


def test_an_unlisted_skip_is_named_with_its_reason(tmp_path: Path) -> None:
    rules = read(tmp_path).skips
    good = case("Osu", "gpu", "gpu has no cma", benchmark="bw", transport="cma")
    assert promise.unlisted(rules, [good]) == ([], [])
    for bad in (
        replace(good, why="it was late"),
        replace(good, partition="node"),
        replace(good, parameters={"transport": "posix"}),
        replace(good, test="OsuPy"),
    ):
        (refused,), _ = promise.unlisted(rules, [bad])
        assert refused == f"skip not allowed: {bad.why}: 1 of {bad.test}"


@pytest.mark.parametrize(
    ("why", "pattern", "fits"),
    [
        ("this stack has no hpl", "this stack has no *", True),
        ("a has no b", "* has no *", True),
        ("a has b", "* has no *", False),
        ("busy", "busy", True),
        ("busy now", "busy", False),
        ("aba", "ab*ba", False),
        ("ab" * 2000, "*".join("ab" * 12) + "*x", False),
    ],
)
def test_a_star_in_a_reason_is_any_text(why: str, pattern: str, fits: bool) -> None:
    assert promise.Skip(("*",), pattern).allows(case("Osu", why=why)) is fits


def test_a_machine_that_is_too_small_makes_a_run_partial() -> None:
    rules = [
        promise.skip(
            {"test": "*", "why": "2 ranks are needed; * has cores for 1", "partial": True}
        ),
        promise.skip({"test": "*", "why": "* ranks are needed; * has cores for *"}),
    ]
    few = [case("Osu", why="2 ranks are needed; node has cores for 1")]
    assert promise.unlisted(rules, few) == (
        [],
        ["1 skipped: 2 ranks are needed; node has cores for 1"],
    )
    more = [case("Osu", why="4 ranks are needed; node has cores for 2")]
    assert promise.unlisted(rules, more) == ([], [])
    assert [promise.skip(promise.skip_as_json(one)) for one in rules] == rules


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory: nothing says which cases must run; type assay expect"),
        ("cases: [", "is not valid YAML"),
        ("cases: [{at: [x+y], tests: {Osu: {benchmark: [bw]}}}]", "states no number of cases"),
        ("nothing_judged: green\ncases: []", "nothing_judged is 'green', not red or allowed"),
        ("reacceptance: 2\ncases: []", "reacceptance is 2, not a share above 0, at most 1"),
        ("reacceptance: true\ncases: []", "reacceptance is True, not a share above 0"),
        ("cases: []\nskip: []", "unknown key 'skip'"),
        ("cases: [{at: [x+y], tests: {Osu: 0}}]", "states no number of cases"),
        ("cases: [{at: [x+y], tests: {Osu: {full: -2, smoke: 1}}}]", "states no number of cases"),
        ("cases: []\nmay_skip: [{test: Osu, why: '* *'}]", "allows nearly any reason; write the"),
        ("cases: [{at: [x+y], tests: {A: 1}}]\ngrows: {A: {b: ['1']}}", "A has no case with b"),
        ("nothing_judged: red", "not a promise"),
        ("[]", "not a promise"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(
    tmp_path: Path, text: str | None, said: str
) -> None:
    path = tmp_path / "expected.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PromiseError, match=f"^{path}") as error:
        promise.load(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert promise.state(path, None, Call(), [], "full")["faults"] == [str(error.value)]
    assert promise.state(path, None, SELECTED, [], "full")["faults"] == []


def test_a_probe_that_failed_is_a_fault_of_any_run(tmp_path: Path) -> None:
    read(tmp_path, FOUND)
    found = machine(problems=("ucx_info -d ended with exit code 139",))
    for call in (Call(), SELECTED):
        state = promise.state(tmp_path / "expected.yaml", found, call, osu(), "full")
        assert state["faults"] == ["ucx_info -d ended with exit code 139"]


def test_a_narrowed_run_says_what_was_selected(tmp_path: Path) -> None:
    read(tmp_path)
    state = promise.state(tmp_path / "expected.yaml", None, SELECTED, osu(), "full")
    assert state["faults"] == []
    assert promise.narrowing(state) == ["4 of 10 promised cases selected by -n Osu"]
    whole = promise.state(tmp_path / "expected.yaml", None, Call(), WHOLE, "full")
    assert promise.narrowing(whole) == []


def test_an_option_that_is_not_in_the_plan_is_named_and_the_cases_are_still_promised(
    tmp_path: Path,
) -> None:
    read(tmp_path)
    call = Call(("-r", "-J nodelist=n1"), (), ("-J nodelist=n1",))
    state = promise.state(tmp_path / "expected.yaml", None, call, WHOLE[1:], "full")
    (missing,) = state["faults"]
    assert missing.startswith("1 of 10 promised cases are missing")
    assert promise.changes(state) == [
        "-J nodelist=n1 is not in the plan of the site and may change what is measured: leave it "
        "out, or put it into the site"
    ]
    assert state["given"] == ["-r", "-J nodelist=n1"]
    other = Call((), (), ("-S local=1",), other_cases=True)
    assert promise.state(tmp_path / "expected.yaml", None, other, [], "full")["faults"] == []


PASSED = Metric("rate", 1.0, "MB/s", Verdict.PASS)
RECORDED = replace(PASSED, verdict=Verdict.RECORDED)


def run(*metrics: Metric, **more: object) -> Session:
    verdict = metrics[0].verdict if metrics else Verdict.RECORDED
    done = replace(case("Osu"), verdict=verdict, metrics=metrics)
    return Session(Path("r"), "", "", None, 1.0, "", "", (done,), **more)  # type: ignore[arg-type]


def test_nothing_judged_is_no_pass_and_a_site_says_whether_it_is_red() -> None:
    (fault,) = summary.outcome(run(RECORDED)).faults
    assert fault.startswith("nothing was judged: no metric has a reference")
    allowed = run(RECORDED, nothing_judged="allowed", promised=4)
    assert summary.outcome(allowed).exit_code == 0
    lines = summary.closing_lines(allowed)
    assert lines[-1] == "verdict: RECORDED"
    assert "judged: 0 of 1 case that ran; the site promises 4 cases" in lines
    assert summary.outcome(run(PASSED)).faults == ()


def test_a_part_of_a_run_is_partial_and_never_a_pass() -> None:
    part = run(PASSED, partial=("1 of 4 promised cases selected by -n Osu",))
    assert summary.closing_lines(part)[-1] == (
        "verdict: PARTIAL: 1 of 4 promised cases selected by -n Osu"
    )
    assert summary.outcome(part).verdict is not Verdict.PASS
    assert summary.outcome(run(RECORDED, partial=part.partial)).faults == ()
    red = replace(part, faults=("a probe failed",))
    assert summary.closing_lines(red)[-1] == "verdict: FAIL: a probe failed"


@pytest.mark.parametrize(
    "path",
    [path.with_name(promise.FILE) for path in SITES.values()],
    ids=lambda path: path.parent.name,
)
def test_the_promise_of_each_site_can_be_read_and_promises_its_profiles(path: Path) -> None:
    told = promise.load(path)
    assert told.entries
    for profile in promise.PROFILES:
        assert sum(entry.counts[profile] for entry in told.entries) > 0
    raw = yaml.safe_load(path.read_text())
    assert [promise.skip_as_json(promise.skip(one))["why"] for one in raw["skips"]]


@pytest.mark.parametrize("site", ["local", "any", "debian12"])
def test_what_a_machine_cannot_run_may_be_skipped_where_the_site_describes_itself(site):
    promised = promise.load(ROOT / "site-config" / site / promise.FILE)
    reason = transports.unusable("tcp", "1.20.1", "lo")
    few = "2 ranks are needed; local:intra-node has cores for 1"
    cases = [case("OsuPy", "intra-node", why) for why in (reason, f"the stack a: {reason}", few)]
    refused, partial = promise.unlisted(promised.skips, cases)
    assert not refused
    assert partial == [f"1 skipped: {few}"]
    refused, _ = promise.unlisted(promised.skips, [case("OsuPy", "intra-node", "no reason")])
    assert refused
