"""The control group of a container: what the kit counts, freezes and kills is the container's alone."""

from pathlib import Path

import pytest

from kit.arms.engines.system import _cgroup
from kit.host.cgroup.cgroup import UNIFIED, CpuTimes

DAEMON, CONTAINER = "/system.slice/containerd.service", "/docker/5c1f"


def groups(machine: Path, monkeypatch: pytest.MonkeyPatch, **names: str) -> dict[str, str]:
    """Return the group of a process that is in the group of this name in each hierarchy, by hierarchy."""
    mounts = {kind: machine / kind for kind in names}
    for kind, name in names.items():
        path = mounts[kind] / name.lstrip("/")
        path.mkdir(parents=True)
        (path / "cpu.stat").write_text("user_usec 9000000\nsystem_usec 9000000\n")
        (path / "cpuacct.usage").write_text("1000000000\n")
        (path / "cpuacct.stat").write_text("user 100\nsystem 0\n")
    lines = [f"{number}:{'' if kind == UNIFIED else kind}:{name}" for number, (kind, name) in enumerate(names.items())]
    read = Path.read_text

    def of_process(path: Path, *words: str, **named: str) -> str:
        return "\n".join(lines) if str(path) == "/proc/7/cgroup" else read(path, *words, **named)

    monkeypatch.setattr(Path, "read_text", of_process)
    for module in ("kit.host.cgroup.cgroup", "kit.arms.engines.container"):
        monkeypatch.setattr(f"{module}.hierarchies", lambda: mounts)
    found = _cgroup(7)
    assert found is not None
    counted = CpuTimes(1.0, 0.0) if UNIFIED not in found.paths else CpuTimes(9.0, 9.0)
    assert found.cpu() == counted
    return {kind: f"/{path.relative_to(mounts[kind])}" for kind, path in found.paths.items()}


def test_a_group_of_the_daemon_is_not_the_container_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gVisor makes groups of v1 alone: a kill of the other would end the user's containerd."""
    found = groups(tmp_path, monkeypatch, cpuacct=CONTAINER, freezer=CONTAINER, systemd=DAEMON, unified=DAEMON)
    assert found == {"cpuacct": CONTAINER, "freezer": CONTAINER}


@pytest.mark.parametrize("names", [{"cpuacct": CONTAINER, UNIFIED: CONTAINER}, {UNIFIED: CONTAINER}])
def test_a_group_in_each_hierarchy_is_whole(
    names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert groups(tmp_path, monkeypatch, **names) == names
