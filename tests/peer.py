"""A cache that another machine shares, by each way that there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name there)
        return None


@contextmanager
def shared(cache: Path, way: str) -> Iterator[str]:
    """Its place. ``way``: ``directory``, or ``http`` for what python -m http.server is."""
    if way == "directory":
        yield str(cache)
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(cache))) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
