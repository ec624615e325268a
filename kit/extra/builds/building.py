"""The client of engines whose arms are image builds: each command is a step of a build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from kit.arms.engines.backing_root import BackingRoot, unpack_tree
from kit.arms.engines.bare import host_argv, start_probe
from kit.arms.engines.engine import Blocker
from kit.arms.engines.managed import Installation
from kit.arms.engines.sandbox import Invocation, Sandbox
from kit.arms.engines.supervisor import DaemonDirs
from kit.arms.image.layout import CONTROL, INPUTS, TREE
from kit.core.deadline import Deadline
from kit.extra.builds.dockerfile import SOURCES, Chain
from kit.extra.builds.probe import BuildDirs, BuildProbe
from kit.extra.builds.tool import BuildFiles, BuildTool
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import run
from kit.host.machine import Host
from kit.model.arm import Arm
from kit.model.fact import Fact

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
D_contra = TypeVar("D_contra", bound=BuildDaemon, contravariant=True)


class Builder(Protocol[D_contra]):
    """A program that builds images, with a daemon or on its storage."""

    def check(self, arm: Arm) -> Blocker | None:
        """Return what is known to prevent a build."""

    def load(self, daemon: D_contra, backing_root: BackingRoot) -> None:
        """Load the image that the builds begin with. Raises KitError."""

    def keep(self, daemon: D_contra) -> None:
        """Have ``BuildTool.forget`` keep what is in the build cache now. Raises KitError."""

    def tool(self, daemon: D_contra, arm: Arm) -> BuildTool:
        """Return the tool that builds with the daemon."""

    def facts(self, arm: Arm) -> Sequence[Fact]:
        """Return the version of a client whose engine has another one."""


class BuildClient(Generic[D]):
    """Runs arms as image builds. The private daemon has no other arm, so its cache is the arm's, and the daemon can be
    frozen with it."""

    def __init__(self, installation: Installation, builder: Builder[D]) -> None:
        self._installation = installation
        self._builder = builder

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        if not host.root:
            return Blocker("a build arm needs root", "run as root: sudo kit …")
        return self._builder.check(arm)

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        return Blocker("a build step has no access to it", "use a layer arm")

    def load(self, daemon: D, arm: Arm, backing_root: BackingRoot) -> Sequence[Fact]:
        self._builder.load(daemon, backing_root)
        self._build_base(daemon, arm, backing_root)
        self._builder.keep(daemon)
        return self._builder.facts(arm)

    def _build_base(self, daemon: D, arm: Arm, backing_root: BackingRoot) -> None:
        """Build the image that all builds begin with: the scenario's, with the timer. Raises RunError."""
        image, context = backing_root.needed_image.tag, daemon.home.directory / "base"
        context.mkdir()
        dockerfile, probe = context / "Dockerfile", context / "kit-probe"
        dockerfile.write_text(f"FROM {image}\nCOPY kit-probe {CONTROL}/kit-probe\n")
        probe.write_bytes(self._installation.setting.probe.read_bytes())
        probe.chmod(0o755)
        tool = self._builder.tool(daemon, arm)
        run(tool.argv(BuildFiles(dockerfile, context, _BASE, image)), env=tool.env, what=f"building the base of {arm}")

    @contextmanager
    def sandbox(self, daemon: D, arm: Arm, backing_root: BackingRoot) -> Iterator[Sandbox]:
        setting = self._installation.setting
        name = self._installation.new_name("s")
        tool = self._builder.tool(daemon, arm)
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
                setting,
                name,
                Cgroup.named(f"{daemon.home.container_cgroup.lstrip('/')}/{name}").create(),
                host_argv,
            )
            dirs = BuildDirs(setting.run / name, context, setting.run / name / "empty")
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
