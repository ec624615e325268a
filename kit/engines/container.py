"""One container of a Docker daemon, with the probe as its first process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.arm import Arm
from kit.engines.control import Control
from kit.engines.place import CONTROL, INPUTS, TREE
from kit.errors import RunError
from kit.probe import Probe


@dataclass(frozen=True)
class ContainerSpec:
    """``mounts``: host path or volume name → (path in the container, mode). ``host``: the daemon's address."""

    image: str
    host: str
    arm: Arm
    control: Control
    inputs: Path | None
    mounts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    tmpfs: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None


@dataclass(frozen=True)
class Running:
    container: Any  # docker.models.containers.Container
    probe: Probe
    pid: int


def start_container(stack: ExitStack, spec: ContainerSpec, alive: Callable[[], str]) -> Running:
    """Start it and wait for its probe; the stack removes it by force, its anonymous volumes too. Raises RunError."""
    import docker.errors
    import requests.exceptions
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    # The reaper is an image of its own that would have to be pulled; the journal does its work here.
    testcontainers_config.ryuk_disabled = True
    container = DockerContainer(spec.image, docker_client_kw={"environment": {"DOCKER_HOST": spec.host}, "timeout": 300})
    container.with_command(["serve", f"{CONTROL}/s"])
    if spec.name:
        container.with_name(spec.name)
    for name, value in spec.environment.items():
        container.with_env(name, value)
    container.with_volume_mapping(str(spec.control.path), CONTROL, "rw")
    if spec.inputs:
        container.with_volume_mapping(str(spec.inputs), INPUTS, "ro")
    for source, (target, mode) in spec.mounts.items():
        container.with_volume_mapping(source, target, mode)
    if spec.tmpfs:
        container.with_tmpfs_mount(TREE, "exec")
    container.with_kwargs(
        entrypoint=[f"{CONTROL}/kit-probe"],
        user="0:0",
        working_dir=TREE,
        network="none",
        **_limits(spec.arm),
        **spec.options,
    )
    stack.callback(_stop, container, alive)
    try:
        container.start()
        wrapped = container.get_wrapped_container()
        probe = spec.control.server.accept(lambda: alive() or _why_dead(wrapped))
        stack.callback(probe.close)
        wrapped.reload()
        return Running(wrapped, probe, int(wrapped.attrs["State"]["Pid"]))
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        reason = alive() or getattr(error, "explanation", None) or str(error)
        raise RunError(f"{spec.arm}: no container: {reason}", "kit doctor shows whether this arm works here") from None


def _limits(arm: Arm) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if arm.option("seccomp") == "unconfined":
        limits["security_opt"] = ["seccomp=unconfined"]
    if arm.option("cpus"):
        limits["nano_cpus"] = int(float(arm.option("cpus")) * 1e9)
    if arm.option("memory"):
        limits["mem_limit"] = arm.option("memory")
    return limits


def _why_dead(container: Any) -> str:
    container.reload()
    state = container.attrs["State"]
    if state["Status"] in ("created", "running"):
        return ""
    return f"the container is {state['Status']}: {state.get('Error') or 'exit status ' + str(state.get('ExitCode'))}"


def _stop(container: Any, alive: Callable[[], str]) -> None:
    """Remove it; with its daemon dead the session's cgroup is what ends it."""
    import docker.errors
    import requests.exceptions

    try:
        container.stop()
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        if not alive():
            raise RunError(f"a container can't be removed: {error}", "kit clean") from None


def remove_volume(volume: Any, alive: Callable[[], str]) -> None:
    """Remove a docker.models.volumes.Volume; with its daemon dead it goes with the data-root."""
    import docker.errors
    import requests.exceptions

    try:
        volume.remove(force=True)
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        if not alive():
            raise RunError(f"volume {volume.name} can't be removed: {error}", "kit clean") from None
