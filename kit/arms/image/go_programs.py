"""Programs that a recipe builds from Go modules, on this machine: where Debian has no package of that version."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError, RunError
from kit.host.command import CommandError, require, run
from kit.host.safe_fs import scratch

#: Since this version ``go`` fetches the version that GOTOOLCHAIN names, as a module.
_FETCHING = (1, 21)
_NEWER = f"install Go {'.'.join(map(str, _FETCHING))} or later: Debian 13 has it, as golang-go"


@dataclass(frozen=True)
class GoPrograms:
    """Programs of Go modules."""

    version: str  # of Go, as 1.26.8: it decides the bytes, too
    packages: Sequence[str]  # as MODULE/cmd/PROGRAM@VERSION
    flags: Sequence[str] = ()  # of go install
    mains: Sequence[Path] = ()  # files PROGRAM.go, for packages that their modules lack

    def build(self, directory: Path, together: Sequence[str | Path]) -> None:
        """Write the programs into a new directory; everything else that Go writes is removed. ``together``: begins a
        command line that ends with the kit. Raises MachineError without a Go that can, RunError if a build fails."""
        directory.mkdir()
        with scratch(directory.parent) as workspace:
            environment = self._environment(workspace, directory)
            self._check(environment)
            for package in self.packages:
                try:
                    self._install(package, environment, workspace, together)
                except CommandError as error:
                    raise RunError(f"building {package} failed: {explain(error.said)}", _fix(error.said)) from None

    def _install(
        self, package: str, environment: dict[str, str], workspace: Path, together: Sequence[str | Path]
    ) -> None:
        """Build one package. Raises CommandError."""
        path, _, version = package.partition("@")
        module, _, program = path.rpartition("/cmd/")
        main = next((file for file in self.mains if file.stem == program), None)

        def go(*words: str, cwd: Path) -> str:
            return run([*together, "go", *words], env=environment, cwd=cwd)

        if main:  # in a module of its own, which requires the other one
            source, what = workspace / "source" / program, ["-mod=mod", "."]
            source.mkdir(parents=True)
            shutil.copy(main, source)
            go("mod", "init", f"kit.local/{program}", cwd=source)
            go("get", "-modcacherw", f"{module}@{version}", cwd=source)
        else:  # in its module's own directory: only there does go build one that excludes or replaces others
            # From a directory without go.mod, which go looks for in all above.
            module_info = json.loads(
                go("mod", "download", "-modcacherw", "-json", f"{module}@{version}", cwd=Path("/"))
            )
            source, what = workspace / "source" / f"{module}@{version}".replace("/", "_"), [f"./cmd/{program}"]
            if not source.is_dir():
                shutil.copytree(module_info["Dir"], source)
        go("install", "-trimpath", "-modcacherw", *self.flags, *what, cwd=source)

    def _environment(self, workspace: Path, directory: Path) -> dict[str, str]:
        """Return variables that override the user's: the same programs come out everywhere. What says where modules
        are, GOPROXY for example, stays the user's."""
        overrides = {
            "CGO_ENABLED": "0", "GOAMD64": "", "GOARM64": "", "GOBIN": str(directory), "GOEXPERIMENT": "",
            "GOFLAGS": "", "GOCACHE": str(workspace / "build"), "GOPATH": str(workspace / "go"),
            "GOTMPDIR": str(workspace), "GOTOOLCHAIN": f"go{self.version}", "GOWORK": "off",
        }  # fmt: skip
        passed = ("GOENV", "GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "SSL_CERT_FILE", "SSL_CERT_DIR")
        return {**{name: os.environ[name] for name in passed if name in os.environ}, **overrides}

    def _check(self, environment: dict[str, str]) -> None:
        try:
            require("go")
        except MachineError as error:
            raise MachineError(error.message, _NEWER) from None
        match = re.search(r"go(\d+)\.(\d+)", run(["go", "version"], env={**environment, "GOTOOLCHAIN": "local"}))
        if not match or tuple(map(int, match.groups())) < _FETCHING:
            raise MachineError(f"{match[0] if match else 'this go'} cannot fetch Go {self.version}", _NEWER)
        try:
            run(["go", "version"], env=environment)
        except CommandError as error:
            raise MachineError(f"go cannot fetch Go {self.version}: {explain(error.said)}", _fix(error.said)) from None


def explain(output: str) -> str:
    """Return why go failed, from its output: the last lines, without those of its progress."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("go: downloading ")]
    return "; ".join(lines[-2:]) or "go does not say why"


def _fix(output: str) -> str:
    lost = re.search(r"dial tcp|no such host|i/o timeout|Forbidden|not found|connection re", output)
    return "check that go reaches its module proxy: go env GOPROXY" if lost else "see the output in session.log"
