"""One container of a Docker daemon, with the probe as its first process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kit.arms.engines.control import Control
from kit.arms.engines.oci_runtime import meet_kernel
from kit.arms.engines.sandbox import Sandbox
from kit.arms.filesystem.mounted import not_in_force
from kit.arms.image import Image
from kit.arms.image.layout import CONTROL, INPUTS, TREE
from kit.arms.probe import Probe
from kit.core.errors import MORE_ROOM, SESSION_LOG, MachineError, RunError
from kit.host.cgroup.cgroup import Cgroup, hierarchies
from kit.host.interrupt import interruptible
from kit.host.mounts import mount_of
from kit.host.waiting import retry
from kit.model.arm import Arm
from kit.model.drivers import handing_on


@dataclass(frozen=True)
class ContainerSpec:
    """``mounts``: host path or volume name → (path in the container, mode). ``host``: the daemon's address. ``probe``:
    is mounted over that of the control directory, where the daemon may see the latter on a mount with noexec."""

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
    probe: Path | None = None


@dataclass(frozen=True)
class RunningContainer:
    container: Any  # docker.models.containers.Container
    probe: Probe
    pid: int


@contextmanager
def docker_errors(what: str, alive: Callable[[], str]) -> Iterator[None]:
    """Turn the docker SDK's exceptions into one RunError; a dead daemon takes precedence as the reason."""
    import docker.errors
    import requests.exceptions

    try:
        yield
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        reason = alive() or " ".join((getattr(error, "explanation", None) or str(error)).split())
        full = "no space left" in reason or "is full" in reason
        raise RunError(f"{what}: {reason}", MORE_ROOM if full else "see with kit doctor what works here") from None


def start_container(stack: ExitStack, spec: ContainerSpec, alive: Callable[[], str]) -> RunningContainer:
    """Start the container and wait for its probe. The stack removes it by force, with its anonymous volumes. Raises
    RunError."""
    with docker_errors(f"{spec.arm}: no container", alive):
        container = _describe(spec)
        # The probe is released after it: Podman can't remove a container that ends by itself at the same moment.
        connection = stack.enter_context(ExitStack())
        stack.callback(_stop, container, alive)
        container.start()
        wrapped = container.get_wrapped_container()
        probe = spec.control.server.accept(lambda: alive() or _why_dead(wrapped))
        connection.callback(probe.close)
        meet_kernel(spec.arm, probe)
        # The engine is not asked for the PID: until https://github.com/podman-container-tools/podman/pull/28724 Podman
        # then leaves the container's config.json open, and an open file can't be removed from NFS.
        return RunningContainer(wrapped, probe, probe.pid)


def _describe(spec: ContainerSpec) -> Any:
    """Return the container as testcontainers represents it, not started yet."""
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    # The reaper's image would have to be pulled; the journal does its work here.
    testcontainers_config.ryuk_disabled = True
    client = {"environment": {"DOCKER_HOST": spec.host}, "timeout": 300}
    container = DockerContainer(spec.image, docker_client_kw=client)
    container.with_command(["serve", f"{CONTROL}/s"])
    if spec.name:
        container.with_name(spec.name)
    for name, value in spec.environment.items():
        container.with_env(name, value)
    container.with_volume_mapping(str(spec.control.path), CONTROL, "ro")
    if spec.probe:
        container.with_volume_mapping(str(spec.probe), f"{CONTROL}/kit-probe", "ro")
    if spec.inputs:
        container.with_volume_mapping(str(spec.inputs), INPUTS, "ro")
    for source, (target, mode) in spec.mounts.items():
        container.with_volume_mapping(source, target, mode)
    if spec.tmpfs:
        container.with_tmpfs_mount(TREE, "exec")
    return container.with_kwargs(
        entrypoint=[f"{CONTROL}/kit-probe"],
        user="0:0",
        working_dir=TREE,
        network="none",
        **_limits(spec.arm),
        **spec.options,
    )


def put_sources(container: Any, tarball: Path) -> None:
    """Fill the build tree through the daemon, which knows the container's users. Raises RunError."""
    with tarball.open("rb") as file:
        if not container.put_archive(TREE, file):
            raise RunError("the daemon refused the sources", SESSION_LOG)


