"""A private containerd: its settings, and how it is started, with the snapshotter that is a program of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kit.arms.engines.supervisor import DaemonDirs, Program
from kit.model.drivers import Driver


def containerd_programs(home: DaemonDirs, driver: Driver | None, lines: Sequence[str] = ()) -> tuple[Program, ...]:
    """Return containerd, after the driver's proxy plugin if it has one. Write the settings, with ``lines`` at the end.
    The daemon serves on a socket of its own: dockerd would otherwise join the system's containerd if one runs."""
    config, socket = home.directory / "containerd.toml", home.directory / "c"
    plugin = _plugin_program(home, driver) if driver else None
    settings = [
        "version = 2",
        f"root = {json.dumps(str(home.data / 'containerd'))}",
        f"state = {json.dumps(str(home.directory / 'containerd'))}",
        # The second makes /opt/containerd on the machine, for what ctr install brings.
        'disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]',
        "[grpc]",
        f"address = {json.dumps(str(socket))}",
        *(_plugin_lines(driver, plugin) if driver and plugin else ()),
        *lines,
    ]
    config.write_text("\n".join(settings) + "\n")
    containerd = Program("containerd", ["containerd", "--config", str(config)], socket)
    return (plugin, containerd) if plugin else (containerd,)


def _plugin_program(home: DaemonDirs, driver: Driver) -> Program | None:
    if driver.plugin is None:
        return None
    socket = home.directory / "p.sock"
    words = [word.format(socket=socket, root=home.data / driver.name) for word in driver.plugin.words]
    return Program(words[0], words, socket)


def _plugin_lines(driver: Driver, program: Program) -> list[str]:
    """Return the settings of the proxy plugin. Containerd names an image to a lazy one only if its exports ask for
    that (containerd/stargz-snapshotter, docs/transfer.md)."""
    section = f"proxy_plugins.{driver.name}"
    lines = [f"[{section}]", 'type = "snapshot"', f"address = {json.dumps(str(program.socket))}"]
    if driver.plugin and driver.plugin.lazy:
        lines += [f"[{section}.exports]", 'enable_remote_snapshot_annotations = "true"']
    return lines
