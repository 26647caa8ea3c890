"""Certificates that OpenSSH signed: forgeries are refused and named, also on another machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import reframe.utility  # noqa: F401 - it sets a variable when it is first imported
from certificates import DATA, OUTPUT, Open, certify, verify

import assay
from assay.archive import bundle
from assay.archive.certificate import signature
from assay.exits import Exit

KEYGEN = shutil.which("ssh-keygen") or ""

#: The output of the first and of the last launch.
FIRST, LAST = "Hpl/rfm_job.out", "Hpl_retry5/rfm_job.out"


def key(folder: Path, name: str) -> Path:
    made = folder / name
    subprocess.run(
        [KEYGEN, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", made],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return made


class Signed:
    """A signed certificate, the file of its known signer, and the key of somebody else."""

    def __init__(self, folder: Path) -> None:
        if not KEYGEN:
            pytest.skip("needs ssh-keygen of OpenSSH")
        self.ours, self.other = key(folder, "ours"), key(folder, "other")
        self.signers = folder / "signers"
        public = self.ours.with_suffix(".pub").read_text()
        self.signers.write_text(f"hpc@example.org {public}")
        self.path = folder / "certificate.zip"
        assert certify(self.path, self.ours) == 0


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return Signed(tmp_path_factory.mktemp("signed"))


def test_a_known_signer_is_named(signed, capsys):
    assert verify(signed.path, "--signers", signed.signers) == 0
    said = capsys.readouterr().out
    assert "signed by 'hpc@example.org'" in said
    assert "the same verdict follows: PASS" in said


def test_an_unknown_key_is_told_from_a_wrong_signature(signed, capsys):
    assert verify(signed.path) == Exit.NOT_VALID
    assert "UNKNOWN KEY SHA256:" in capsys.readouterr().out
    nobody = signed.path.with_name("nobody")
    nobody.write_text(f"other@example.org {signed.other.with_suffix('.pub').read_text()}")
    assert verify(signed.path, "--signers", nobody) == Exit.NOT_VALID
    assert "does not have it" in capsys.readouterr().out
    assert verify(signed.path, "--any-signer") == 0
    assert "UNKNOWN KEY" in capsys.readouterr().out


def test_a_path_does_not_make_a_key_known(signed, tmp_path, capsys):
    odd = tmp_path / "signers known to us"
    odd.write_text(f"other@example.org {signed.other.with_suffix('.pub').read_text()}")
    assert verify(signed.path, "--signers", odd) == Exit.NOT_VALID
    assert "UNKNOWN KEY" in capsys.readouterr().out


def test_it_is_verified_on_another_machine(signed, tmp_path):
    """With an empty home, in another folder, without the checkout, the session and ReFrame."""
    here = tmp_path / "elsewhere"
    installed = tmp_path / "installed"
    here.mkdir()
    shutil.copytree(Path(assay.__file__).parent, installed / "assay")
    (installed / "reframe.py").write_text("raise ImportError('no ReFrame here')\n")
    for path in (signed.path, signed.signers):
        shutil.copy(path, here)
    done = subprocess.run(
        [sys.executable, "-m", "assay", "verify", "certificate.zip", "--signers", "signers"],
        cwd=here,
        env={"HOME": str(here), "PATH": str(Path(KEYGEN).parent), "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in here.iterdir()) == ["certificate.zip", "signers"]


def test_openssh_alone_verifies_it(signed, tmp_path):
    read = bundle.read_bundle(signed.path)
    (tmp_path / "sig").write_bytes(read.signature)
    words = ("-f", signed.signers, "-I", "hpc@example.org", "-n", signature.NAMESPACE)
    done = subprocess.run(
        [KEYGEN, "-Y", "verify", *words, "-s", tmp_path / "sig"],
        input=read.sums,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# --- forgeries ------------------------------------------------------------------------------------
#
# One forger changes a file. Another one also writes the hashes again, and keeps the signature. A
# third one takes the signature away and says that there never was one. Only the contents can give
# this one away, so they are accepted here without a signer.


def unsigned(found: Open) -> None:
    found.signature = None
    found.state(signer=None)


def swap(one: str, other: str) -> Callable[[Open], None]:
    def edit(found: Open) -> None:
        a, b = found.name(one), found.name(other)
        found.members[a], found.members[b] = found.members[b], found.members[a]

    return edit


def remove_case(found: Open) -> None:
    def without(report: dict) -> None:
        for run in report["runs"]:
            run["testcases"] = [c for c in run["testcases"] if c["name"] != "Hpl"]
        report["session_info"]["num_cases"] -= 1

    found.json("run-report-0.json", without)
    found.json(
        "/session.json",
        lambda plan: plan.update(cases=[c for c in plan["cases"] if c["display_name"] != "Hpl"]),
    )
    for name in [name for name in found.members if "/Hpl" in name]:
        del found.members[name]
    found.json(
        "statement.json",
        lambda said: said.update(cases=[c for c in said["cases"] if c["name"] != "Hpl"]),
    )


def of_metric(change: Callable[[dict], None]) -> Callable[[Open], None]:
    def edit(found: Open) -> None:
        found.json("Hpl_retry5/assay.json", lambda record: change(record["metrics"]["performance"]))

    return edit


def drop(ending: str) -> Callable[[Open], None]:
    return lambda found: found.members.pop(found.name(ending)) and None


def stated(*keys: str, to: object) -> Callable[[Open], None]:
    def edit(found: Open) -> None:
        def change(said: dict) -> None:
            for each in keys[:-1]:
                said = said[each]
            assert said[keys[-1]] != to
            said[keys[-1]] = to

        found.json("statement.json", change)

    return edit


def of_skip(why: str) -> Callable[[Open], None]:
    def edit(found: Open) -> None:
        def change(said: dict) -> None:
            next(c for c in said["cases"] if c["name"].startswith("TransportOpens"))["why"] = why

        found.json("statement.json", change)

    return edit


def replaced(ending: str, old: str, new: str) -> Callable[[Open], None]:
    return lambda found: found.edit(ending, old, new)


def slower(ending: str) -> Callable[[Open], None]:
    """Another value in an output, with as many digits."""

    def edit(found: Open) -> None:
        name = found.name(ending)
        text = found.members[name].decode()
        match = re.search(r"^W[RC]\S+ .* (\d\.\d{4}e\+01)$", text, re.M)
        assert match
        found.members[name] = text.replace(match[1], "3.3955e+01").encode()

    return edit


#: Forgery -> what is done to the content, and what the refusal says.
CONTENTS: dict[str, tuple[Callable[[Open], None], str]] = {
    "value in an output": (slower(LAST), f"{LAST} does not give .* 3.3955e.01"),
    "value of an earlier launch": (slower(FIRST), f"{FIRST} does not give the rows of its record"),
    "swapped outputs of two cases": (swap(LAST, "NodeHealth/rfm_job.out"), "Hpl: read_from"),
    "swapped outputs of two launches": (swap(FIRST, LAST), "does not give the rows of its record"),
    "removed output": (drop(LAST), "Hpl: read_from"),
    "removed output of an earlier launch": (drop(FIRST), "Hpl: metrics: performance: judged_from"),
    "changed promise": (
        replaced("promise.yaml", "nothing_judged: red", "nothing_judged: allowed"),
        "promise.yaml: is not the file that the session was compared with",
    ),
    "removed promise": (drop("promise.yaml"), "promise.yaml: is missing"),
    "added permission to skip": (
        replaced("session.json", '"may_skip": {}', '"may_skip": {"late": ["*"]}'),
        "may_skip is not that of promise.yaml",
    ),
    "a FAIL that other work is to excuse": (
        replaced("Hpl_retry5/assay.json", '"verdict": "PASS"', '"busy": "x", "verdict": "PASS"'),
        "no evidence|other work disturbed it|says 'PASS'",
    ),
    "removed case": (remove_case, r"session.json: says 35 promised cases, and lists 34"),
    "changed verdict of the session": (stated("verdict", to="FAIL"), "verdict: says 'FAIL'"),
    "changed verdict of a metric": (
        of_metric(lambda metric: metric.update(verdict="RECORDED")),
        "performance: says RECORDED, PASS follows",
    ),
    "changed sample": (
        of_metric(lambda metric: metric.update(samples=[35.0, *metric["samples"][1:]])),
        "performance: the outputs give 33.*the record says 35",
    ),
    "changed median": (
        of_metric(lambda metric: metric.update(value=40.0)),
        "performance: its launches give 34.*, the record says 40.0",
    ),
    "changed formula": (
        of_metric(lambda metric: metric.update(origin=[["*", 2, metric["origin"][0]]])),
        "performance: the outputs give",
    ),
    "changed bounds": (
        of_metric(lambda metric: metric.update(lower=1.0)),
        "performance: was judged by .*, 1, .*the references of the site say",
    ),
    "changed reference": (
        replaced("bench/references.yaml", "lower: -0.05", "lower: -0.45"),
        "performance: was judged by .*the references of the site say",
    ),
    "changed exit code": (replaced("Hpl_retry5/assay.launch", "rc=0", "rc=1"), "has exit code 1"),
    "exit code of an earlier launch": (
        replaced("Hpl_retry2/assay.launch", "rc=0", "rc=1"),
        "Hpl_retry2: assay.launch has exit code 1",
    ),
    "time of an earlier launch": (
        replaced("Hpl_retry2/assay.launch", "end=", "end=1"),
        "Hpl_retry2: the files give benchmark",
    ),
    "world of an earlier launch": (
        lambda found: found.members.update({found.name("Hpl_retry1/rfm_job.err"): b""}),
        "Hpl_retry1: the files give hosts {}, the record says {'vm': 2}",
    ),
    "another path of the messages": (
        lambda found: found.json(
            "Hpl_retry5/assay.json", lambda record: record["proof"].update(pml=["ucx"])
        ),
        r"Hpl_retry5: the files give pml \['ob1'\], the record says \['ucx'\]",
    ),
    "an MPI that gave up": (
        lambda found: found.members.update(
            {
                found.name("Hpl_retry5/rfm_job.err"): found.members[
                    found.name("Hpl_retry5/rfm_job.err")
                ]
                + b"mpirun noticed that process rank 1 exited on signal 9\n"
            }
        ),
        "Hpl_retry5: mpirun noticed that process rank 1",
    ),
    "changed date": (stated("start", to="2031-01-01T00:00:00+00:00"), "start: says '2031"),
    "changed host": (stated("nodes", to=["node01"]), "nodes: 0: says 'node01'"),
    "changed commit": (
        stated("suite", to=[{"commit": "0" * 40, "requirements_sha256": "", "reframe": ""}]),
        "suite: 0: commit: says '0000",
    ),
    "changed reason of a skip": (of_skip("no reason"), "TransportOpens.*: why: says 'no reason'"),
    "lost record": (drop("Hpl_retry5/assay.json"), "Hpl"),
    "another schema": (stated("schema", to=99), "is of schema 99"),
    "statement that is none": (replaced("statement.json", '"cases"', '"case"'), "is not the st"),
    "path out of the bundle": (
        stated("file", to="../../etc/passwd"),
        "is not in the bundle|is no",
    ),
    "included file from elsewhere": (
        replaced("bench/references.yaml", "references:", "include: [/etc/x.yaml]\nreferences:"),
        "includes /etc/x.yaml, which is not in the bundle",
    ),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_forged_contents_are_named_even_without_a_signature(signed, tmp_path, capsys, name):
    change, said = CONTENTS[name]
    found = Open(signed.path)
    unsigned(found)
    if name != "statement that is none":
        assert verify(found.pack(tmp_path / "unsigned.zip"), "--any-signer") == 0
    change(found)
    assert verify(found.pack(tmp_path / "forged.zip"), "--any-signer") == Exit.NOT_VALID
    out = capsys.readouterr().out
    assert re.search(f"refused: .*({said})", out), out


@pytest.mark.parametrize("name", CONTENTS)
def test_hashes_that_were_written_again_do_not_fit_the_signature(signed, tmp_path, capsys, name):
    found = Open(signed.path)
    CONTENTS[name][0](found)
    assert verify(found.pack(tmp_path / "forged.zip"), "--any-signer") == Exit.NOT_VALID
    assert "refused: " in capsys.readouterr().out


def removed_signature(signed: Signed, found: Open) -> None:
    found.signature = None


def of_another_text(signed: Signed, found: Open) -> None:
    found.signature = signature.sign(signed.ours, b"another text")


def of_another_key(signed: Signed, found: Open) -> None:
    sums = bundle.pack(found.members, None)
    path = signed.path.with_name("sums.zip")
    path.write_bytes(sums)
    found.signature = signature.sign(signed.other, bundle.read_bundle(path).sums)


def torn_signature(signed: Signed, found: Open) -> None:
    found.signature = (found.signature or b"")[:-30]


def named_another(signed: Signed, found: Open) -> None:
    found.state(signer=signature.fingerprint(signed.other))
    of_another_key(signed, found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (removed_signature, "refused: UNSIGNED: nobody vouches for it"),
        (of_another_text, "refused: SHA256SUMS.sig: is not the signature of SHA256SUMS"),
        (of_another_key, "refused: signed with the UNKNOWN KEY .*does not have it"),
        (torn_signature, "refused: SHA256SUMS.sig: is not the signature of SHA256SUMS"),
        (named_another, "UNKNOWN KEY .*does not have it"),
    ],
)
def test_a_forged_signature_is_refused(signed, tmp_path, capsys, change, said):
    found = Open(signed.path)
    change(signed, found)
    assert (
        verify(found.pack(tmp_path / "forged.zip"), "--signers", signed.signers) == Exit.NOT_VALID
    )
    assert re.search(said, capsys.readouterr().out)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (removed_signature, "refused: SHA256SUMS.sig: was removed; SHA256:.* was to sign"),
        (of_another_key, "refused: SHA256SUMS.sig: is of SHA256:.*; SHA256:.* was to sign"),
    ],
)
def test_another_signer_than_the_statement_names_is_refused(signed, tmp_path, capsys, change, said):
    found = Open(signed.path)
    change(signed, found)
    assert verify(found.pack(tmp_path / "forged.zip"), "--any-signer") == Exit.NOT_VALID
    assert re.search(said, capsys.readouterr().out)


def test_nothing_is_parsed_before_the_signer_is_known(signed, tmp_path, monkeypatch, capsys):
    """Of a file that nobody known signed, only the sums and the signature are unpacked."""
    nobody = tmp_path / "nobody"
    nobody.write_text(f"other@example.org {signed.other.with_suffix('.pub').read_text()}")
    found = Open(signed.path)
    found.signature = None
    bare = found.pack(tmp_path / "unsigned.zip")
    monkeypatch.setattr(bundle, "unpack", lambda *_: pytest.fail("it was unpacked"))
    monkeypatch.setattr(bundle, "_compared", lambda *_: pytest.fail("a member was read"))
    for path, more in ((signed.path, ("--signers", nobody)), (signed.path, ()), (bare, ())):
        assert verify(path, *more) == Exit.NOT_VALID
        (line,) = capsys.readouterr().out.splitlines()
        assert "nothing of it was read: --signers names who may sign" in line


def test_site_nodes_date_and_stack_are_printed(signed, capsys):
    assert verify(signed.path, "--signers", signed.signers) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "site: bench",
        "node: vm",
        "stack: system (recorded programs)",
        "date: 2026-11-22T20:29:06+00:00",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (("--site", "bench", "--since", "2026-11-22", "--nodes", "vm"), ""),
        (("--site", "other"), "it is of the site bench, not of other"),
        (("--since", "2027-01-01"), r"it is of 2026-11-22 .*, older than 2027-01-01"),
        (("--since", "2026-11-22T20:29:07+00:00"), ".*older than"),
        (("--nodes", "vm,node[1-2]"), "it lacks the nodes node1, node2"),
        (("--nodes", "other"), "it also has the nodes vm"),
    ],
)
def test_another_site_time_or_nodes_are_not_what_was_expected(signed, capsys, expected, said):
    code = verify(signed.path, "--signers", signed.signers, *expected)
    out = capsys.readouterr().out
    assert code == (Exit.UNEXPECTED if said else Exit.PASS)
    if said:
        assert re.search(f"not what was expected: {said}", out)


def test_a_date_that_is_none_is_wrong_usage(signed, capsys):
    with pytest.raises(SystemExit) as ended:
        verify(signed.path, "--since", "yesterday")
    assert ended.value.code == Exit.USAGE
    assert "'yesterday' is no date; write 2026-11-28" in capsys.readouterr().err


def test_a_changed_file_is_named_by_its_hash(signed, tmp_path, capsys):
    found = Open(signed.path)
    sums = bundle.read_bundle(signed.path).sums
    name = found.name(LAST)
    assert name.startswith(f"results/{OUTPUT.partition('/')[2]}")
    found.members[name] += b" "
    path = tmp_path / "changed.zip"
    packed = bundle.pack(found.members, None)
    path.write_bytes(packed)
    # The signed hashes in place of those of the changed file.
    with zipfile.ZipFile(path) as read, zipfile.ZipFile(tmp_path / "forged.zip", "w") as made:
        for entry in read.infolist():
            content = sums if entry.filename == bundle.SUMS else read.read(entry)
            made.writestr(zipfile.ZipInfo(entry.filename), content)
    assert verify(tmp_path / "forged.zip", "--any-signer") == Exit.NOT_VALID
    assert f"refused: {name}: was changed" in capsys.readouterr().out


def test_what_does_not_follow_is_not_signed(signed, tmp_path, capsys):
    data = shutil.copytree(DATA, tmp_path / "data")
    (references,) = data.rglob("references.yaml")
    references.write_text(references.read_text().replace("lower: -0.05", "lower: -0.04"))
    report = data / "results/reports/run-report-0.json"
    output = tmp_path / "certificate.zip"
    assert certify(output, signed.ours, session=report, folder=data / "site-config") == 2
    err = capsys.readouterr().err
    assert "this verdict does not follow: Hpl @bench:here+system: performance: was judged by" in err
    assert not output.exists()


def test_the_verdict_of_a_certificate_is_the_exit_code(signed, tmp_path):
    data = shutil.copytree(DATA, tmp_path / "data")
    (plan,) = data.rglob("session.json")
    plan.unlink()
    report = data / "results/reports/run-report-0.json"
    output = tmp_path / "certificate.zip"
    assert certify(output, signed.ours, session=report, folder=data / "site-config") == 4
    assert json.loads(Open(output).members["statement.json"])["verdict"] == "PARTIAL"
    assert verify(output, "--signers", signed.signers) == 4


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: folder / "nothing", "no key of OpenSSH"),
        (lambda folder: (folder / "text").write_text("text") and folder / "text", "no key of Open"),
    ],
)
def test_a_key_that_is_none_writes_nothing(tmp_path, capsys, make, said):
    assert certify(tmp_path / "certificate.zip", make(tmp_path)) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "certificate.zip").exists()


def test_a_public_key_without_an_agent_cannot_sign(signed, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    public = shutil.copy(signed.ours.with_suffix(".pub"), tmp_path / "alone.pub")
    assert certify(tmp_path / "certificate.zip", public) == 2
    assert "cannot sign" in capsys.readouterr().err


def test_without_openssh_nothing_is_decided(signed, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert verify(signed.path, "--signers", signed.signers) == 2
    assert "install it" in capsys.readouterr().err


def test_signers_that_are_not_there(signed, tmp_path, capsys):
    assert verify(signed.path, "--signers", tmp_path / "nobody") == 2
    assert "no such file" in capsys.readouterr().err


def test_the_recorded_session_is_of_no_one_machine() -> None:
    """The data of these tests does not name where they were recorded."""
    for path in DATA.rglob("*"):
        if path.is_file():
            assert not re.search(rb"/var/tmp/|/work/|/root/", path.read_bytes()), path
    assert json.loads((DATA / "results/reports/run-report-0.json").read_text())
