"""A first exchange with a scheduler, which shows why a connection would fail."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from kit.core.errors import MachineError, causes_of
from kit.extra.fleet.address import TLS_OPTION, Address, security

if TYPE_CHECKING:
    from distributed.security import Security

#: Seconds within which it answers.
ANSWERS = 10
#: Additional seconds for the whole exchange.
_MORE = 2
#: Errors of a machine that is switched off, and of a network that is not up yet.
_AWAY = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


class AbsentError(MachineError):
    """Nobody answers yet; a scheduler may start later."""


def greet(address: Address, side: str, patience: float = ANSWERS) -> Security | None:
    """Connect to the scheduler once; return this side's security settings. Raises AbsentError if nobody answers within
    ``patience`` seconds, MachineError if one side refuses the other."""
    from tornado.ioloop import IOLoop
    from tornado.util import TimeoutError as TooLateError

    tls_settings = security(address, side)
    loop = IOLoop(make_current=False)
    try:
        # Dask's own timeout ends before the first exchange.
        loop.run_sync(lambda: _connect(address, side, tls_settings, patience), patience + _MORE)
    except TooLateError:
        raise AbsentError(f"no scheduler at {address.url}: no answer", "start one with kit fleet scheduler") from None
    finally:
        loop.close()
    return tls_settings


async def _connect(address: Address, side: str, tls_settings: Security | None, patience: float) -> None:
    from distributed.comm.core import connect

    arguments = tls_settings.get_connection_args(side) if tls_settings else {}
    try:
        comm = await connect(address.url, timeout=patience, **arguments)
        await comm.close()
    except (OSError, ValueError) as error:
        causes = causes_of(error)
        cause = causes[-1]
        # By a cancellation; or Dask's own error without a cause, if its time was over before it had tried.
        silent = any(isinstance(reason, TimeoutError) for reason in causes) or (
            type(error) is OSError and cause is error
        )
        if silent or _is_away(cause):
            why = cause.strerror if isinstance(cause, OSError) and cause.strerror else "no answer"
            raise AbsentError(f"no scheduler at {address.url}: {why}", "start one with kit fleet scheduler") from None
        raise MachineError(
            f"the scheduler at {address.url} and this {side} do not trust each other",
            f"use certificates of one authority on all sides, {TLS_OPTION}; make them with kit fleet certificates",
        ) from None


def _is_away(cause: BaseException) -> bool:
    return isinstance(cause, ConnectionRefusedError | socket.gaierror) or (
        isinstance(cause, OSError) and cause.errno in _AWAY
    )
