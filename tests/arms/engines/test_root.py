"""The command lines of programs in another root or container: which namespaces they enter."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kit.arms.engines.root import EngineRoot, version_line

APART = ["unshare", "--mount", "--propagation", "private", "--"]


def test_programs_of_the_machine_are_run_as_they_are() -> None:
    assert EngineRoot().enter(["dockerd"], [Path("/x")]) == EngineRoot().join(["dockerd"], 7) == ["dockerd"]
    first = EngineRoot(programs=Path("/own")).enter(["dockerd"], [])
    assert first[0] == "env" and first[1].startswith("PATH=/own:") and first[2:] == ["dockerd"]


def test_programs_of_an_engine_root_share_its_mounts() -> None:
    root = EngineRoot(Path("/root-of-it"))
    words = root.enter(["dockerd"], [Path("/run/kit")])
    assert words[:5] == APART and words[-5:] == ["sh", "/root-of-it", "1", "/run/kit", "dockerd"]
    assert root.join(["ctr"], 7) == ["nsenter", "--mount=/proc/7/ns/mnt", "--", "ctr"]


def test_programs_in_a_container_share_its_namespaces_but_for_mounts() -> None:
    """The process that the kit starts stays outside the PID namespace: its child is inside."""
    root = EngineRoot(within=5)
    words = root.enter(["dockerd"], [])
    shared = [f"--{name}=/proc/5/ns/{name}" for name in ("ipc", "uts", "net", "pid")]
    assert words[:11] == [*APART, "nsenter", *shared, "--"] and words[-1] == "dockerd"
    assert words[13].startswith("mount -t proc ")
    joined = root.join(["ctr"], 7)
    assert "--mount=/proc/7/ns/mnt" in joined and "--pid=/proc/7/ns/pid_for_children" in joined
    both = EngineRoot(Path("/root-of-it"), within=5).enter(["dockerd"], [])
    assert both[:5] == APART and both.index("/root-of-it") < both.index("nsenter")


@pytest.mark.parametrize(
    ("tool", "output", "version"),
    [
        ("fuse-overlayfs", "fusermount3 version: 3.17.2\nfuse-overlayfs: version 1.14-dev\nFUSE library\n", ""),
        ("fuse-overlayfs", "fuse-overlayfs: version 1.10\nFUSE library version 3.14.0\nusing FUSE kernel", ""),
        ("unionfs-fuse", "FUSE library version: 2.9.9\nfusermount3 version: 3.14.0\nunionfs-fuse version: 1.0\n", ""),
        ("mergerfs", "mergerfs v2.40.2\n\nhttps://github.com/trapexit/mergerfs\n", ""),
        ("runsc", "runsc version 0.0~20221219.0\nspec: 1.0.2-dev\n", ""),
        ("dockerd", "\nDocker version 26.1.5+dfsg1, build 411e817\n", "Docker version 26.1.5+dfsg1, build 411e817"),
        ("containerd", "containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+b2\n", ""),
        ("nydusd", "Version: \tv2.2.0\nGit Commit: \t6b1b\n", "Version: \tv2.2.0"),
        ("crun", "", ""),
    ],
)  # fmt: skip
def test_the_version_is_the_line_that_names_the_tool(tool: str, output: str, version: str) -> None:
    """What a FUSE program prints first depends on its library (fusermount3 3.17 in Debian 13)."""
    expected = version or next((line for line in output.splitlines() if line.startswith(tool)), "")
    assert version_line(tool, output) == expected


@pytest.mark.parametrize("tool", ["fuse-overlayfs", "unionfs-fuse", "mergerfs", "runsc", "crun", "runc", "podman"])
def test_the_version_of_an_installed_program_names_it(tool: str) -> None:
    if not shutil.which(tool):
        pytest.skip(f"needs {tool}")
    if tool == "runsc" and subprocess.run([tool, "--version"], capture_output=True).returncode:
        pytest.skip("needs a kernel on which runsc runs: User-Mode Linux is none")
    assert tool in EngineRoot().version(tool)
