"""The host must belong to the site, and no ReFrame variable may silently change the run."""

import os
import re
import runpy
import socket
import sys
from pathlib import Path

import forked
import pytest
import shell
from shell import ROOT

pytest.importorskip("reframe")

from reframe.core.exceptions import ConfigError

from assay import sites
from assay.describe import detect
from assay.prove import call as calls
from assay.reframe_compat import command

SITES = ROOT / "site-config"
FILE = SITES / "myuni" / "reframe.py"

#: Host names that must not match the pattern of a cluster.
HOSTS = ("debian", "laptop", "vm", "node1", "runner-1", "loginlike", "a")


def test_a_host_of_another_name_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop")
    with pytest.raises(ConfigError) as error:
        sites.check_system(FILE, FILE.parent.name, ["login[0-9]+", "gpu"], None)
    assert str(error.value) == (
        f"{FILE}: the host 'laptop' is not of the site 'myuni' (its hostnames are login[0-9]+, "
        "gpu); say --system=myuni if it is, or put its name into the hostnames of its system"
    )


def test_the_pattern_is_matched_as_reframe_does_it(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "login3.cluster")
    sites.check_system(FILE, FILE.parent.name, ["gpu", "login[0-9]+"], None)
    with pytest.raises(ConfigError):
        sites.check_system(FILE, FILE.parent.name, ["cluster"], None)
    with pytest.raises(ConfigError, match=r"'login\(' is not a regular expression"):
        sites.check_system(FILE, FILE.parent.name, ["login("], None)


