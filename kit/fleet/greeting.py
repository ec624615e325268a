"""A first word with a scheduler, which tells why there can be no second one."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from kit.core.errors import MachineError, causes_of
from kit.fleet.address import TLS_OPTION, Address, security

if TYPE_CHECKING:
    from distributed.security import Security

#: Seconds in which it answers.
ANSWERS = 10
#: Seconds more for the whole of it.
_MORE = 2
#: A machine that is switched off, and a network that is not up yet.
_AWAY = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


class AbsentError(MachineError):
    """Nobody is there; somebody may come."""


def greet(address: Address, side: str, patience: float = ANSWERS) -> Security | None:
    """Speak to the scheduler once; returns what this side shows. Raises AbsentError where nobody answers within
    ``patience`` seconds, MachineError where one of the two refuses the other."""
    from tornado.ioloop import IOLoop
    from tornado.util import TimeoutError as TooLateError

    shown = security(address, side)
    loop = IOLoop(make_current=False)
    try:
        # Dask's own timeout ends before the first exchange of words.
        loop.run_sync(lambda: _connect(address, side, shown, patience), patience + _MORE)
    except TooLateError:
        raise AbsentError(f"no scheduler at {address.url}: no answer", "kit fleet scheduler") from None
    finally:
        loop.close()
    return shown


async def _connect(address: Address, side: str, shown: Security | None, patience: float) -> None:
    from distributed.comm.core import connect

    arguments = shown.get_connection_args(side) if shown else {}
    try:
        comm = await connect(address.url, timeout=patience, **arguments)
        await comm.close()
    except (OSError, ValueError) as error:
        causes = causes_of(error)
        cause = causes[-1]
        silent = any(isinstance(item, TimeoutError) for item in causes)  # itself by a cancellation
        if silent or _is_away(cause):
            why = cause.strerror if isinstance(cause, OSError) and cause.strerror else "no answer"
            raise AbsentError(f"no scheduler at {address.url}: {why}", "kit fleet scheduler") from None
        raise MachineError(
            f"the scheduler at {address.url} and this {side} do not trust each other",
            f"certificates of one authority on all sides, {TLS_OPTION}; kit fleet certificates makes them",
        ) from None


def _is_away(cause: BaseException) -> bool:
    return isinstance(cause, ConnectionRefusedError | socket.gaierror) or (
        isinstance(cause, OSError) and cause.errno in _AWAY
    )
