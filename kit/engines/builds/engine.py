"""Engines of build arms: private daemons of Docker and Podman, in which each command is a step of an image build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from kit.core.deadline import Deadline
from kit.core.errors import MachineError
from kit.engines.backing_root import BackingRoot, unpack_tree
from kit.engines.bare import host_argv, start_probe
from kit.engines.builds.client import docker_client
from kit.engines.builds.dockerfile import SOURCES, Chain
from kit.engines.builds.output import logged
from kit.engines.builds.probe import BuildDirs, BuildProbe
from kit.engines.builds.tool import BuildFiles, BuildTool
from kit.engines.container import docker_errors
from kit.engines.docker import DockerEngine
from kit.engines.docker_server import DockerServer
from kit.engines.dockerd import Dockerd
from kit.engines.engine import Blocker
from kit.engines.podman import PodmanEngine, PodmanService, oci_runtime
from kit.engines.sandbox import Invocation, Sandbox
from kit.engines.supervisor import DaemonDirs
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import environment, require, run
from kit.host.machine import Host
from kit.image.layout import CONTROL, INPUTS, TREE
from kit.model.arm import Arm
from kit.model.fact import PROGRAM, Fact

#: Names of images, in a form that no tool looks for in a registry: the base with the timer, and a step's.
_BASE, _STEP = "localhost/kit-base", "localhost/kit-step"
#: The file of the build context that changes with +cache=changed.
_CHANGED = ".kit-changed"


class BuildEngine(DockerEngine):
    """Docker. Its private daemon has no other arm, so its cache is the arm's, and the daemon can be frozen with it."""

    prefix = "b"

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        blocker = super().check(arm, host)
        if blocker:
            return blocker
        if not host.root:
            return Blocker("a build arm needs root", "run as root: sudo kit …")
        try:
            self.find_client(arm)
        except MachineError as error:
            return Blocker(error.message, error.hint)
        return None

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        return Blocker("a build step has no access to it", "use a layer arm")

    def find_client(self, arm: Arm) -> str:
        """Return the path of the program that builds. Raises MachineError."""
        return docker_client(arm.buildkit, _environment(Path("/nonexistent")))

    def daemon_words(self, home: DaemonDirs) -> tuple[str, ...]:
        return (f"--cgroup-parent={home.container_cgroup}",)  # of the steps of BuildKit

    def fill_daemon(self, daemon: DockerServer, arm: Arm, backing_root: BackingRoot) -> list[Fact]:
        facts = super().fill_daemon(daemon, arm, backing_root)
        context = daemon.home.directory / "base"
        context.mkdir()
        (context / "Dockerfile").write_text(
            f"FROM {backing_root.needed_image.tag}\nCOPY kit-probe {CONTROL}/kit-probe\n"
        )
        probe = context / "kit-probe"
        probe.write_bytes(self._setting.probe.read_bytes())
        probe.chmod(0o755)
        tool = self.tool(daemon, arm)
        files = BuildFiles(context / "Dockerfile", context, _BASE)
        run([*tool.words, *files.words], env=tool.env, what=f"building the base of {arm}")
        return [*facts, PROGRAM.fact(run([self.find_client(arm), "--version"]).strip(), f"client of {arm}")]

    def tool(self, daemon: DockerServer, arm: Arm) -> BuildTool:
        settings = daemon.home.directory / "client"
        settings.mkdir(exist_ok=True)
        words = (
            ["--progress=plain"] if arm.buildkit else ["--force-rm", f"--cgroup-parent={daemon.home.container_cgroup}"]
        )
        return BuildTool(
            "buildkit" if arm.buildkit else "build-steps",
            (self.find_client(arm), "--host", daemon.host, "build", *words),
            Cgroup.named(daemon.home.container_cgroup.lstrip("/")),
            size=partial(_size, daemon),
            forget=partial(_forget, daemon),
            daemons=Cgroup.named(daemon.home.cgroup),
            env={**_environment(settings), "DOCKER_BUILDKIT": str(int(arm.buildkit))},
            logged=logged if arm.buildkit else lambda line: line,
        )

    @contextmanager
    def sandbox(self, arm: Arm, backing_root: BackingRoot) -> Iterator[Sandbox]:
        daemon = self._daemons[arm.daemon, backing_root.backing.path]
        name = self.new_name("s")
        tool = self.tool(daemon, arm)
        with ExitStack() as stack:
            context = stack.enter_context(backing_root.tree())
            mount = f"kit-{name}" if arm.option("mount") else ""
            tree = context / (SOURCES if mount else TREE).lstrip("/")
            tree.mkdir()
            # COPY and what follows never hit the cache of another run, whatever that may have left.
            (context / ".kit-run").write_text(name)
            tree.chmod(0o755)  # whatever the umask is: users of scenarios go there
            if backing_root.inputs:
                inputs = context / INPUTS.lstrip("/")
                inputs.mkdir()
                run(["mount", "--bind", "-o", "ro", backing_root.inputs, inputs], what="mount of the inputs")
            started = start_probe(
                stack,
                self._setting.run / name,
                self._setting.probe,
                Cgroup.named(f"{daemon.home.container_cgroup.lstrip('/')}/{name}").create(),
                host_argv,
            )
            dirs = BuildDirs(self._setting.run / name, context, self._setting.run / name / "empty")
            dirs.empty.mkdir()
            probe = BuildProbe(started.probe, tool, dirs, Chain(_BASE, mount), f"{_STEP}-{name}")
            stack.callback(lambda: tool.forget(probe.images))
            yield Sandbox(
                tree=TREE,
                inputs=INPUTS,
                cgroup=tool.cgroup,
                backing=backing_root.backing,
                probe=probe,
                unpack=partial(unpack_tree, tree),
                alive=daemon.alive,
                env=backing_root.env,
                layered=not mount,
                daemons=tool.daemons,
                report_format=tool.report_format,
                report=probe.report,
                rehearsal=_rehearsal(arm, probe, tree),
            )


