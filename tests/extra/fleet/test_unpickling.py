"""What a client and a scheduler unpickle."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit.extra.fleet.service.unpickling import CodeRefusedError, load_plain

pytest.importorskip("distributed", reason="the package distributed is not installed: the extra fleet")


@pytest.mark.parametrize("value", ["text", 1.5, None, {"a": (1, [2], {3})}, b"x" * 100_000, bytearray(b"y"), bytes])
def test_plain_values_are_read(value: Any) -> None:
    assert load_plain(pickle.dumps(value, 5)) == value


@pytest.mark.promise("a fleet", "A worker's certificate runs no code in the scheduler or in a client.")
@pytest.mark.parametrize("value", [print, Path("/etc"), ValueError("x"), type, {"a": [exec]}, Path])
def test_what_names_anything_is_refused(value: Any) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(CodeRefusedError):
            load_plain(pickle.dumps(value, protocol))


#: In a process of its own: it is restricted for good.
RESTRICTED = """
import pickle, sys
from kit.extra.fleet.service.unpickling import CodeRefusedError, restrict
restrict()
restrict()
import distributed
from distributed.protocol import dumps, loads, serialize, to_serialize
from distributed.protocol.pickle import loads as unpickle
from distributed.protocol.serialize import ToPickle, deserialize
loose = [name for name, module in sys.modules.items()
         if name.split(".")[0] == "distributed" and vars(module).get("pickle") is pickle]
assert not loose, loose
for module in (distributed.client.pickle, distributed.scheduler.pickle):
    assert not hasattr(module, "Unpickler")
    try:
        module.loads(pickle.dumps(print))
    except CodeRefusedError:
        continue
    raise AssertionError(module)
read = loads(dumps({"plain": to_serialize(b"x"), "code": to_serialize(print), "text": ToPickle("t")}))
assert read["plain"] == b"x" and read["text"] == "t" and isinstance(read["code"], CodeRefusedError), read
try:
    loads(dumps({"code": ToPickle(print)}))
except CodeRefusedError:
    print("refused")

from dask._expr import LLGExpr
from dask._task_spec import Task
from kit.extra.fleet.service.worker import run_share
header, frames = serialize(to_serialize(LLGExpr({"k": Task("k", run_share, "text", "topic")})))
assert not any(b"run_share" in bytes(frame) for frame in frames)
(task,) = deserialize(header, frames).operand("dsk").values()
assert (task.key, task.func, task.args) == ("k", run_share, ("text", "topic"))
"""


@pytest.mark.promise("a fleet", "A worker's certificate runs no code in the scheduler or in a client.")
def test_dask_reads_nothing_else_and_a_share_is_no_pickle() -> None:
    done = subprocess.run([sys.executable, "-c", RESTRICTED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
