"""The command lines of programs in another root or container: which namespaces they enter."""

from pathlib import Path

from kit.engines.root import EngineRoot

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
