"""Rootless engines of a session of root's: an unprivileged user runs the daemon in a user namespace of its own
(docs.docker.com/engine/security/rootless). What it makes on the backing filesystem is that user's, or its numbers'.
Root only passes its settings and takes its socket: in that user's directories it opens nothing by path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kit.arms.engines.docker_server import Dockerd
from kit.arms.engines.supervisor import Program
from kit.host.command import run

#: Run in the namespace before the daemon, which makes these directories of its own (moby, contrib/dockerd-rootless.sh).
_OWN_RUN = 'rm -f /run/docker /run/containerd /run/xtables.lock; exec "$@"'


@contextmanager
def passable(directory: Path | None, where: Path) -> Iterator[Path | None]:
    """Mount a directory at a second path, since the first may lie in a home of root's. None stays None."""
    if directory is None:
        yield None
        return
    where.mkdir()
    run(["mount", "--bind", directory, where], what="mount of the inputs")
    try:
        yield where
    finally:
        run(["umount", where])
        where.rmdir()


class RootlessDockerd(Dockerd):
    """dockerd with its own containerd in the namespace that RootlessKit makes. Its containers have no network anyway,
    so the namespace shares the machine's."""

    def programs(self) -> Sequence[Program]:
        state = self.home.state
        runtime_directory = state / "x"
        self.home.make_below(runtime_directory)
        words = [*self.command_line(), "--rootless"]
        kit = ["rootlesskit", f"--state-dir={state / 'k'}", "--copy-up=/run", "sh", "-c", _OWN_RUN, "sh"]
        environment = "env", f"HOME={runtime_directory}", f"XDG_RUNTIME_DIR={runtime_directory}"
        return [Program("dockerd", [*environment, *kit, *words], self.served)]
