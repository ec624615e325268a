"""The engines of pull.py: Docker's API (Docker, Podman), commands of ctr (containerd), and plain directories."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.request import Request, urlopen

from engine import Docker, Plain, _Connection

NAME = "kit-pull"
READY = "ready"
#: The beginning of what ctr says of itself: warnings, of a deprecated control group for example.
_LOGGED = 'time="'
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Client(Protocol):
    """Drives one engine."""

    def ask(self) -> None:
        """Ask the engine for nothing but an answer."""

    def clean(self) -> None: ...
    def pull(self) -> None: ...
    def create(self) -> bool:
        """Create the container. Returns False if the engine can do that only as it starts it."""

    def start(self) -> None:
        """Start the container, and return at its first output."""

    def exit(self) -> None:
        """Kill the container, and return when it has ended."""

    def remove(self) -> None:
        """Remove the container and its image."""


class DockerClient(Docker):
    """Drives Docker, or Podman, which answers Docker's requests."""

    def __init__(self, path: str, registry: str) -> None:
        super().__init__(path)
        self._path = path
        self._image = f"{registry}/{NAME}:latest"
        parts = self._ask("GET", "/version").get("Components") or ()
        self._podman = any("Podman" in part["Name"] for part in parts)

    def ask(self) -> None:
        self._ask("GET", "/_ping")

    def clean(self) -> None:
        for container in self._ask("GET", "/containers/json", {"all": "true"}):
            if f"/{NAME}" in container["Names"]:
                super().remove(container["Id"])
        for image in self._ask("GET", "/images/json"):
            for tag in image["RepoTags"] or ():
                if f"/{NAME}:" in tag:
                    self._ask("DELETE", f"/images/{tag}", {"force": "true"})

    def pull(self) -> None:
        if self._podman:  # in Docker's API it would ask for TLS
            query = {"reference": self._image, "tlsVerify": "false"}
            check_progress(self._lines("/v4.0.0/libpod/images/pull", query))
        else:
            check_progress(self._lines("/images/create", {"fromImage": self._image}))

    def _lines(self, path: str, query: dict[str, Any]) -> Iterator[str]:
        answer = self._send("POST", path, query, None)
        yield from (line.decode() for line in answer)

    def create(self) -> bool:  # type: ignore[override]
        host = {"NetworkMode": "none", "CgroupParent": self._parent, "Runtime": self._runtime}
        self._ask("POST", "/containers/create", {"name": NAME}, {"Image": self._image, "HostConfig": host})
        return True

    def start(self) -> None:  # type: ignore[override]
        attached = _Connection(self._path)
        attached.request("POST", f"/containers/{NAME}/attach?stream=1&stdout=1")
        output = attached.getresponse()
        super().start(NAME)
        check_output(output.readline().decode(errors="replace"))  # behind the eight bytes of a frame

    def exit(self) -> None:
        super().stop(NAME)

    def remove(self) -> None:  # type: ignore[override]
        super().remove(NAME)
        self._ask("DELETE", f"/images/{self._image}", {"force": "true"})


def check_progress(lines: Iterator[str]) -> None:
    """Read what a pull reports, to its end. Ends the program with the reported error."""
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if said.get("error") or said.get("message"):
            raise SystemExit(f"pull: {said.get('error') or said['message']}")


def check_output(line: str) -> None:
    if READY not in line:
        raise SystemExit(f"the container's first output is {line!r}, not {READY!r}")


