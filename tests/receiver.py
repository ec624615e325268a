"""A server of this process that takes the messages of nights, as Apprise's ``json://`` sends them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Receiver:
    """A server that takes messages. ``status``: its answer. ``asked``: how often somebody sent one."""

    port: int
    status: int = 200
    asked: int = 0
    got: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Each part is as secret as a token is elsewhere."""
        return f"json://robot:hunter2@127.0.0.1:{self.port}/T0KEN-of-the-chat"

    def is_silent(self, text: str) -> bool:
        return not any(word in text for word in ("hunter2", "T0KEN", "robot", "127.0.0.1"))


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Its URL is in the variable CHAT."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            found.asked += 1
            if found.status == 200:
                found.got.append(json.loads(data))
            self.send_response(found.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Receiver(server.server_address[1])
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("CHAT", found.url)
        yield found
        server.shutdown()
