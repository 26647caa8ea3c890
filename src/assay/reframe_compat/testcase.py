"""Facts about a ReFrame test that only private names of ReFrame give."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.node import recorded


def place(test: Any) -> tuple[Any, Any]:
    """Partition and environment of a test's case; they are known before its set-up."""
    _, partition, environ = test._case()
    return partition, environ


def compared(test: Any) -> list[Any]:
    """The tests that a test depends on, as they ran for it."""
    return [case.check for case in test._case().deps]


def move(test: Any, stagedir: str) -> None:
    """Makes ReFrame and the report look into another stage directory."""
    test._stagedir = stagedir


def parameters(test: type) -> list[str]:
    """Names of a test's parameters.

    Parameters that ReFrame adds by itself (``--repeat``, ``--distribute``) begin with a dot and are
    left out.
    """
    return [name for name in test.raw_params if not name.startswith(".")]  # type: ignore[attr-defined]


def of_assay(test: Any) -> bool:
    """Whether a test, or its entry in a run report, is of Assay: it has a purpose."""
    return "purpose" in test if isinstance(test, dict) else hasattr(test, "purpose")


def other_sanity(test: type, ours: type) -> str:
    """The name of a sanity function that a class has in place of that of `ours`; else empty."""
    kept = vars(ours)["_rfm_sanity"]
    found = (vars(each).get("_rfm_sanity", kept) for each in test.__mro__)
    return next((str(each.__name__) for each in found if each is not kept), "")


def outputs_of(test: Any) -> Iterator[Path]:
    """The files in its stage directory that a test keeps."""
    stage = Path(test.stagedir)
    if job := test.job:
        yield from (stage / name for name in (job.stdout, job.stderr, job.script_filename))
    for pattern in map(str, test.keep_files):
        if not Path(pattern).is_absolute():
            yield from stage.glob(pattern)


def hide_values(test: Any) -> None:
    """Takes the values that may not be written down out of the outputs of a test of Assay.

    JSON is left out: the suite wrote it. What cannot be read or written stays as it is.
    """
    if not of_assay(test):
        return
    known = recorded.listed(str(Path(test.stagedir) / "recorded.txt")) or recorded.listed()
    for path in (file for each in outputs_of(test) for file in (each, *each.rglob("*"))):
        with contextlib.suppress(OSError):
            if path.is_symlink() or not path.is_file() or path.suffix == ".json":
                continue
            before = path.read_bytes().decode(errors="surrogateescape")
            after = recorded.redacted(before, known)
            if after != before:
                written = path.stat()
                path.write_bytes(after.encode(errors="surrogateescape"))
                os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))


def declared(path: Path) -> list[tuple[type, Any]]:
    """The tests that a file declares to ReFrame: class, and arguments of each of its variants.

    Every exception of the file is passed on.
    """
    spec = importlib.util.spec_from_file_location(f"suite_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path}: not a file of Python")
    module = importlib.util.module_from_spec(spec)
    # ReFrame looks up here where a class was defined; 4.9 does so each time it makes a test.
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    registry = getattr(module, "_rfm_test_registry", None)
    return list(registry._tests.items()) if registry else []
