"""A cache that another machine shares, by each way that there is."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from kit.host.command import run


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name there)
        return None


@contextmanager
def shared(cache: Path, way: str) -> Iterator[str]:
    """Its place. ``way``: ``directory``, ``http`` for what python -m http.server is, or ``https`` with a certificate of
    its own, ``server.pem`` beside the cache."""
    if way == "directory":
        yield str(cache)
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(cache))) as server:
        if way == "https":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(_certificate(cache.parent))
            server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"{way}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def _certificate(directory: Path) -> Path:
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=peer"
    key, certificate = directory / "key.pem", directory / "server.pem"
    run([*words.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate])
    certificate.write_bytes(certificate.read_bytes() + key.read_bytes())
    return certificate
