"""A network that can be cut, between workers and their scheduler."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread


@dataclass
class Way:
    """Between a worker and the scheduler: bytes go both ways until it is cut, and nobody is let in while it is."""

    port: int
    cut: bool = False
    _pairs: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        Thread(target=self._accept, daemon=True).start()

    @property
    def entry(self) -> int:
        return int(self._listener.getsockname()[1])

    def set_cut(self, cut: bool) -> None:
        self.cut = cut
        while cut and self._pairs:
            with suppress(OSError):
                self._pairs.pop().shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            near = self._listener.accept()[0]
            if self.cut:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:  # it is not there yet
                near.close()
                continue
            self._pairs += [near, far]
            for source, target in ((near, far), (far, near)):
                Thread(target=_carry, args=(source, target), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
