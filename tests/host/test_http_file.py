"""A server that sends a byte now and then is given up, wherever in its answer it does so."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from kit.core.errors import RunError
from kit.host import remote_cache
from kit.host.remote_cache import parse_peer

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@contextmanager
def sending(first: bytes, then: bytes) -> Iterator[str]:
    """The place of a server that sends ``first`` at once, and ``then`` again and again, slowly."""
    over = Event()

    def serve() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(first)
            while not over.wait(0.02):
                connection.sendall(then)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


@pytest.mark.promise("what others wrote", "A cache over HTTP that sends less than 16 KiB/s is given up.")
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b"H"),
        (HEAD + b"X: ", b"x"),
        (HEAD + b"Content-Length: 1000000\r\n\r\n", b"x"),
        (HEAD + b"\r\n", b"x"),
        (CHUNKED, b"1;"),
        (CHUNKED, b"1\r\nx\r\n"),
        (HEAD + b"Content-Length: 1000000\r\n\r\n" + bytes(500_000), b"x"),
    ],
)
def test_a_server_that_sends_a_byte_at_a_time_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes
) -> None:
    monkeypatch.setattr(remote_cache, "_WINDOW", 1)
    slow = pytest.raises(RunError, match="it is too slow: it sends less than 320 KiB/s")
    with sending(first, then) as sandbox, slow:
        parse_peer(sandbox).bring("rootfs.tar", tmp_path / "rootfs.tar", 1_000_000, None, print)


def test_one_that_is_slow_is_waited_for_while_enough_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_cache, "_WINDOW", 1)
    monkeypatch.setattr(remote_cache, "_LEAST", 10)
    with sending(HEAD + b"Content-Length: 3000\r\n\r\n", bytes(30)) as sandbox:
        parse_peer(sandbox).bring("rootfs.tar", tmp_path / "rootfs.tar", 3000, None, print)
    assert (tmp_path / "rootfs.tar").read_bytes() == bytes(3000)


def test_a_slow_disk_of_this_machine_is_no_slow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_cache, "_WINDOW", 1)
    first = HEAD + b"Content-Length: 400000\r\n\r\n" + bytes(400_000)
    with sending(first, b"") as sandbox, remote_cache.http_file(sandbox, "rootfs.tar") as chunks:
        assert chunks
        length = len(next(chunks))
        Event().wait(2)  # longer than the server may say nothing
        assert length + sum(map(len, chunks)) == 400_000


def test_an_answer_that_is_none_is_one_line(tmp_path: Path) -> None:
    for first in (b"nonsense\r\n\r\n", HEAD + b"Content-Length: -5\r\n\r\n", CHUNKED + b"zz\r\n", HEAD + b"x" * 70_000):
        with sending(first, b"\r\n") as sandbox, pytest.raises(RunError) as found:
            parse_peer(sandbox).bring("rootfs.tar", tmp_path / "rootfs.tar", 100, None, print)
        assert "\n" not in found.value.message
