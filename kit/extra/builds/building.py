"""The common part of engines whose arms are image builds: each command is a step of a build."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from kit.core.deadline import Deadline
from kit.core.errors import MachineError
from kit.engines.backing_root import BackingRoot, unpack_tree
from kit.engines.bare import host_argv, start_probe
from kit.engines.engine import Blocker
from kit.engines.managed import PrivateEngine
from kit.engines.sandbox import Invocation, Sandbox
from kit.engines.supervisor import DaemonDirs
from kit.extra.builds.dockerfile import SOURCES, Chain
from kit.extra.builds.probe import BuildDirs, BuildProbe
from kit.extra.builds.tool import BuildFiles, BuildTool
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import run
from kit.host.machine import Host
from kit.image.layout import CONTROL, INPUTS, TREE
from kit.model.arm import Arm

#: Names of images, in a form that no tool looks for in a registry: the base with the timer, and a step's. With a tag:
#: BuildKit leaves out "latest" where it looks for an image, and adds it where it names one.
_BASE, _STEP = "localhost/kit-base:0", "localhost/kit-step"
#: The file that the build context gets with +cache=changed.
_CHANGED = ".kit-changed"


class BuildDaemon(Protocol):
    home: DaemonDirs

    def alive(self) -> str:
        """Return why the daemon is dead, or ''."""


D = TypeVar("D", bound=BuildDaemon)


class BuildingEngine(PrivateEngine[D]):
    """Its private daemon has no other arm, so its cache is the arm's, and the daemon can be frozen with it."""

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        blocker = super().check(arm, host)
        if blocker:
            return blocker
        if not host.root:
            return Blocker("a build arm needs root", "run as root: sudo kit …")
        try:
            self.check_client(arm)
        except MachineError as error:
            return Blocker(error.message, error.hint)
        return None

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        return Blocker("a build step has no access to it", "use a layer arm")

    def check_client(self, arm: Arm) -> None:
        """Check for the program that builds. Raises MachineError."""

    @abstractmethod
    def tool(self, daemon: D, arm: Arm) -> BuildTool:
        """Return the tool that builds with the daemon."""

    def build_base(self, daemon: D, arm: Arm, backing_root: BackingRoot) -> None:
        """Build the image that all builds begin with: the scenario's, with the timer. Raises RunError."""
        image, context = backing_root.needed_image.tag, daemon.home.directory / "base"
        context.mkdir()
        dockerfile, probe = context / "Dockerfile", context / "kit-probe"
        dockerfile.write_text(f"FROM {image}\nCOPY kit-probe {CONTROL}/kit-probe\n")
        probe.write_bytes(self._setting.probe.read_bytes())
        probe.chmod(0o755)
        tool = self.tool(daemon, arm)
        run(tool.argv(BuildFiles(dockerfile, context, _BASE, image)), env=tool.env, what=f"building the base of {arm}")

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
                self._setting,
                name,
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


def _rehearsal(
    arm: Arm, probe: BuildProbe, tree: Path
) -> Callable[[Sequence[Invocation], Deadline | None, Callable[[], str]], None] | None:
    cache = arm.option("cache")
    if not cache:
        return None
    return partial(probe.rehearse, change=tree / _CHANGED if cache == "changed" else None)
