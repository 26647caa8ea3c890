"""The messages of the command about itself, and about an unknown command."""

import pytest

from assay import __version__, cli


def test_a_typing_error_is_told_the_nearest_command(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["repot"])
    assert ended.value.code == 2
    assert "no command 'repot'; did you mean 'report'?" in capsys.readouterr().err


def test_a_word_that_is_near_to_nothing_is_told_all_of_them(capsys):
    with pytest.raises(SystemExit):
        cli.main(["xyzzy"])
    assert "invalid choice: 'xyzzy'" in capsys.readouterr().err


def test_the_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"assay {__version__}\n"
