"""Build tools: the command line of one build, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kit.host.cgroup.cgroup import Cgroup


@dataclass(frozen=True)
class BuildFiles:
    """The files of one build. ``image``: the name that its image gets; ``base``: that of the image it begins with."""

    dockerfile: Path
    context: Path
    image: str
    base: str

    @property
    def words(self) -> tuple[str, ...]:
        """Return the arguments that Docker's client, Podman and Buildah share."""
        return f"--file={self.dockerfile}", f"--tag={self.image}", "--network=none", str(self.context)


@dataclass(frozen=True)
class BuildTool:
    """``report_format``: the parser of its output. ``words``: the command line before a build's own arguments, which
    ``arguments`` returns. ``size`` returns the bytes of an image, with ``compressed`` those of its compressed layers;
    ``forget`` removes these images and the build cache.
    ``cgroup``: of the client and the steps. ``daemons``: of the daemon that builds, if any. ``printed``: returns the
    part of a line of its output that the step has printed, None if the tool itself has."""

    report_format: str
    words: Sequence[str]
    cgroup: Cgroup
    size: Callable[[str], int]
    forget: Callable[[Sequence[str]], None]
    compressed: bool = False
    daemons: Cgroup | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    printed: Callable[[bytes], bytes | None] = lambda line: line
    arguments: Callable[[BuildFiles], Sequence[str]] = lambda files: files.words

    def argv(self, files: BuildFiles) -> list[str]:
        """Return the command line of one build."""
        return [*self.words, *self.arguments(files)]
