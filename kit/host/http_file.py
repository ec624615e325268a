"""Reads a file over HTTP from an untrusted server: too slow a transfer is aborted."""

from __future__ import annotations

import base64
import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from urllib.parse import quote, unquote, urlsplit

from kit.core.errors import RunError
from kit.core.redact import redact

_CHUNK = 1 << 20
_ANSWERS = 20.0  # seconds for a connection, and until the next bytes
#: Each window of _WINDOW seconds spent waiting for the server, headers included, must bring at least _LEAST bytes.
_WINDOW, _LEAST = 20, 320 << 10
_TICK = 0.1  # seconds


@contextmanager
def http_file(place: str, name: str) -> Iterator[Iterator[bytes] | None]:
    """Yield the bytes of a file below a URL; None if the file is missing. Raises RunError."""
    parts = urlsplit(place)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    headers = {}
    if parts.username:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=_ANSWERS)
        connection.connect()
    except (OSError, ValueError) as error:
        raise RunError(_no_answer(error)) from None
    with _Watch(connection.sock) as watch:
        try:
            with watch.waiting_for_server():
                connection.request("GET", f"{parts.path.rstrip('/')}/{quote(name)}", headers=headers)
                answer = connection.getresponse()
            if answer.status in (404, 410):
                yield None
            elif answer.status != 200:
                raise RunError(f"it answers {answer.status} {answer.reason or ''}".strip())
            else:
                yield _chunks(answer, watch)
        finally:
            connection.close()


def _chunks(answer: http.client.HTTPResponse, watch: _Watch) -> Iterator[bytes]:
    while True:
        with watch.waiting_for_server():
            data = answer.read1(_CHUNK)
        watch.received += len(data)
        if not data:
            return
        yield data


def _no_answer(error: Exception) -> str:
    return f"no answer: {redact(' '.join(str(error).split()) or type(error).__name__)[:200]}"


class _Watch:
    """Ends a connection that delivers too few bytes, from a thread of its own. A server that sends one byte now and
    then would otherwise be awaited without end. The time that this machine takes to store the bytes does not count."""

    def __init__(self, connection: socket.socket) -> None:
        self.received = 0
        self._connection = connection
        self._waits = self._slow = False
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @contextmanager
    def waiting_for_server(self) -> Iterator[None]:
        """Raises RunError if the connection failed or was ended."""
        self._waits = True
        failed = ""
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            failed = _no_answer(error)
        finally:
            self._waits = False
        if self._slow:
            raise RunError(f"it is too slow: it sends less than {_LEAST // _WINDOW >> 10} KiB/s")
        if failed:
            raise RunError(failed)

    def _run(self) -> None:
        waited, before = 0.0, 0
        while not self._over.wait(_TICK):
            waited += _TICK * self._waits
            if waited >= _WINDOW:
                if self.received - before < _LEAST:
                    self._slow = True
                    with suppress(OSError):  # not SSLSocket's, which makes the other thread read encrypted data
                        socket.socket.shutdown(self._connection, socket.SHUT_RDWR)
                    return
                waited, before = 0.0, self.received
