"""The engines of lifecycle.py: Docker over its socket (Docker Engine API), and plain directories entered by chroot."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode


class Engine(Protocol):
    def import_image(self, tarball: Path) -> None: ...
    def save(self, archive: Path) -> None: ...
    def load(self, archive: Path) -> None: ...
    def create(self, name: str, command: str = ...) -> None: ...
    def start(self, name: str) -> None: ...
    def wait(self, name: str) -> None: ...
    def read(self, name: str) -> int: ...
    def stop(self, name: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def commit(self, name: str, image: str) -> None: ...
    def build(self, context: bytes) -> None: ...
    def clean(self) -> None: ...


#: What Podman says meanwhile, and the seconds that it may take.
_CLEANUP, _PATIENCE = ("device or resource busy", "container state improper"), 10

_SLEEP = "exec /bin/busybox sleep 3600"
#: The command of a container for ``read``: it looks at the page cache just before and after.
READ_LARGE = "grep ^Cached: /proc/meminfo; md5sum /large; grep ^Cached: /proc/meminfo; true"


def cached() -> int:
    """KiB of files in the machine's page cache."""
    return int(re.findall(r"Cached: +(\d+) kB", Path("/proc/meminfo").read_text())[0])


def cached_between(log: str) -> int:
    """Return by how many KiB the page cache grew while a container ran READ_LARGE. Ends the program if ``log``, its
    output, is not complete."""
    found = re.findall(r"Cached: +(\d+) kB|[0-9a-f]{32}  /large", log)
    if [bool(number) for number in found] != [True, False, True]:
        raise SystemExit(f"a container that reads /large printed {log!r}")
    return int(found[2]) - int(found[0])


def in_gvisor() -> bool:
    """Return whether this kernel is gVisor, whose page cache is not the machine's."""
    return "-gvisor" in Path("/proc/cmdline").read_text()


def direct_runtime(runtime: str) -> str:
    """Return the runtime of the scenario's containers; '' is the engine's own. ``runtime``: of the kit's own container.
    In an arm ``runtime`` it enters a plain directory, and starts Python for each container to do so."""
    return "" if runtime == "kit-plain" else runtime.replace("kit-plain-", "kit-")


def _shell(command: str) -> list[str]:
    """busybox runs its own applets where the image has no other programs."""
    return ["/bin/busybox", "sh", "-c", command]


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=600)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


