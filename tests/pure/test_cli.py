"""The messages of the command about itself, and about an unknown command."""

import pytest
import reframe  # noqa: F401 - it sets a variable, which a test must not

from assay import __version__, cli


@pytest.mark.parametrize(
    ("word", "code", "out", "err"),
    [
        ("repot", 64, "", "no command 'repot'; did you mean 'report'?"),
        ("xyzzy", 64, "", "no command 'xyzzy'; known are archive, "),
        ("--version", 0, f"assay {__version__}\n", ""),
    ],
)
def test_a_word_that_is_no_command(capsys, word, code, out, err):
    with pytest.raises(SystemExit) as ended:
        cli.main([word])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (code, out)
    assert err in said.err
