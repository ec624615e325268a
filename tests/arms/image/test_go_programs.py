"""Programs in Go: what is said where this machine cannot build them. tests/machine/test_docker_29.py builds some."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from kit.arms.image.go_programs import GoPrograms, explain
from kit.core.errors import MachineError
from kit.host.command import run, which
from tests.image_archives import directory

PROGRAMS = GoPrograms("1.26.8", ("example.org/a/cmd/a@v1.0.0",))


def go(directory: Path, script: str) -> str:
    """A go that answers as the real one does; returns a PATH with it."""
    directory.mkdir()
    (directory / "go").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "go").chmod(0o755)
    return f"{directory}:/usr/bin:/bin"


def test_a_missing_go_is_named_with_the_package_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="go is not installed") as caught:
        PROGRAMS.build(tmp_path / "programs", ())
    assert "Debian 13 has it, as golang-go" in caught.value.hint
    assert sorted(tmp_path.iterdir()) == [tmp_path / "programs"]


def test_a_go_that_is_too_old_to_fetch_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", go(tmp_path / "bin", "echo go version go1.19.8 linux/amd64"))
    with pytest.raises(MachineError, match=r"go1\.19 cannot fetch Go 1\.26\.8") as caught:
        PROGRAMS.build(tmp_path / "programs", ())
    assert "1.21 or later" in caught.value.hint


def test_a_version_of_go_that_cannot_be_fetched_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = "go: download go1.26.8: golang.org/toolchain@v0.0.1: reading it: 403 Forbidden"
    script = f'[ "$GOTOOLCHAIN" = local ] && exec echo go version go1.22.1 linux/amd64\necho "{refused}" >&2\nexit 1'
    monkeypatch.setenv("PATH", go(tmp_path / "bin", script))
    with pytest.raises(
        MachineError, match=r"go cannot fetch Go 1\.26\.8: go: download go1\.26\.8: .* Forbidden"
    ) as caught:
        PROGRAMS.build(tmp_path / "programs", ())
    assert caught.value.hint == "check that go reaches its module proxy: go env GOPROXY"


def test_the_reason_is_the_last_of_what_go_says() -> None:
    said = "go: downloading example.org/a v1.0.0\ngo: example.org/a@v1.0.0: module lookup disabled by GOPROXY=off\n"
    assert explain(said) == "go: example.org/a@v1.0.0: module lookup disabled by GOPROXY=off"
    assert explain("") == "go does not say why"


def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, files: dict[str, str]) -> str:
    """Make a proxy of files (go help goproxy) with one module, example.org/m, and return the version of Go here."""
    if which("go") is None:
        pytest.skip("needs go: apt-get install golang-go")
    proxy = directory(tmp_path / "proxy/example.org/m/@v", {
        "v1.0.0.info": b'{"Version": "v1.0.0"}', "v1.0.0.mod": module.encode(), "list": b"v1.0.0\n",
    })  # fmt: skip
    with zipfile.ZipFile(proxy / "v1.0.0.zip", "w") as packed:
        for name, text in {"go.mod": module, **files}.items():
            packed.writestr(f"example.org/m@v1.0.0/{name}", text)
    monkeypatch.setenv("GOPROXY", f"file://{tmp_path}/proxy")
    monkeypatch.setenv("GOSUMDB", "off")
    monkeypatch.chdir(directory(tmp_path / "somewhere", {"go.mod": b"the user's, and go can't read it"}))
    return run(["go", "env", "GOVERSION"]).strip().removeprefix("go")


def said(program: Path) -> bytes:
    return subprocess.run([program], capture_output=True, check=True).stderr


def test_programs_of_a_module_that_replaces_others_and_lacks_one_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``go install`` refuses the module by its name; the program that it lacks is built of a file. In one build: Go
    compiles its own library for each anew."""
    module = "module example.org/m\n\ngo 1.21\n\nreplace example.org/n => example.org/o v1.0.0\n"
    files = {
        "cmd/p/main.go": 'package main\n\nfunc main() { println("built") }\n',
        "m.go": 'package m\n\nfunc Say() { println("from the module") }\n',
    }
    version = serve(tmp_path, monkeypatch, module, files)
    main = 'package main\n\nimport "example.org/m"\n\nfunc main() { m.Say() }\n'
    file = directory(tmp_path / "recipe", {"q.go": main.encode()}) / "q.go"
    packages = ("example.org/m/cmd/p@v1.0.0", "example.org/m/cmd/q@v1.0.0")
    GoPrograms(version, packages, mains=(file,)).build(tmp_path / "programs", ())
    assert said(tmp_path / "programs/p") == b"built\n"
    assert said(tmp_path / "programs/q") == b"from the module\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["programs", "proxy", "recipe", "somewhere"]
