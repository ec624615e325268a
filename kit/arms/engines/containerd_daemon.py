"""A private containerd, controlled by ctr."""

from __future__ import annotations

import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from kit.arms.engines import ctr_server
from kit.arms.engines.containerd_program import containerd_programs
from kit.arms.engines.oci_runtime import RUNC, installed_runtimes
from kit.arms.engines.supervisor import PATIENCE, DaemonDirs, Supervisor
from kit.arms.image import Image
from kit.arms.image.layout import CONTROL, TREE
from kit.core.errors import SESSION_LOG, RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import died, run, spawn, stop, writing
from kit.host.interrupt import interruptible
from kit.host.tarball import write_tarball
from kit.host.waiting import NotReadyError, retry, wait_for
from kit.model.drivers import find_driver

_NAME = "kit.local/kit"


class ContainerdDaemon:
    """A daemon with one image and the containers made of it. ``options``: the lines of its snapshotter's
    configuration."""

    def __init__(self, driver: str, home: DaemonDirs, options: Sequence[str]) -> None:
        self.driver = driver
        self.image = ""
        self._home = home
        self.options = options
        self._supervisor = Supervisor(home, driver)
        self._runtimes: Mapping[str, str] = {}

    def start(self) -> None:
        """Start the daemon and wait until it serves. Raises RunError with the log's message; stop it then too."""
        self._home.make()
        # The daemon finds runc itself: in its engine root if it has one.
        self._runtimes = {**installed_runtimes(self._home.directory), RUNC: RUNC}
        driver = find_driver("containerd", self.driver)
        self._supervisor.start(containerd_programs(self._home, driver, [*self.options, *self._unpacking()]))
        self._check_snapshotter()

    def _unpacking(self) -> list[str]:
        """Return the lines with which version 2 unpacks what it pulls into this snapshotter, and no other one
        (containerd, docs/transfer.md)."""
        lines = ['[[plugins."io.containerd.transfer.v1.local".unpack_config]]', 'platform = "linux"']
        lines.append(f'snapshotter = "{self.driver}"')
        return [*lines, 'differ = "erofs"'] if self.driver == "erofs" else lines

    def stop(self) -> None:
        self._supervisor.stop()

    @property
    def cgroup(self) -> str:
        """Return the name of its programs' control group."""
        return self._home.cgroup

    @property
    def container_cgroup(self) -> str:
        """Return the control group of its containers."""
        return self._home.container_cgroup

    def alive(self) -> str:
        """Return why the daemon is dead, or ''."""
        return self._supervisor.alive()

    def _check_snapshotter(self) -> None:
        """Check that the daemon has the snapshotter. Raises RunError with the reason."""
        for line in self._ctr("plugins", "list").splitlines():
            state = re.match(rf"io\.containerd\.snapshotter\.v1\s+{self.driver}\s.*\s(\w+)\s*$", line)
            if state and state[1] == "ok":
                return
            if state:
                raise RunError(f"its snapshotter {self.driver} does not work here: {self._reason()}", "see session.log")
        raise RunError(
            f"this containerd has no snapshotter {self.driver}",
            "use another version, as layer:containerd@2.1/…: kit help arms",
        )

    def _reason(self) -> str:
        """Return the log's message on the snapshotter."""
        lines = [line for line in self._supervisor.said if self.driver in line]
        reasons = [line for line in lines if "error" in line or "skip" in line]
        quoted = re.search(r'error="((?:[^"\\]|\\.)*)"', reasons[-1]) if reasons else None
        return quoted[1] if quoted else "its log does not say why"

    def _ctr(self, *words: str) -> str:
        return run(self._words(*words))

    def _words(self, *words: str, before: Sequence[str] = ()) -> list[str]:
        """Return the command line of a ctr command, with another command before it."""
        address = str(self._home.directory / "c")
        return self._supervisor.inside([*before, "ctr", "--address", address, "--namespace", "kit", *words])

    def load(self, image: Image) -> None:
        """Import and unpack the image. Raises RunError."""
        name = ["--index-name", _NAME] if image.archive else []  # an archive with layers has none
        words = self._words("images", "import", *name, "--snapshotter", self.driver, "-")
        with interruptible(), writing(words, what=f"import of image {image.name}") as pipe:
            _write_archive(image, pipe)
        self.image = self._ctr("images", "list", "--quiet").split()[0]

    def run(self, name: str, options: Sequence[str], source: Sequence[str], runtime: str = "") -> None:
        """Start a container with the probe as its first process. ``runtime``: the name of another one than runc. Raises
        RunError."""
        chosen = ["--snapshotter", self.driver] if source[0] != "--rootfs" else []
        words = ["--detach", "--null-io", "--cwd", TREE]
        if runtime:
            words.append(f"--runc-binary={self._runtimes[runtime]}")
        self._ctr("run", *words, *chosen, *options, *source, name, f"{CONTROL}/kit-probe", "serve", f"{CONTROL}/s")

    @contextmanager
    def commands(self, path: Path, runtime: str = "") -> Iterator[None]:
        """Run commands of ctr that arrive at the socket ``path``, beside the daemon and with its snapshotter.
        ``runtime``: as for ``run``. Raises RunError."""
        words = self._words(before=["env", f"CONTAINERD_SNAPSHOTTER={self.driver}"])
        runc = self._runtimes[runtime] if runtime else ""
        start = [sys.executable, "-I", ctr_server.__file__, str(path), self._home.container_cgroup, runc, *words]
        with (self._home.directory / "ctr.log").open("ab") as output:
            process = spawn(start, output=output, cgroup_procs=Cgroup.named(self._home.cgroup).create().procs)
        try:
            try:
                wait_for(path.exists, partial(died, process), PATIENCE)
            except NotReadyError as error:
                raise RunError(f"commands of ctr can't be served: {error}", SESSION_LOG) from None
            yield
        finally:
            stop(process)

    def why_dead(self, name: str) -> str:
        """Return why a container is not running, or ''."""
        for line in self._ctr("tasks", "list").splitlines():
            words = line.split()
            if words[0] == name:
                return "" if words[2] == "RUNNING" else f"the container is {words[2].lower()}"
        return "the container is gone"

    def _delete_task(self, name: str) -> None:
        """Kill a container. gVisor's program refuses that for one that has just ended, which only has to be deleted:
        once containerd knows of its end."""
        try:
            self._ctr("tasks", "delete", "--force", name)
        except RunError as error:
            if "is not running" not in error.message:
                raise
            delete = partial(self._ctr, "tasks", "delete", name)
            retry(delete, RunError, lambda error: "must be stopped" in error.message)

    def remove(self, name: str) -> None:
        """Kill a container, and remove it with its snapshot; if its daemon is dead, the session's cgroup ends it."""
        for act in (partial(self._delete_task, name), partial(self._ctr, "containers", "delete", name)):
            try:
                act()
            except RunError as error:
                if not self.alive() and "not found" not in error.message:
                    raise


def _write_archive(image: Image, pipe: IO[bytes]) -> None:
    """Write the image as ``docker save`` does: its own archive if it has layers, else one with a single layer."""
    if image.archive:
        with image.archive.open("rb") as file:
            while data := file.read(1 << 20):
                pipe.write(data)
        return
    manifest = [{"Config": "config.json", "RepoTags": [f"{_NAME}:{image.digest[:12]}"], "Layers": ["layer.tar"]}]
    with write_tarball(pipe, tarfile.GNU_FORMAT) as tar:
        for name, data in (("manifest.json", json.dumps(manifest).encode()), ("config.json", image.config)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        with image.rootfs.open("rb") as file:
            entry = tarfile.TarInfo("layer.tar")
            entry.size = image.size
            tar.addfile(entry, file)
