"""What a container withholds from the kit, by its namespaces and mounts."""

from __future__ import annotations

from pathlib import Path

from kit.host.container import withheld


def found(state: Path, namespaces: Path) -> dict[str, str]:
    """Return the fix of each thing that is withheld; where the state lies is the machine's affair."""
    return {item.name: item.fix for item in withheld(state, namespaces) if item.name != "disk"}


def test_namespaces_that_are_not_the_machines_are_named_with_a_fix(tmp_path: Path) -> None:
    for name in ("pid", "cgroup"):
        (tmp_path / name).touch()
    fixes = found(tmp_path, tmp_path)
    assert set(fixes) == {"processes", "control groups"}
    assert fixes["processes"].endswith("; in a container: docker run --pid=host …")
    assert "docker run --cgroupns=host --volume /sys/fs/cgroup:" in fixes["control groups"]


def test_a_kernel_without_namespaces_withholds_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, tmp_path) == {}
