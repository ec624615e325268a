"""The directory an arm sees at CONTROL: the probe, and the socket it connects to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.arms.probe import ProbeServer
from kit.host.safe_fs import remove


@dataclass(frozen=True)
class Control:
    """``program``: the probe where the machine itself can run it. ``path`` may lie on a mount with noexec."""

    path: Path
    server: ProbeServer
    program: Path


@contextmanager
def control_directory(path: Path, probe: Path, shared: bool = False) -> Iterator[Control]:
    path.mkdir()
    path.chmod(0o755)
    try:
        shutil.copyfile(probe, path / "kit-probe")
        (path / "kit-probe").chmod(0o755)
        server = ProbeServer(path, shared)
        try:
            yield Control(path, server, probe)
        finally:
            server.close()
    finally:
        remove(path)