def arm_cgroup(stack: ExitStack, arm: Arm, pid: int, name: str) -> Cgroup | None:
    """Return the container's group. With +cgroup=none, move the container into a group without controllers, as bare
    has; also that of a rootless engine, which makes none. None if an engine without root can't provide one."""
    if arm.option("cgroup") != "none" and not arm.rootless:
        group = Cgroup.of(pid)
        return None if group == Cgroup.of(os.getpid()) else own_part(group)
    group = Cgroup.named(name).create()
    stack.callback(group.remove)
    group.adopt(pid)
    return group


def own_part(group: Cgroup) -> Cgroup:
    """Return the container's group without the hierarchies in which it has none of its own: where v1 counts, gVisor
    makes groups of v1 alone, and its processes stay in the daemon's group of v2."""
    mounts = hierarchies()
    names = {kind: path.relative_to(mounts[kind]) for kind, path in group.paths.items()}
    cpu_group = names.get("cpuacct")
    return Cgroup({kind: path for kind, path in group.paths.items() if cpu_group in (None, names[kind])})


def empty_tree(sandbox: Sandbox) -> None:
    """Remove the tree's content from inside the container: outside, its root's files may belong to another user."""
    with open(os.devnull, "wb") as output:
        try:
            sandbox.probe.run(
                ["find", sandbox.tree, "-mindepth", "1", "-delete"], cwd="/", env=sandbox.env, output=output
            )
        except RunError:
            return  # the arm is dead; the tree's removal reports the rest


def check_features(arm: Arm, pid: int) -> None:
    """Check that the container's root is mounted as the arm asks: an engine may ignore it. Raises MachineError."""
    ignored = not_in_force(arm.feature_words, mount_of(Path("/"), pid)) if arm.features else ()
    if ignored:
        raise MachineError(
            f"{arm}: the root is not mounted with {ignored[0]}: this engine ignores it",
            f"use {', '.join(handing_on(ignored[0].partition('=')[0]))}, or union:overlay+{ignored[0]}",
        )


def load_image(client: Any, image: Image) -> None:
    """Load the archive of its layers, or import its root filesystem as one layer, under the image's tag."""
    import docker.errors

    name, tag = image.tag.split(":")
    with interruptible():
        if image.archive:
            with image.archive.open("rb") as file:
                client.images.load(file)[0].tag(name, tag)
        else:
            answer = client.api.import_image_from_file(str(image.rootfs), repository=name, tag=tag)
            last = json.loads(answer.strip().splitlines()[-1])
            if "status" not in last:
                raise docker.errors.DockerException(last.get("error", answer))
            client.images.get(last["status"]).tag(name, tag)  # Podman 4 imports as NAME:latest whatever tag is given
    client.images.get(image.tag)


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
    """Remove the container; if its daemon is dead, the session's cgroup ends it."""
    _unless_dead("a container can't be removed", partial(_remove, container), alive)


def _remove(container: Any) -> None:
    """Remove the container. Podman before 4.4 does it beside a cleanup of its own, and fails while the other unmounts,
    or has just stopped it (https://github.com/containers/podman/issues/11594)."""
    import docker.errors

    try:
        container.stop()
    except docker.errors.APIError as error:
        if not _passes(error):
            raise
        with suppress(docker.errors.NotFound):  # the other has removed it
            retry(container.stop, docker.errors.APIError, _passes)


def _passes(error: Exception) -> bool:
    return any(text in str(error) for text in ("device or resource busy", "container state improper"))


def remove_volume(volume: Any, alive: Callable[[], str]) -> None:
    """Remove a docker.models.volumes.Volume; if its daemon is dead, it disappears with the data-root."""
    _unless_dead(f"volume {volume.name} can't be removed", lambda: volume.remove(force=True), alive)


def _unless_dead(what: str, act: Callable[[], None], alive: Callable[[], str]) -> None:
    try:
        with docker_errors(what, alive):
            act()
    except RunError:
        if not alive():
            raise
