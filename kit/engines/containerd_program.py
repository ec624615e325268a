"""A private containerd: its settings, and how it is started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kit.engines.supervisor import DaemonDirs, Program

#: Shims put their sockets here, whatever containerd's settings say.
SHIMS = Path("/run/containerd")


def containerd_program(home: DaemonDirs, lines: Sequence[str] = ()) -> Program:
    """Write the settings, with ``lines`` at the end. The daemon serves on a socket of its own: dockerd would otherwise
    join the system's containerd if one runs."""
    config, socket = home.directory / "containerd.toml", home.directory / "c"
    settings = [
        "version = 2",
        f"root = {json.dumps(str(home.data / 'containerd'))}",
        f"state = {json.dumps(str(home.directory / 'containerd'))}",
        'disabled_plugins = ["io.containerd.grpc.v1.cri"]',
        "[grpc]",
        f"address = {json.dumps(str(socket))}",
        *lines,
    ]
    config.write_text("\n".join(settings) + "\n")
    return Program("containerd", ["containerd", "--config", str(config)], socket)