def test_a_system_that_was_said_needs_no_pattern(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop")
    sites.check_system(FILE, FILE.parent.name, ["login"], "myuni")
    sites.check_system(FILE, FILE.parent.name, ["login"], "myuni:tmpfs")
    for other in ("generic", "myuni2", "local:tmpfs"):
        with pytest.raises(ConfigError, match=f"--system={other} is not of the site 'myuni'"):
            sites.check_system(FILE, FILE.parent.name, [".*"], other)


def test_nothing_but_reframe_itself_is_a_call_of_reframe():
    assert command.of_reframe() is None


def parser():
    """A parser of ReFrame with some of its options."""
    of_reframe = pytest.importorskip("reframe.frontend.argparse").ArgumentParser()
    group = of_reframe.add_argument_group("group")
    group.add_argument("-S", "--setvar", action="append", dest="vars", default=[])
    group.add_argument("-J", "--job-option", action="append", dest="job_options", default=[])
    group.add_argument("-p", "--prgenv", action="append", default=[".*"])
    group.add_argument("-m", "--module", action="append", dest="user_modules",
                       envvar="RFM_USER_MODULES ,")  # fmt: skip
    group.add_argument("--timestamp", nargs="?", const=object())
    group.add_argument("-v", "--verbose", action="count", envvar="RFM_VERBOSE")
    group.add_argument("--max-retries", default=0, type=int)
    group.add_argument("--system", envvar="RFM_SYSTEM")
    group.add_argument("--nocolor", action="store_false", dest="colorize", envvar="RFM_COLORIZE")
    return of_reframe


def test_every_option_that_is_given_is_read_from_the_parser_of_reframe():
    words = "-S a=1 --setvar=b=2 -J nodelist=n1 -p spack -vv --max-retries=8 --timestamp --nocolor"
    asked = parser()
    options = asked._holder.parse_args(words.split())
    assert {str(option) for option in command._given(asked, options)} == {
        "-S a=1", "-S b=2", "-J nodelist=n1", "-p spack", "-v", "--max-retries=8", "--timestamp",
        "--nocolor",
    }  # fmt: skip
    assert list(command._given(asked, asked._holder.parse_args([]))) == []


def test_every_variable_of_reframe_is_read_as_the_option_that_it_stands_for():
    environment = {
        "RFM_SYSTEM": "x:y", "RFM_USER_MODULES": "gcc,mpi", "RFM_TOMORROW": "1", "PATH": "/bin"
    }  # fmt: skip
    found = [(o.dest, str(o)) for o in command._variables(parser(), environment)]
    assert found == [
        ("system", "RFM_SYSTEM=x:y"),
        ("RFM_TOMORROW", "RFM_TOMORROW=***"),
        ("user_modules", "RFM_USER_MODULES=gcc"),
        ("user_modules", "RFM_USER_MODULES=mpi"),
    ]


def test_the_names_of_options_are_those_of_reframe():
    """An option that ReFrame renames must not fall out of a table unseen."""
    cli = (Path(pytest.importorskip("reframe.frontend").__file__).parent / "cli.py").read_text()

    def names(group):
        calls = re.findall(rf"{group}add_argument\(\s*(.*?)\n    \)", cli, re.DOTALL)
        found = (
            re.search(r"dest='(\w+)'", call) or re.search(r"'--([\w-]+)'", call)
            for call in calls
            if "'-V'" not in call
        )
        return {name[1].replace("-", "_") for name in found}

    assert len(names("")) > 90
    known = {*calls.HARMLESS, *calls.SELECTING, *calls.OFF} - {"RFM_INSTALL_PREFIX"}
    assert known <= names("")
    assert len(selecting := names(r"select_options\.")) > 9
    assert selecting <= calls.SELECTING


@pytest.mark.parametrize("off", ["skip_sanity_check", "skip_performance_check", "hooks"])
def test_a_run_without_its_checks_is_refused(off):
    given = [command.Option(off, "--off", "x")]
    with pytest.raises(ConfigError, match="--off: a run without its checks proves nothing"):
        sites.check_switches(given)


@pytest.mark.parametrize("site", shell.SITES)
def test_only_a_site_that_reads_or_emulates_the_machine_takes_any_host(site, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    monkeypatch.setattr(detect, "release", lambda: "ubuntu 24.04")
    try:
        found = runpy.run_path(str(shell.SITES[site]))["site_configuration"]
    except ConfigError as error:
        assert site in ("local", "any", "vgpu"), error
        pytest.skip(f"needs an MPI on this machine ({error})")
    for system in found["systems"]:
        taken = [h for h in HOSTS if any(re.match(p, h) for p in system["hostnames"])]
        everywhere = site in ("local", "any", "vgpu", "debian12-cuda")
        assert taken == (list(HOSTS) if everywhere else []), system["hostnames"]


def test_the_plain_command_finds_the_tests_of_the_suite_from_anywhere(tmp_path):
    file = SITES / "any" / "reframe.py"

    def found(*words, **variables):
        reframe = Path(sys.executable).with_name("reframe")
        variables.update(ASSAY_RESULTS=tmp_path / "results", HOME=tmp_path)
        environment = {**os.environ, **{k: str(v) for k, v in variables.items()}}
        done = forked.reframe(reframe, *words, "-l", cwd=tmp_path, environment=environment)
        return re.findall(r"^Found (\d+) check", done.stdout, re.M) or done.stdout

    every = found("-C", file, "-c", ROOT / "reframe", "-R")
    assert int(every[0]) > 50
    assert found("-C", file) == every
    assert found("--system=any", RFM_CONFIG_FILES=file) == every


def debian12(monkeypatch, tmp_path, release):
    """Loads the site debian12 as ReFrame does, on a machine with the distribution `release`."""
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    monkeypatch.setattr(detect, "release", lambda: release)
    monkeypatch.setattr(command, "of_reframe", lambda: command.Invocation(False, None))
    runpy.run_path(str(SITES / "debian12" / "reframe.py"))


def test_debian_12_is_decided_by_the_machine(monkeypatch, tmp_path):
    debian12(monkeypatch, tmp_path, "debian 12")
    said = "site 'debian12' have debian 12, the host .* has ubuntu 24.04; say --system=debian12"
    with pytest.raises(ConfigError, match=said):
        debian12(monkeypatch, tmp_path, "ubuntu 24.04")


def test_the_release_of_a_distribution():
    assert detect.release('PRETTY_NAME="Debian"\nVERSION_ID="12"\nID=debian\n') == "debian 12"
    assert detect.release("ID=arch\nVERSION_IDS=3\n") == "arch"
    assert detect.release("") == "an unknown distribution"
