"""Puts into a wheel what the suite has beside the library, as the folder `assay/suite`."""

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("reframe", "site-config")
LOCK, ARCHIVED = "requirements/run.lock", ".git_archival.txt"


class WithSuite(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            return
        suite = Path(self.build_lib, "assay", "suite")
        shutil.rmtree(suite, ignore_errors=True)
        for name in FOLDERS:
            shutil.copytree(name, suite / name, ignore=shutil.ignore_patterns("__pycache__"))
        (suite / LOCK).parent.mkdir()
        shutil.copy(LOCK, suite / LOCK)
        shutil.copy(ARCHIVED, suite)
        # Node tests record the commit of the suite. No git tells it where the wheel is installed.
        git = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        if Path(".git").exists():
            commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout
            (suite / ARCHIVED).write_text(f"node: {commit}" if commit else "")


setup(cmdclass={"build_py": WithSuite})
