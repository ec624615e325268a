"""A worker that somebody else has started: who could speak to it, and what it may be called."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("distributed", reason="the package distributed is not installed: the extra fleet")

from kit.core.errors import UsageError
from kit.extra.fleet.service.preload import dask_setup
from kit.extra.fleet.service.share_runner import describe

if TYPE_CHECKING:
    from distributed import Worker

SAFE = "tls://10.0.0.1:8786"
HERE = "tcp://127.0.0.1:8786"


def setup(listens: str, scheduler: str, name: str = "b7") -> list[str]:
    """Names of the plugins that it gets."""
    added: list[str] = []

    async def plugin_add(plugin: Any, name: str) -> None:
        added.append(name)

    worker = SimpleNamespace(
        listen_address=listens, scheduler=SimpleNamespace(address=scheduler), name=name, plugin_add=plugin_add
    )
    asyncio.run(dask_setup(cast("Worker", worker)))
    return added


@pytest.mark.parametrize(("listens", "scheduler"), [(SAFE, SAFE), (HERE, HERE), ("tcp://[::1]:9", SAFE)])
def test_with_tls_or_on_this_machine_alone(listens: str, scheduler: str) -> None:
    assert setup(listens, scheduler) == ["kit"]


@pytest.mark.promise("a fleet", "Without certificates, a fleet stays on this machine.")
@pytest.mark.parametrize(
    ("listens", "scheduler"), [("tcp://0.0.0.0:9", HERE), ("tcp://10.0.0.1:9", SAFE), (SAFE, "tcp://10.0.0.1:9")]
)
def test_else_its_process_ends(listens: str, scheduler: str) -> None:
    with pytest.raises(SystemExit, match="no fleet without TLS on"):
        setup(listens, scheduler)


@pytest.mark.parametrize("name", ["big builder", "b1,b2", "", "b\n"])
def test_a_name_that_facts_could_not_list_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot have the name"):
        describe(name, "", False, None)
    with pytest.raises(SystemExit, match="cannot have the name"):
        setup(SAFE, SAFE, name)
