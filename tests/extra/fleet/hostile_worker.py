"""A hostile machine with a worker's certificate: ``python -m tests.extra.fleet.hostile_worker PORT TLS DIRECTORY HOW``.

Whatever unpickles what it sends writes its process id into the directory. ``scheduler``: send the scheduler everything
that once ran there. Otherwise join the fleet and answer each share in that way.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from distributed import get_worker
from distributed.comm.core import connect
from distributed.protocol.serialize import Serialize, ToPickle

from kit.extra.fleet.address import Address, parse_address, security
from kit.extra.fleet.service import worker
from kit.extra.fleet.service.share_runner import ShareRunner
from tests.extra.fleet.machines import ONE

#: Seconds for an answer of the scheduler: it may leave out any.
PATIENCE = 3


@dataclass
class Code:
    directory: str
    how: str

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return exec, (f"import os; open({self.directory!r} + f'/{{os.getpid()}}-{self.how}', 'w').close()",)


class CodeError(Exception):
    def __init__(self, code: Code) -> None:
        super().__init__("an error")
        self.code = code

    def __reduce__(self) -> tuple[type[CodeError], tuple[Code]]:
        return CodeError, (self.code,)


async def attack(address: Address, directory: str) -> None:
    def code(how: str) -> bytes:
        return pickle.dumps(Code(directory, how))

    calls: list[list[Any]] = [
        [{"op": "identity", "more": ToPickle(Code(directory, "anywhere"))}],
        [{"op": "register_scheduler_plugin", "plugin": code("plugin"), "name": "x", "idempotent": False}],
        [{"op": "register_scheduler_plugin", "plugin": ToPickle(Code(directory, "plugin")), "name": "x"}],
        [{"op": "feed", "function": code("feed"), "interval": "1s"}],
        [{"op": "run_function", "function": code("function"), "args": pickle.dumps(()), "kwargs": pickle.dumps({})}],
        [{"op": "dump_cluster_state_to_url", "url": f"{directory}/dump", "exclude": [], "format": "yaml"}],
        [
            {"op": "register-client", "client": "hostile", "versions": {}},
            [{"op": "update-graph", "expr_ser": Serialize(Code(directory, "graph")), "keys": {"k"},
              "span_metadata": {}, "internal_priority": None, "submitting_task": None}],
        ],
        [
            {"op": "register-client", "client": "hostile", "versions": {}},
            [{"op": "log-event", "topic": "x", "msg": ToPickle(Code(directory, "stream"))}],
        ],
    ]  # fmt: skip
    shown = security(address, "worker")
    assert shown
    for messages in calls:
        comm = await connect(address.url, **shown.get_connection_args("worker"))
        with suppress(OSError, TimeoutError):
            for message in messages:
                await comm.write(message)
                await asyncio.wait_for(comm.read(), PATIENCE)
        comm.abort()


def answer(directory: str, how: str, topic: str) -> Any:
    mine = get_worker()
    key = str(mine.get_current_task())
    code = Code(directory, how)
    match how:
        case "result":
            return code
        case "nested":
            return {"a": [code]}
        case "error":
            raise CodeError(code)
        case "number":
            return 5
        case "event":
            lines = [{"key": key, "line": line} for line in (Serialize(code), 3, "[]", "[" * 100_000)]
            for said in (Serialize(code), 3, {"key": [1]}, *lines):
                mine.log_event(topic, said)
        case "warning":
            mine.log_event("warn", {"message": pickle.dumps(code), "category": pickle.dumps(code)})
            mine.log_event("print", {"args": ("PRINTED\x1b[2J",)})
    return "over"


def main() -> None:
    port, tls, directory, how = sys.argv[1:]
    address = parse_address(f"127.0.0.1:{port}", tls)
    if how == "scheduler":
        asyncio.run(attack(address, directory))
        return
    worker.run_share = lambda text, topic: answer(directory, how, topic)
    worker.run_worker(address, ShareRunner(ONE), print)


if __name__ == "__main__":
    main()
