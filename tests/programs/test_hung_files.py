"""A file system that hangs is named, and ends the run once."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import shell
from reframe.core.exceptions import ConfigError

from assay import sites
from assay.node import answers
from assay.store import running


def hangs(*_, **__):
    time.sleep(1000)  # in a child, which is killed


@pytest.fixture(autouse=True)
def limit(monkeypatch):
    monkeypatch.setattr(answers, "LIMIT", 0.2)


def test_results_on_a_file_system_that_hangs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(Path, "mkdir", hangs)
    with pytest.raises(ConfigError) as caught:
        sites.results_directory(tmp_path / "reframe.py")
    said = "results cannot be written here (did not answer within 0.2 s)"
    assert str(caught.value).startswith(f"{tmp_path}/results: {said}; set ASSAY_RESULTS")


@pytest.mark.parametrize("looks", [1, 2])
def test_a_file_system_that_hangs_for_two_looks_is_named_once_and_ends_the_run(
    tmp_path, monkeypatch, capsys, looks
):
    """`stat` hangs for so many looks; the watch over a file system that answers again goes on."""
    script = 'echo >>"$0.log"; [ "$(wc -l <"$0.log")" -gt LOOKS ] || exec sleep 1000'
    shell.program(tmp_path, "stat", script.replace("LOOKS", str(looks)))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(running, "EVERY", 0)
    killed, over, kill = [], threading.Event(), os.kill
    monkeypatch.setattr(
        os, "kill", lambda *of: killed.append(of) if of[0] == os.getpid() else kill(*of)
    )
    watch = threading.Thread(target=running._watch_files, args=(tmp_path, over))
    watch.start()
    log = tmp_path / "stat.log"
    log.touch()
    while watch.is_alive() and log.read_text().count("\n") < 4:
        time.sleep(0.01)
    over.set()
    watch.join()
    ends = looks == 2
    assert killed == [(os.getpid(), signal.SIGTERM)] * ends
    line = f"assay: {tmp_path}: its file system did not answer within 0.4 s: the run ends\n"
    assert capsys.readouterr().err == line * ends
