"""Who does not answer is waited for; who does not trust is not."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the package distributed is not installed: the extra fleet")

from kit.core.errors import MachineError
from kit.extra.fleet.address import Address
from kit.extra.fleet.certificates import make_certificates
from kit.extra.fleet.handshake import AbsentError, greet


@pytest.mark.parametrize(
    ("number", "absent"),
    [
        (errno.EHOSTUNREACH, True),
        (errno.ENETUNREACH, True),
        (errno.EHOSTDOWN, True),
        (errno.ENETDOWN, True),
        (errno.EPROTO, False),
    ],
)
def test_a_machine_that_is_off_is_waited_for(number: int, absent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: Any, **__: Any) -> None:
        raise OSError("Timed out trying to connect") from OSError(number, os.strerror(number))

    monkeypatch.setattr("distributed.comm.core.connect", connect)
    with pytest.raises(MachineError) as raised:
        greet(Address("127.0.0.1", 1), "client")
    assert isinstance(raised.value, AbsentError) == absent


def test_a_try_that_never_began_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a busy machine, whose patience is over before Dask has tried."""

    async def connect(*_: Any, **__: Any) -> None:
        raise OSError("Timed out trying to connect to tcp://127.0.0.1:1 after 0.1 s")

    monkeypatch.setattr("distributed.comm.core.connect", connect)
    with pytest.raises(AbsentError, match="no answer"):
        greet(Address("127.0.0.1", 1), "worker")


@pytest.mark.parametrize("proved", [False, True])
def test_one_that_says_nothing_is_waited_for(proved: bool, tmp_path: Path) -> None:
    """As behind a network that is cut, or stopped."""
    make_certificates(tmp_path, 1)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(AbsentError, match="no answer"):
        greet(Address("127.0.0.1", silent.getsockname()[1], tmp_path if proved else None), "worker", 0.1)
