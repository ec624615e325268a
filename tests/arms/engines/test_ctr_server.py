"""Commands of ctr on a socket, with another program in place of ctr."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kit.arms.engines import ctr_server
from tests.waiting import wait_until


@contextmanager
def _serving(directory: Path, *command: str) -> Iterator[Path]:
    path = directory / "s"
    words = [sys.executable, "-I", ctr_server.__file__, str(path), "/kit-x/c-containers", "/x/kit-runsc", *command]
    with subprocess.Popen(words) as process:
        try:
            wait_until(path.exists, process=process)
            yield path
        finally:
            process.terminate()


def _ask(path: Path, *words: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    connection.sendall(json.dumps(words).encode() + b"\n")
    return connection


def _answers(path: Path, *words: str) -> list[dict[str, Any]]:
    with _ask(path, *words) as connection, connection.makefile("rb") as lines:
        return [json.loads(line) for line in lines]


def test_a_command_answers_with_its_output_and_status(tmp_path: Path) -> None:
    with _serving(tmp_path, "sh", "-c", 'echo "$@"; echo wrong >&2; exit 3', "sh") as path:
        *output, last = _answers(path, "run", "--cgroup", "{cgroup}/one", "--runc-binary={runc}")
        expected = "run --cgroup /kit-x/c-containers/one --runc-binary=/x/kit-runsc\nwrong\n"
        assert "".join(item["out"] for item in output) == expected
        assert last == {"status": 3}
        assert _answers(path)[-1] == {"status": 3}  # it serves the next one


def test_a_command_goes_on_after_its_client_has_left(tmp_path: Path) -> None:
    script = f"echo first; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo second; touch {tmp_path}/done"
    with _serving(tmp_path, "sh", "-c", script) as path:
        with _ask(path) as connection, connection.makefile("rb") as lines:
            assert json.loads(lines.readline()) == {"out": "first\n"}
        (tmp_path / "go").touch()
        wait_until((tmp_path / "done").exists)