class Docker:
    def __init__(self, path: str) -> None:
        self._connection = _Connection(path)
        # Where the kit's own container has its cgroup, those started here belong too: with it they are cleaned up. They
        # have its runtime too.
        own = self._ask("GET", "/containers/json")[0]["Id"]
        settings = self._ask("GET", f"/containers/{own}/json")["HostConfig"]
        self._parent, self._runtime = settings["CgroupParent"], direct_runtime(settings["Runtime"])
        self._builds = self._parent
        if self._runtime == "oci":  # Podman, whose containers all have its service's runtime
            self._builds = self._parent and f"{self._parent}/steps"  # whose steps are in the group itself

    def _ask(self, method: str, path: str, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        answer = self._send(method, path, query, body)
        text = answer.read()
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {text.decode(errors='replace').strip()}")
        try:
            return json.loads(text) if text else None
        except ValueError:
            return text.decode()

    def _send(self, method: str, path: str, query: dict[str, Any] | None, body: Any) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/x-tar"} if body else {}
        if isinstance(body, dict):
            body, headers = json.dumps(body), {"Content-Type": "application/json"}
        self._connection.request(method, f"{path}?{urlencode(query)}" if query else path, body, headers)
        return self._connection.getresponse()

    def import_image(self, tarball: Path) -> None:
        with tarball.open("rb") as file:
            self._ask("POST", "/images/create", {"fromSrc": "-", "repo": "kit-life", "tag": "latest"}, file)

    def save(self, archive: Path) -> None:
        answer = self._send("GET", "/images/kit-life/get", None, None)
        with archive.open("wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)

    def load(self, archive: Path) -> None:
        self._ask("DELETE", "/images/kit-life", {"force": "true"})
        with archive.open("rb") as file:
            self._ask("POST", "/images/load", {"quiet": "true"}, file)

    def create(self, name: str, command: str = _SLEEP) -> None:
        host = {"NetworkMode": "none", "CgroupParent": self._parent, "Runtime": self._runtime}
        spec = {"Image": "kit-life", "Cmd": _shell(command), "HostConfig": host}
        self._ask("POST", "/containers/create", {"name": name}, spec)

    def start(self, name: str) -> None:
        self._ask("POST", f"/containers/{name}/start")

    def wait(self, name: str) -> None:
        code = self._ask("POST", f"/containers/{name}/wait")["StatusCode"]
        if code:
            raise SystemExit(f"{name} ended with {code}")

    def read(self, name: str) -> int:
        """Run a container made for READ_LARGE; return by how many KiB the page cache grew meanwhile."""
        self.start(name)
        self.wait(name)
        return cached_between(str(self._ask("GET", f"/containers/{name}/logs", {"stdout": "true"})))

    def stop(self, name: str) -> None:
        self._ask("POST", f"/containers/{name}/kill")
        self._ask("POST", f"/containers/{name}/wait")

    def remove(self, name: str) -> None:
        """Podman before 4.4 refuses it while a cleanup of its own is under way (containers/podman, issue 11594)."""
        end = time.monotonic() + _PATIENCE
        refused = False
        while True:
            answer = self._send("DELETE", f"/containers/{name}", {"force": "true"}, None)
            text = answer.read().decode(errors="replace").strip()
            if answer.status < 400 or (refused and answer.status == 404):
                return
            refused = any(reason in text for reason in _CLEANUP)
            if not refused or time.monotonic() > end:
                raise SystemExit(f"{name} can't be removed: {answer.status} {text}")
            time.sleep(0.01)

    def commit(self, name: str, image: str) -> None:
        self._ask("POST", "/commit", {"container": name, "repo": image}, {})

    def build(self, context: bytes) -> None:
        query = {"t": "kit-life-built", "nocache": "1", "networkmode": "none", "cgroupparent": self._builds, "rm": "1"}
        said = self._ask("POST", "/build", query, context)
        if "Successfully built" not in str(said):
            raise SystemExit(f"build: {said}")

    def clean(self) -> None:
        for container in self._ask("GET", "/containers/json", {"all": "true"}):
            if any(name.startswith("/kit-life") for name in container["Names"]):
                self.remove(container["Id"])
        for image in self._ask("GET", "/images/json"):
            for tag in image["RepoTags"] or ():
                if tag.startswith("kit-life"):
                    self._ask("DELETE", f"/images/{tag}", {"force": "true"})


class Plain:
    """The same without an engine: a container is a copy of the image's directory, its process one in a chroot. Copies
    share rounds where the filesystem can (cp --reflink=auto)."""

    _image, _containers, _state = Path("image"), Path("containers"), Path("state")

    def import_image(self, tarball: Path) -> None:
        self._image.mkdir()
        with tarfile.open(tarball) as tar:
            tar.extractall(self._image)

    def save(self, archive: Path) -> None:
        with tarfile.open(archive, "w") as tar:
            tar.add(self._image, ".")

    def load(self, archive: Path) -> None:
        shutil.rmtree(self._image)
        self.import_image(archive)

    def _copy(self, source: Path, target: Path) -> None:
        subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)

    def create(self, name: str, command: str = _SLEEP) -> None:
        self._containers.mkdir(exist_ok=True)
        self._state.mkdir(exist_ok=True)
        self._copy(self._image, self._containers / name)
        (self._state / name).write_text(json.dumps({"command": command}))

    def start(self, name: str) -> None:
        state = json.loads((self._state / name).read_text())
        pid = self._run(self._containers / name, _shell(state["command"]))
        (self._state / name).write_text(json.dumps({**state, "pid": pid}))

    def _run(self, root: Path, argv: list[str]) -> int:
        pid = os.fork()
        if not pid:
            try:
                os.chroot(root)
                os.chdir("/")
                os.execv(argv[0], argv)
            finally:
                os._exit(127)
        return pid

    def wait(self, name: str) -> None:
        status = os.waitpid(self._pid(name), 0)[1]
        if status:
            raise SystemExit(f"{name} ended with status {status}")

    def _pid(self, name: str) -> int:
        return int(json.loads((self._state / name).read_text())["pid"])

    def read(self, name: str) -> int:
        """The process has no /proc, and starts at once."""
        before = cached()
        self.start(name)
        self.wait(name)
        return cached() - before

    def stop(self, name: str) -> None:
        pid = self._pid(name)
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists() and "Z" not in _state_of(pid):
            pass

    def remove(self, name: str) -> None:
        shutil.rmtree(self._containers / name)
        (self._state / name).unlink()

    def commit(self, name: str, image: str) -> None:
        self._copy(self._containers / name, Path(image))

    def build(self, context: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(context)) as tar:
            file = tar.extractfile("Dockerfile")
            assert file
            lines = file.read().decode().splitlines()
        root = Path("kit-life-built")
        self._copy(self._image, root)
        for line in lines:
            if line.startswith("RUN "):
                status = os.waitpid(self._run(root, json.loads(line.removeprefix("RUN "))), 0)[1]
                if status:
                    raise SystemExit(f"{line}: status {status}")

    def clean(self) -> None:
        for path in (self._image, self._containers, self._state, Path("kit-life-committed"), Path("kit-life-built")):
            if path.exists():
                shutil.rmtree(path)


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
