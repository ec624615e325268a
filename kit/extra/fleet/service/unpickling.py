"""Restricts what a client and a scheduler unpickle to plain values: nothing may name code.

Dask sends most of its messages as msgpack, but includes pickles. Anyone with a certificate of the fleet can send one,
and a pickle may name and call any function. A worker is not restricted: its tasks are code."""

from __future__ import annotations

import io
import json
import pickle
import sys
import types
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kit.core.codec import decode_json
from kit.core.errors import MachineError

if TYPE_CHECKING:
    from distributed import Scheduler

#: The handlers of a scheduler that the kit's clients and workers use. Other handlers of Dask take functions, or write
#: files.
_ASKED = (
    "register-client", "register-worker", "register_nanny", "heartbeat_worker", "unregister", "retire_workers",
    "identity", "processing", "events", "gather", "who_has", "versions", "connection_stream",
)  # fmt: skip


class CodeRefusedError(TypeError):
    """A pickle names something. It is a TypeError, which Dask handles without a traceback."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise CodeRefusedError(f"a pickle that names {module[:100]}.{name[:100]}")


def load_plain(data: Any, *, buffers: Iterable[Any] = ()) -> Any:
    """Return the value of a pickle, or one of the types that Dask sends itself. Raises CodeRefusedError, and the errors
    of ``pickle.Unpickler``."""
    dask_type = _known_types().get(bytes(data)) if len(data) < 100 else None
    return dask_type or _Unpickler(io.BytesIO(data), buffers=buffers).load()


def _known_types() -> dict[bytes, type]:
    from dask._expr import LLGExpr

    kinds = (bytes, LLGExpr)
    return {pickle.dumps(kind, protocol): kind for kind in kinds for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)}


class _PlainPickle(types.ModuleType):
    """Replaces the module ``pickle``."""

    loads = staticmethod(load_plain)

    def __getattr__(self, name: str) -> Any:
        if name in ("load", "Unpickler"):
            raise AttributeError(name)
        return getattr(pickle, name)


def restrict() -> None:
    """Restrict this process to plain values in everything that Dask unpickles, from now on. Raises MachineError if this
    release of Dask works differently."""
    import distributed.protocol.pickle as theirs
    from dask._expr import LLGExpr
    from distributed import Client
    from distributed.protocol import core
    from distributed.protocol.serialize import dask_deserialize, dask_serialize

    pickle_module = vars(theirs).get("pickle")
    if isinstance(pickle_module, _PlainPickle):
        return
    if pickle_module is not pickle or not hasattr(core, "merge_and_deserialize"):
        raise MachineError(
            "this release of distributed unpickles in another way", "run pip install distributed==2026.8.0"
        )
    plain = _PlainPickle("pickle")
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "distributed" and vars(module).get("pickle") is pickle:
            setattr(module, "pickle", plain)  # noqa: B010 (of a module whose names mypy does not know)
    core.merge_and_deserialize = _without_raising(core.merge_and_deserialize)
    Client._default_event_handlers = {}  # they print what machines say, to this terminal
    dask_serialize.register(LLGExpr, _write_call)  # type: ignore[no-untyped-call]
    dask_deserialize.register(LLGExpr, _read_call)  # type: ignore[no-untyped-call]


def restrict_scheduler(scheduler: Scheduler) -> None:
    """Restrict the scheduler to the requests of a fleet."""
    handlers: dict[str, Any] = scheduler.handlers
    scheduler.handlers = {name: handlers[name] for name in _ASKED if name in handlers}


def _without_raising(deserialize: Any) -> Any:
    """Return an error in place of an unreadable value: an exception would end the connection with all its messages."""

    def read(header: Any, frames: Any, deserializers: Any = None) -> Any:
        try:
            return deserialize(header, frames, deserializers=deserializers)
        except Exception as error:  # any error that a hostile header causes
            return CodeRefusedError(f"what can't be read: {type(error).__name__}")

    return read


def _write_call(graph: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Return a client's share as JSON, instead of a pickle. Dask writes other graphs."""
    from kit.extra.fleet.service.worker import run_share

    tasks = list(graph.operand("dsk").values())
    if len(tasks) != 1 or getattr(tasks[0], "func", None) is not run_share:
        raise NotImplementedError
    return {}, [json.dumps([tasks[0].key, *tasks[0].args]).encode()]


def _read_call(header: object, frames: Sequence[Any]) -> Any:
    """Raises UnreadableError."""
    from dask._expr import LLGExpr
    from dask._task_spec import Task

    from kit.extra.fleet.service.worker import run_share

    key, text, topic = decode_json(tuple[str, str, str], b"".join(map(bytes, frames)))
    return LLGExpr({key: Task(key, run_share, text, topic)})  # type: ignore[no-untyped-call]
