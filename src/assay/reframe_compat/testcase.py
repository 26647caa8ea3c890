"""Facts about a ReFrame test that only private names of ReFrame give."""

from __future__ import annotations

from typing import Any


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


def registered(module: Any) -> list[tuple[type, Any]]:
    """The test classes that a module registers, each with the arguments of its variants."""
    registry = getattr(module, "_rfm_test_registry", None)
    return list(registry._tests.items()) if registry else []
