"""Runs commands on the user's machine: one JSON object a line on the channel, in both directions."""

import json
import os
import subprocess
import sys
import termios
import tty
from typing import Any

#: As a login does it: PAM sets the umask, and logind makes the session.
_LOGIN = "systemd-run --quiet --pipe --wait --collect --property=PAMName=login --property=WorkingDirectory=~"
_SHELL = ["bash", "--login", "-c"]


def run(request: dict[str, Any]) -> dict[str, Any]:
    login = [] if request["user"] == "root" else [*_LOGIN.split(), f"--uid={request['user']}"]
    try:
        done = subprocess.run(
            [*login, *_SHELL, request["script"]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=request["timeout"],
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return {"code": 124, "out": _text(error.stdout), "err": f"{_text(error.stderr)}\nover {error.timeout:g} s"}
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def main(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(descriptor, termios.TCSANOW)
    with os.fdopen(descriptor, "r+b", buffering=0) as channel:
        channel.write(b'{"ready": true}\n')
        for line in channel:
            answer = json.dumps(run(json.loads(line))).encode() + b"\n"
            while answer:
                answer = answer[channel.write(answer) :]


if __name__ == "__main__":
    main(sys.argv[1])