class CtrClient:
    """Drives containerd by the commands that the kit runs beside it."""

    _ended = Path("container-ended")

    def __init__(self, path: str, registry: str) -> None:
        self._path = path
        self._image = f"{registry}/{NAME}:latest"

    def _run(self, *words: str) -> Iterator[str]:
        """Yield the output of a command. Ends the program if the command fails."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(self._path)
            connection.sendall(json.dumps(words).encode() + b"\n")
            said = ""
            for line in connection.makefile("rb"):
                answer = json.loads(line)
                if answer.get("status"):
                    raise SystemExit(f"ctr {' '.join(words)}: {said.strip()[-500:]}")
                said += answer.get("out", "")
                yield answer.get("out", "")

    def _do(self, *words: str) -> str:
        return "".join(self._run(*words))

    def _try(self, *words: str) -> None:
        """Run a command whose object may be missing."""
        try:
            self._do(*words)
        except SystemExit as error:
            if "not found" not in str(error):
                raise

    def ask(self) -> None:
        self._do("version")

    def clean(self) -> None:
        self._try("tasks", "delete", "--force", NAME)
        self._try("containers", "delete", NAME)
        for image in self._do("images", "list", "--quiet").split():
            if f"/{NAME}:" in image:
                self._do("images", "delete", "--sync", image)

    def pull(self) -> None:
        self._do("images", "pull", "--plain-http", self._image)

    def create(self) -> bool:
        return False  # ctr containers create takes no control group

    def start(self) -> None:
        """Start both. The command goes on after its first output, as the container does; a child waits for its end."""
        output = self._run("run", "--runc-binary={runc}", "--cgroup", f"{{cgroup}}/{NAME}", self._image, NAME)
        check_output(next((line for line in output if not line.startswith(_LOGGED)), ""))
        self._ended.unlink(missing_ok=True)
        if os.fork() == 0:
            try:
                "".join(output)
            finally:  # a killed container ends the command with another status than 0
                self._ended.touch()
                os._exit(0)

    def exit(self) -> None:
        self._do("tasks", "kill", "--signal", "SIGKILL", NAME)
        while not self._ended.exists():
            time.sleep(0.001)

    def remove(self) -> None:
        self._do("containers", "delete", NAME)
        self._do("images", "delete", "--sync", self._image)


class PlainClient(Plain):
    """Does the same without an engine: each layer is fetched, checked and unpacked; a container is a copy."""

    def __init__(self, registry: str) -> None:
        self._address = f"http://{registry}/v2/{NAME}"

    def ask(self) -> None:
        return None

    def pull(self) -> None:
        self._image.mkdir()
        for layer in json.loads(self._get("manifests/latest").read())["layers"]:
            self._unpack(layer["digest"], layer["mediaType"])

    def _get(self, what: str) -> Any:
        return urlopen(Request(f"{self._address}/{what}", headers={"Accept": _MANIFEST}))

    def _unpack(self, digest: str, media: str) -> None:
        options = [f"--{name}" for name in ("gzip", "zstd") if media.endswith(name)]
        found = hashlib.sha256()
        with (
            self._get(f"blobs/{digest}") as blob,
            subprocess.Popen(["tar", "-x", *options, "-C", self._image], stdin=subprocess.PIPE) as tar,
        ):
            assert tar.stdin
            while data := blob.read(1 << 20):
                found.update(data)
                tar.stdin.write(data)
            tar.stdin.close()
        if tar.returncode or digest != f"sha256:{found.hexdigest()}":
            raise SystemExit(f"layer {digest} can't be unpacked: tar ended with {tar.returncode}")

    def create(self) -> bool:  # type: ignore[override]
        config = json.loads(self._get("manifests/latest").read())["config"]["digest"]
        command = json.loads(self._get(f"blobs/{config}").read())["config"]["Cmd"]
        super().create(NAME, command[-1])
        return True

    def start(self) -> None:  # type: ignore[override]
        """Start the process with a pipe as its output; it inherits nothing else."""
        output, end = os.pipe()
        own = os.dup(1)
        os.dup2(end, 1)
        super().start(NAME)
        os.dup2(own, 1)
        os.close(end)
        with open(output, "rb", buffering=0) as said:
            check_output(said.readline().decode(errors="replace"))

    def exit(self) -> None:
        super().stop(NAME)

    def remove(self) -> None:  # type: ignore[override]
        super().remove(NAME)
        shutil.rmtree(self._image)


def client(socket_path: str, registry: str) -> Client:
    """Return the client of an interface, which is the name of its socket; none means plain directories."""
    if not socket_path:
        return PlainClient(registry)
    known: dict[str, type[DockerClient | CtrClient]] = {"docker": DockerClient, "ctr": CtrClient}
    return known[Path(socket_path).name](socket_path, registry)
