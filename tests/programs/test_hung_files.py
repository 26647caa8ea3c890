"""A file system that hangs is named, and ends the run once."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from reframe.core.exceptions import ConfigError

from assay import sites
from assay.node import provenance
from assay.store import running


def hangs(*_, **__):
    time.sleep(1000)  # in a child, which is killed


@pytest.fixture(autouse=True)
def limit(monkeypatch):
    monkeypatch.setattr(provenance, "LIMIT", 0.2)


def test_results_on_a_file_system_that_hangs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(Path, "mkdir", hangs)
    with pytest.raises(ConfigError) as caught:
        sites.results_directory(tmp_path / "reframe.py")
    said = "results cannot be written here (did not answer within 0.2 s)"
    assert str(caught.value).startswith(f"{tmp_path}/results: {said}; set ASSAY_RESULTS")


def test_a_file_system_that_hangs_during_a_run_is_named_once_and_ends_it(
    tmp_path, monkeypatch, capsys
):
    killed, kill = [], os.kill
    monkeypatch.setattr(running, "EVERY", 0)
    monkeypatch.setattr(
        os, "kill", lambda *of: killed.append(of) if of[0] == os.getpid() else kill(*of)
    )
    monkeypatch.setattr(os, "statvfs", hangs)
    running._watch_files(tmp_path, threading.Event())
    assert killed == [(os.getpid(), signal.SIGTERM)]
    line = f"assay: {tmp_path}: its file system did not answer within 0.2 s: the run ends\n"
    assert capsys.readouterr().err == line
