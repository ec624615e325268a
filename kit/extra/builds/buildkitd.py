"""A private buildkitd, without Docker and containerd: the worker that runs runc itself, as in the image moby/buildkit.

Its images are in no store of its own: a client hands them over, and takes them, in OCI layout."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kit.arms.engines.docker_server import log_words
from kit.arms.engines.supervisor import DaemonDirs, Program, Supervisor
from kit.arms.image.oci_store import OciStore
from kit.extra.builds.tool import BuildFiles
from kit.host.command import run

#: The name of the OCI layout in a build's references.
_STORE = "kit"


class Buildkitd:
    """``store``: the images before and after each build, on the backing filesystem."""

    def __init__(self, driver: str, home: DaemonDirs) -> None:
        self.driver = driver
        self.home = home
        self.store = OciStore(home.data / "images")
        self._address = f"unix://{home.directory / 's'}"
        self._supervisor = Supervisor(home, driver)
        self._preserved: Sequence[str] = ()

    def start(self) -> None:
        """Start the daemon and wait until it serves. Raises RunError with the log's message; stop it then too."""
        self.home.make()
        config, socket = self.home.directory / "buildkitd.toml", self.home.directory / "s"
        config.write_text("\n".join(self._settings()) + "\n")
        self._supervisor.start([Program("buildkitd", [*log_words(), "buildkitd", f"--config={config}"], socket)])

    def _settings(self) -> Sequence[str]:
        """Return the lines of its configuration; without it buildkitd reads the user's (buildkitd.toml.md)."""
        return (
            f"root = {json.dumps(str(self.home.data / 'buildkit'))}",
            "[grpc]",
            f"address = [{json.dumps(self._address)}]",
            "[worker.containerd]",
            "enabled = false",
            "[worker.oci]",
            "enabled = true",
            'binary = "runc"',
            f"snapshotter = {json.dumps(self.driver)}",
            "gc = false",
            f"defaultCgroupParent = {json.dumps(self.home.container_cgroup + '/steps')}",
        )

    def stop(self) -> None:
        self._supervisor.stop()

    def alive(self) -> str:
        """Return why the daemon is dead, or ''."""
        return self._supervisor.alive()

    def client_words(self) -> list[str]:
        """Return the command line of buildctl, up to its subcommand. It runs on the host, which sees all mounts of a
        build context."""
        root = self.home.root.path
        return [str(root / "usr/bin/buildctl") if root else "buildctl", "--addr", self._address]

    def arguments(self, files: BuildFiles) -> tuple[str, ...]:
        """Return the arguments of a build. Raises KeyError for an unknown base."""
        return (
            f"--local=context={files.context}",
            f"--local=dockerfile={files.dockerfile.parent}",
            f"--opt=filename={files.dockerfile.name}",
            f"--oci-layout={_STORE}={self.store.path}",
            f"--opt=context:{files.base}=oci-layout://{_STORE}@{self.store.digest(files.base)}",
            f"--output=type=oci,tar=false,dest={self.store.path},name={files.image}",
        )

    def keep(self) -> None:
        """Have ``forget`` keep the images and the build cache that are there now."""
        self.store.keep()
        words = [*self.client_words(), "du", "--format={{json .}}"]
        self._preserved = [record["id"] for record in json.loads(run(words)) or ()]

    def forget(self, images: Sequence[str]) -> None:
        """Remove the images and the build cache of a run, of whatever name."""
        others = ",".join(f"id!={name}" for name in self._preserved)
        run([*self.client_words(), "prune", "--all", *([f"--filter={others}"] if others else [])])
        self.store.clear()