class PodmanBuildEngine(BuildEngine, PodmanEngine):
    """podman build. The client builds by itself; the service only imports the image."""

    prefix = "bp"
    builder = "podman"

    def find_client(self, arm: Arm) -> str:
        return require(self.builder)

    def tool(self, daemon: DockerServer, arm: Arm) -> BuildTool:
        assert isinstance(daemon, PodmanService)
        group = daemon.home.container_cgroup  # the runtime removes the group of a step with all groups below it
        words = f"--cgroup-parent={group}/steps", "--layers", "--isolation=oci"
        return BuildTool(
            "build-steps",
            (*self.client_words(daemon), *words),
            Cgroup.named(group.lstrip("/")),
            size=partial(_size, daemon),
            forget=partial(_forget, daemon),
            env=environment(),
        )

    def client_words(self, daemon: PodmanService) -> list[str]:
        """Return the command line of the client, up to its options."""
        return [*daemon.client_words(), f"--runtime={oci_runtime()}", "build"]


class BuildahEngine(PodmanBuildEngine):
    """buildah build, on storage into which Podman imports the image."""

    prefix = "bb"
    builder = "buildah"

    def client_words(self, daemon: PodmanService) -> list[str]:
        return [*daemon.environment_words(), self.builder, "build", f"--runtime={oci_runtime()}"]


def _environment(settings: Path) -> dict[str, str]:
    """Return the environment of docker's client, without the user's settings and plugins."""
    return {**environment(), "DOCKER_CONFIG": str(settings), "HOME": str(settings)}


def _rehearsal(
    arm: Arm, probe: BuildProbe, tree: Path
) -> Callable[[Sequence[Invocation], Deadline | None, Callable[[], str]], None] | None:
    cache = arm.option("cache")
    if not cache:
        return None
    return partial(probe.rehearse, change=tree / _CHANGED if cache == "changed" else None)


def _size(daemon: DockerServer, image: str) -> int:
    with docker_errors(f"{image} has no size", daemon.alive):
        return int(daemon.client.images.get(image).attrs["Size"])


def _forget(daemon: DockerServer, images: Sequence[str]) -> None:
    """Remove the images of a run, the last ones first, and with them the build cache."""
    import docker.errors

    with docker_errors("the images of a build can't be removed", daemon.alive):
        for image in reversed(images):
            with suppress(docker.errors.NotFound):
                daemon.client.images.remove(image, force=True)
        daemon.client.images.prune({"dangling": True})
        if isinstance(daemon, Dockerd):
            daemon.client.api.prune_builds(all=True)
    if isinstance(daemon, PodmanService):
        daemon.clear_build_cache()
