"""The host must belong to the site, and no ReFrame variable may silently change the run."""

import re
import runpy
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from shell import ROOT

pytest.importorskip("reframe")

from reframe.core.exceptions import ConfigError

from assay.reframe_compat import command
from assay.sites import detect, invocation

SITES = ROOT / "site-config"
FILE = SITES / "myuni" / "reframe.py"

#: Host names that must not match the pattern of a cluster.
HOSTS = ("debian", "laptop", "vm", "node1", "runner-1", "loginlike", "a")


def test_a_host_of_another_name_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop")
    with pytest.raises(ConfigError) as error:
        invocation.check_system(FILE, ["login[0-9]+", "gpu"], None)
    assert str(error.value) == (
        f"{FILE}: the host 'laptop' is not of the site 'myuni' (its hostnames are login[0-9]+, "
        "gpu); say --system=myuni if it is, or put its name into hostnames of that file"
    )


def test_the_pattern_is_matched_as_reframe_does_it(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "login3.cluster")
    invocation.check_system(FILE, ["gpu", "login[0-9]+"], None)
    with pytest.raises(ConfigError):
        invocation.check_system(FILE, ["cluster"], None)
    with pytest.raises(ConfigError, match=r"'login\(' is not a regular expression"):
        invocation.check_system(FILE, ["login("], None)


def test_a_system_that_was_said_needs_no_pattern(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop")
    invocation.check_system(FILE, ["login"], "myuni")
    invocation.check_system(FILE, ["login"], "myuni:tmpfs")
    for other in ("generic", "myuni2", "local:tmpfs"):
        with pytest.raises(ConfigError, match=f"--system={other} is not of the site 'myuni'"):
            invocation.check_system(FILE, [".*"], other)


@pytest.mark.parametrize("name", ["RFM_SYSTEM", "RFM_CONFIG_FILES", "RFM_OF_TOMORROW"])
def test_a_variable_that_changes_the_run_is_refused_by_name(name):
    with pytest.raises(ConfigError, match=f"{name} in the environment.*unset {name}"):
        invocation.check_environment(["PATH", "RFM_COLORIZE", name])


def test_what_only_changes_the_print_is_taken():
    invocation.check_environment(["RFM_COLORIZE", "RFM_VERBOSE", "RFM_INSTALL_PREFIX", "XRFM_X"])


def test_every_variable_of_reframe_is_known_to_be_harmless_or_refused():
    cli = (Path(pytest.importorskip("reframe.frontend").__file__).parent / "cli.py").read_text()
    said = set(re.findall(r"envvar='(RFM_\w+)", cli))
    assert len(said) > 40
    assert invocation.HARMLESS - {"RFM_INSTALL_PREFIX"} <= said


def test_nothing_but_reframe_itself_is_a_call_of_reframe():
    assert command.of_reframe() is None


def given(**options):
    """A command line of ReFrame with these options, as ReFrame parses it."""
    none = {"system": None, "mode": None, "checkpath": None, "prgenv": [".*"]}
    return SimpleNamespace(**{**none, **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, []),
        ({"mode": "smoke", "system": "local"}, []),
        ({"names": ["Osu", "Hpl"]}, ["-n Osu", "-n Hpl"]),
        ({"exclude_names": ["Osu"], "cpu_only": True}, ["-x Osu", "--cpu-only"]),
        ({"tags": ["node"], "filter_expr": ["num_tasks>1"]}, ["-t node", "-E num_tasks>1"]),
        ({"prgenv": [".*", "spack"]}, ["-p spack"]),
        ({"system": "local:tmpfs"}, ["--system=local:tmpfs"]),
        ({"mode": "paper-full"}, ["--mode=paper-full"]),
        (
            {"vars": ["profile=smoke", "least_launches=6", "Osu.env_vars=UCX_RNDV_THRESH:0"]},
            ["-S Osu.env_vars=UCX_RNDV_THRESH:0"],
        ),
        ({"restore_session": "report.json"}, ["--restore-session report.json"]),
    ],
)
def test_an_option_that_selects_some_of_the_cases_is_named(options, said):
    assert list(command._narrowed(given(**options))) == said


def test_every_option_of_reframe_that_selects_is_known():
    cli = (Path(pytest.importorskip("reframe.frontend").__file__).parent / "cli.py").read_text()
    options = re.findall(r"select_options\.add_argument\(\s*(.*?)\n    \)", cli, re.DOTALL)
    assert len(options) > 9
    for option in options:
        dest = re.search(r"dest='(\w+)'", option) or re.search(r"'--([\w-]+)'", option)
        assert dest[1].replace("-", "_") in command._NARROWING, option


@pytest.mark.parametrize("site", sorted(p.parent.name for p in SITES.glob("*/reframe.py")))
def test_only_a_site_that_reads_or_emulates_the_machine_takes_any_host(site, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    monkeypatch.setattr(detect, "release", lambda: "ubuntu 24.04")
    try:
        found = runpy.run_path(str(SITES / site / "reframe.py"))["site_configuration"]
    except ConfigError as error:
        assert site in ("local", "any", "vgpu"), error
        pytest.skip(f"needs an MPI on this machine ({error})")
    for system in found["systems"]:
        taken = [h for h in HOSTS if any(re.match(p, h) for p in system["hostnames"])]
        everywhere = site in ("local", "any", "vgpu", "debian12-cuda")
        assert taken == (list(HOSTS) if everywhere else []), system["hostnames"]


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
