"""Measured tests under pytest-xdist, whose workers would run other tests meanwhile: refused before the first test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

FIXTURE = "kit_compare"
#: What a worker reports to the process that started it.
_REFUSED = "kit_refused"


def refuse_xdist(config: pytest.Config, what: str) -> None:
    """Refuse any run under xdist. ``what``: measures. Raises pytest.UsageError."""
    if hasattr(config, "workerinput") or config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError(_refusal(what))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse measured tests in a worker. Other tests may run there. Raises pytest.UsageError."""
    measured = _measured(session.items) if hasattr(session.config, "workerinput") else []
    if measured:
        more = f" and {len(measured) - 1} more" if len(measured) > 1 else ""
        text = _refusal(f"{measured[0]}{more}")
        session.config.workeroutput[_REFUSED] = text  # type: ignore[attr-defined]
        raise pytest.UsageError(text)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """End the whole run for what a worker has refused. Raises pytest.UsageError."""
    text = getattr(node, "workeroutput", {}).get(_REFUSED)
    if text:
        raise pytest.UsageError(text)


def _measured(items: Sequence[pytest.Item]) -> list[str]:
    return [item.nodeid for item in items if FIXTURE in getattr(item, "fixturenames", ())]


def _refusal(what: str) -> str:
    return f"kit: {what} under xdist: benchmarks must not share a machine; fix: run it without -n, or with -n 0"
