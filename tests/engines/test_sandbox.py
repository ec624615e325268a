"""The end of an arm whose filesystem a daemon serves."""

from pathlib import Path
from typing import cast

from kit.engines.sandbox import Sandbox
from kit.filesystem import Backing
from kit.host.cgroup.cgroup import Cgroup
from kit.probe import Probe


class Noted:
    """A control group or a probe that notes what is done to it."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told

    def thaw(self) -> None:
        self.told.append(f"thaw {self.name}")

    def kill(self) -> None:
        self.told.append(f"kill {self.name}")

    def end(self) -> None:
        self.told.append(f"end {self.name}")


def test_a_daemon_runs_before_its_clients_end(tmp_path: Path) -> None:
    """A process that dies closes its files, and waits in the kernel for the daemon's answer."""
    told: list[str] = []
    work, daemons = (cast(Cgroup, Noted(name, told)) for name in ("work", "daemons"))
    backing = Backing("fake", tmp_path, "fake", "fake", "", None)
    probe = cast(Probe, Noted("probe", told))
    sandbox = Sandbox("/t", "/i", work, backing, probe, lambda path: None, lambda: "", {}, daemons=daemons)
    sandbox.end()
    assert told[:2] == ["thaw daemons", "end probe"]
    assert told[-1] == "kill work"
