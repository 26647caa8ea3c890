"""What may be written down: values of listed variables, and addresses without their users."""

from pathlib import Path

import pytest

from assay.node import recorded
from assay.parse import openmpi, ucx_log
from assay.reframe_compat.command import Option

DATA = Path(__file__).parents[2] / "data"
KNOWN = recorded.listed()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("UCX_* env variables: UCX_APIKEY=a b UCX_TLS=tcp,self UCX_PWD=c", None),
        ("[vm:7] btl_PASS=a b (environment)", "[vm:7] btl_PASS=*** (environment)"),
        ("[vm:7] x=a b (file (/e/x.conf:1))", "[vm:7] x=*** (file (/e/x.conf:1))"),
        ("[vm:7] pml=ob1 (environment)", "[vm:7] pml=ob1 (environment)"),
        ("OMP_PASSPHRASE=a; b=c\nnext", "OMP_PASSPHRASE=*** b=c\nnext"),
        ("'OMP_X' = 3, MYUCX_X=1 %UCX_X=2 HOME=/x", "'OMP_X' = 3, MYUCX_X=1 %UCX_X=2 HOME=/x"),
        ("to http://me:p@ss@host:9/a?b=c@d.", "to http://***@host:9/a?b=c@d."),
        ("git+ssh://me@host/x", "git+ssh://***@host/x"),
        ('{"a": "tcp://1.2.3.4:5", "b": "me@host"}', '{"a": "tcp://1.2.3.4:5", "b": "me@host"}'),
    ],
)
def test_only_what_is_listed_is_written_down(text: str, written: str | None) -> None:
    written = written or "UCX_* env variables: UCX_APIKEY=*** UCX_TLS=tcp,self UCX_PWD=***"
    assert recorded.redacted(text, KNOWN) == written
    assert recorded.redacted(written, KNOWN) == written


def test_nothing_that_is_judged_is_taken_out_of_recorded_outputs() -> None:
    worlds = 0
    for path in DATA.rglob("*"):
        if not path.is_file() or path.suffix in (".json", ".md"):
            continue
        before = path.read_bytes().decode(errors="surrogateescape")
        after = recorded.redacted(before, KNOWN)
        if after == before:
            continue
        assert ucx_log.parse_ucx_log(after).tables == ucx_log.parse_ucx_log(before).tables, path
        seen, saw = openmpi.parse_openmpi(after), openmpi.parse_openmpi(before)
        worlds += saw.worlds
        hidden = {name for name, value in saw.settings.items() if seen.settings[name] != value}
        assert hidden <= {"orte_top_session_dir", "orte_jobfam_session_dir"}, path
        assert seen.selected == saw.selected and seen.leaders == saw.leaders, path
    assert worlds > 10


def test_an_option_says_no_user_of_an_address() -> None:
    assert str(Option("vars", "-S", "url=http://me:pw@host")) == "-S url=http://***@host"
