"""Programs in Rust: what is said where this machine cannot build them, and one that it can. tests/machine/test_nydus.py
builds a large one."""

import subprocess
from pathlib import Path

import pytest

from kit.arms.image.rust_programs import RustPrograms, explain
from kit.core.errors import MachineError, RunError
from tests.image_archives import directory

PROGRAMS = RustPrograms(("nothing/prints@1.0.0",))
TOOLS = ("cc", "cmake", "make", "perl")
#: Builds a program that prints the settings of its build.
BUILDS = """\
[ "$1" = --version ] && exec echo cargo 1.85.0 2025-01-01
while [ "$1" != --root ]; do shift; done
mkdir -p "$2/bin" "$CARGO_TARGET_DIR"
echo "echo $*; pwd" > "$2/bin/prints"
"""

#: Fails where a directory, from the current one up, has the file.
LOOKS_UP = """\
directory=$PWD
while [ "$directory" ]; do
    [ -e "$directory/rust-toolchain.toml" ] && exit 9
    directory=${directory%/*}
done
"""


def cargo(path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a PATH with a cargo that answers as the real one does, and the other tools."""
    directory(path, dict.fromkeys(TOOLS, b"#!/bin/sh\n") | {"cargo": f"#!/bin/sh\n{script}\n".encode()})
    for tool in path.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")


def test_all_missing_tools_are_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cargo(tmp_path / "bin", "", monkeypatch)
    for tool in ("cargo", "cmake"):
        (tmp_path / "bin" / tool).unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(MachineError, match=r"^building a program in Rust needs cargo, cmake\n") as caught:
        PROGRAMS.build(tmp_path / "programs", ())
    assert "install cargo gcc cmake make perl" in caught.value.hint and "(Debian 13 or later)" in caught.value.hint


def test_a_cargo_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cargo(tmp_path / "bin", "echo cargo 1.63.0", monkeypatch)
    with pytest.raises(MachineError, match=r"cargo 1\.63\.0 is too old") as caught:
        PROGRAMS.build(tmp_path / "programs", ())
    assert "Rust 1.68 or later" in caught.value.hint


def test_a_program_is_built_beside_others_and_nothing_else_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cargo(tmp_path / "bin", BUILDS, monkeypatch)
    directory(tmp_path / "programs", {"in-go": b""})
    PROGRAMS.build(tmp_path / "programs", ())
    assert {path.name for path in (tmp_path / "programs").iterdir()} == {"in-go", "prints"}
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "programs"}
    done = subprocess.run(["sh", tmp_path / "programs/prints"], capture_output=True, text=True, check=True)
    assert "--bin prints nothing@1.0.0" in done.stdout


def test_no_file_above_the_cache_names_the_toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As rustup and cargo look for theirs, in the current directory and all above it."""
    cargo(tmp_path / "bin", LOOKS_UP + BUILDS, monkeypatch)
    (tmp_path / "rust-toolchain.toml").write_text("")
    (tmp_path / "cache/programs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    PROGRAMS.build(tmp_path / "cache/programs", ())
    assert (tmp_path / "cache/programs/prints").exists()


@pytest.mark.parametrize(
    ("said", "reason", "hint"),
    [
        (
            "    Updating index\nwarning: spurious error\nerror: failed to download from `x`\n\nCaused by:\n  no",
            "error: failed to download from `x`",
            "check that cargo reaches its registry",
        ),
        ("error[E0282]: type annotations needed\nerror: could not compile `time`\nerror: failed to compile",
         "error[E0282]: type annotations needed; error: could not compile `time`", "see the output in session.log"),
        ("Killed", "Killed", "see the output in session.log"),
        ("", "cargo does not say why", "see the output in session.log"),
    ],
)  # fmt: skip
def test_why_a_build_failed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, reason: str, hint: str
) -> None:
    assert explain(said) == reason
    (tmp_path / "said").write_text(said)
    answer = f'[ "$1" = --version ] && exec echo cargo 1.85.0\ncat {tmp_path}/said >&2\nexit 101'
    cargo(tmp_path / "bin", answer, monkeypatch)
    with pytest.raises(RunError) as caught:
        PROGRAMS.build(tmp_path / "programs", ())
    assert caught.value.message.startswith("building nothing/prints@1.0.0 failed: ")
    assert caught.value.hint == hint
