"""A network that can be cut, between workers and their scheduler."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread


@dataclass
class Way:
    """Between a worker and the scheduler: bytes go both ways until it is cut, and nobody is let in while it is."""

    port: int
    cut: bool = False
    _pairs: list[socket.socket] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        Thread(target=self._accept, daemon=True).start()

    @property
    def entry(self) -> int:
        return int(self._listener.getsockname()[1])

    def set_cut(self, cut: bool) -> None:
        with self._lock:
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
            far = self._reach()
            with self._lock:  # who is let in amid the cut would stay
                if self.cut:
                    near.close()
                    far.close()
                    continue
                self._pairs += [near, far]
            for source, target in ((near, far), (far, near)):
                Thread(target=_carry, args=(source, target), daemon=True).start()

    def _reach(self) -> socket.socket:
        """The scheduler, once it is there: a worker that is let in and then sent away takes it for none, and ends."""
        while True:
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", self.port))
            time.sleep(0.05)


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
