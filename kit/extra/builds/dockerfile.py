"""The Dockerfile of one step. All steps of a run make one chain of images, as the lines of one Dockerfile would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kit.arms.engines.sandbox import Invocation
from kit.arms.image.layout import CONTROL, TREE

#: The path of the sources in the image, if the build tree is a cache mount, which would hide them.
SOURCES = "/kit-sources"
ROOT = "0:0"
_PROBE = f"{CONTROL}/kit-probe"


@dataclass(frozen=True)
class Chain:
    """The images that the steps of a run have made so far."""

    image: str  # the last one's name
    mount: str = ""  # the cache mount that holds the tree, or ''
    copied: bool = False  # whether it holds the build context
    env: Mapping[str, str] = field(default_factory=dict)  # set by the image
    user: str = ROOT  # set by the image

    def dockerfile(self, step: Invocation) -> str:
        """Return the lines that the step adds to the chain. The first step copies the build context."""
        return "\n".join([f"FROM {self.image}", *self._lines(step), ""])

    def _lines(self, step: Invocation) -> Iterator[str]:
        if step.env != self.env:
            yield "ENV " + " ".join(f"{key}={_quoted(value)}" for key, value in step.env.items())
        if not self.copied:
            yield "COPY . /"
            if self.mount:
                yield self._run(("cp", "-a", f"{SOURCES}/.", TREE))
        if step.user != self.user:
            yield f"USER {step.user}"
        yield self._run((_PROBE, "step", step.cwd, *step.argv))

    def _run(self, words: Sequence[str]) -> str:
        mount = f"--mount=type=cache,id={self.mount},target={TREE} " if self.mount else ""
        return f"RUN {mount}{_words(words)}"

    def after(self, step: Invocation, image: str) -> Chain:
        """Return the chain whose last image the step has made."""
        return replace(self, image=image, copied=True, env=step.env, user=step.user)


def _words(words: Sequence[str]) -> str:
    """Return the exec form. A dollar sign is not a variable there, and JSON keeps the line whole."""
    return json.dumps(list(words))


def _quoted(value: str) -> str:
    """Return a value of ENV: in double quotes a backslash keeps these characters (Dockerfile reference, ENV)."""
    return '"' + re.sub(r'([\\"$])', r"\\\1", value) + '"'
