"""Serve commands of ctr on a Unix socket, so that a scenario controls containerd from inside an arm, as it controls
Docker through Docker's API.

A connection carries one command: a line with a JSON list of its arguments. The answer is a line for each piece of
output, ``{"out": "…"}``, and ``{"status": 0}`` at the end. The command goes on if the client leaves. ``{cgroup}`` in an
argument is the control group of the daemon's containers, ``{runc}`` the program of the arm's runtime, or nothing.
Imports nothing of the kit.

ctr_server.py SOCKET CGROUP RUNC COMMAND…"""

import contextlib
import json
import os
import socketserver
import subprocess
import sys
from pathlib import Path


class Handler(socketserver.StreamRequestHandler):
    """Runs the command of one connection."""

    server: "CtrServer"

    def handle(self) -> None:
        arguments = json.loads(self.rfile.readline())
        if not isinstance(arguments, list):
            raise ValueError("a command is a list of words")
        words = [str(word).replace("{cgroup}", self.server.cgroup) for word in arguments]
        words = [word.replace("{runc}", self.server.runc) for word in words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen([*self.server.command, *words], **pipes) as process:  # type: ignore[call-overload]
            while data := os.read(process.stdout.fileno(), 1 << 16):
                self._answer({"out": data.decode(errors="replace")})
        self._answer({"status": process.returncode})

    def _answer(self, item: dict[str, object]) -> None:
        with contextlib.suppress(OSError):  # the client has left
            self.wfile.write(json.dumps(item).encode() + b"\n")


class CtrServer(socketserver.ThreadingUnixStreamServer):
    """Serves each connection in a thread."""

    daemon_threads = True

    def __init__(self, path: str, cgroup: str, runc: str, command: list[str]) -> None:
        self.cgroup = cgroup
        self.runc = runc
        self.command = command
        # Who waits for the socket connects at once: it has its name when it listens, not when it is bound.
        super().__init__(f"{path}~", Handler)
        Path(f"{path}~").rename(path)


if __name__ == "__main__":
    with CtrServer(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]) as server:
        server.serve_forever(poll_interval=3600)
