"""Build tools: the command line of one build, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kit.host.cgroup.cgroup import Cgroup


@dataclass(frozen=True)
class BuildFiles:
    """The files of one build."""

    dockerfile: Path
    context: Path
    image: str  # the name that its image gets
    base: str  # that of the image it begins with

    @property
    def words(self) -> tuple[str, ...]:
        """Return the arguments that Docker's client, Podman and Buildah share."""
        return f"--file={self.dockerfile}", f"--tag={self.image}", "--network=none", str(self.context)


@dataclass(frozen=True)
class BuildTool:
    """A program that builds images."""

    report_format: str  # the parser of its output
    words: Sequence[str]  # the command line before a build's own arguments
    cgroup: Cgroup  # of the client and the steps
    size: Callable[[str], int]  # returns the bytes of an image
    forget: Callable[[Sequence[str]], None]  # removes these images and the build cache
    compressed: bool = False  # size returns the bytes of the compressed layers
    daemons: Cgroup | None = None  # of the daemon that builds, if any
    env: Mapping[str, str] = field(default_factory=dict)
    # Returns the part of a line of its output that the step has printed, None if the tool itself has
    printed: Callable[[bytes], bytes | None] = lambda line: line
    arguments: Callable[[BuildFiles], Sequence[str]] = lambda files: files.words  # returns a build's own arguments

    def argv(self, files: BuildFiles) -> list[str]:
        """Return the command line of one build."""
        return [*self.words, *self.arguments(files)]
