"""The server of ``kit serve``: few threads, few connections, and a time limit for silent ones."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kit.core.errors import UsageError, not_installed

if TYPE_CHECKING:
    from flask import Flask

#: Most connections; more wait until one is closed. Seconds after which a silent one is closed.
CONNECTIONS, SILENCE = 500, 10
_THREADS = 4
_REQUEST = 1 << 16  # bytes of a request: it has no content


def make_server(app: Flask, port: int) -> Any:
    """Return a listening waitress server. Raises UsageError if the port is taken, MachineError if waitress is not
    installed."""
    try:
        from waitress.server import create_server
    except ImportError:
        raise not_installed("kit serve needs", "waitress", "serve") from None
    logging.getLogger("waitress").setLevel(logging.ERROR)  # no line for each connection that waits
    try:
        return create_server(
            app, host="127.0.0.1", port=port, threads=_THREADS, connection_limit=CONNECTIONS,
            channel_timeout=SILENCE, cleanup_interval=1, asyncore_use_poll=True, ident=None,
            max_request_header_size=_REQUEST, max_request_body_size=_REQUEST,
        )  # fmt: skip
    except OSError:
        raise UsageError(f"port {port} is taken", "use --port 0 for a free port") from None
