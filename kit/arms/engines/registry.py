"""A registry of images on the loopback interface: Debian's docker-registry, which serves a directory read-only."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kit.arms.engines.engine import Blocker, EngineConfig
from kit.arms.engines.root import in_network
from kit.core.errors import SESSION_LOG, MachineError, RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import died, require, spawn, stop
from kit.host.safe_fs import remove
from kit.host.waiting import NotReadyError, wait_for

_PROGRAM = "docker-registry"
#: Seconds within which it must serve.
_PATIENCE = 30
_LISTENING = re.compile(r"listening on (127\.0\.0\.1:\d+)")


@dataclass(frozen=True)
class Registry:
    """A running registry. ``address``: HOST:PORT. ``cgroup``: its control group, None without root."""

    address: str
    directory: Path
    cgroup: Cgroup | None


def registry_blocker() -> Blocker | None:
    """Return why no registry can run here; None if one can."""
    try:
        require(_PROGRAM)
    except MachineError as error:
        return Blocker(error.message, error.hint)
    return None


@contextmanager
def serve_registry(directory: Path, setting: EngineConfig) -> Iterator[Registry]:
    """Serve ``directory``, a registry's root, on a free port of the session's loopback interface. Every registry is
    new, so none has seen a blob before. Raises MachineError, RunError."""
    home = Path(tempfile.mkdtemp(prefix="registry-", dir=setting.run))
    try:
        log = home / "log"
        (home / "config.yml").write_text(json.dumps(_configuration(directory)))  # JSON is YAML
        cgroup = Cgroup.named(f"{setting.cgroup}/{home.name}").create() if os.geteuid() == 0 else None
        with log.open("wb") as output:
            words = in_network(setting.network, [_PROGRAM, "serve", str(home / "config.yml")])
            process = spawn(words, output=output, cgroup_procs=cgroup.procs if cgroup else ())
        try:
            try:
                address = wait_for(lambda: _LISTENING.search(log.read_text(errors="replace")), partial(died, process),
                                 _PATIENCE)  # fmt: skip
            except NotReadyError as error:
                last_line = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
                raise RunError(f"{_PROGRAM} does not serve: {error}: {last_line}", SESSION_LOG) from None
            yield Registry(address[1], directory, cgroup)
        finally:
            stop(process)
            if cgroup:
                cgroup.remove()
    finally:
        remove(home)


def _configuration(directory: Path) -> dict[str, object]:
    return {
        "version": "0.1",
        "log": {"level": "info", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(directory)},
            "maintenance": {"readonly": {"enabled": True}, "uploadpurging": {"enabled": False}},
        },
        "http": {"addr": "127.0.0.1:0"},
    }
