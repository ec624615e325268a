"""Control groups that are frozen as one; one that freezes late; one that goes."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kit.core.errors import RunError
from kit.host.cgroup.cgroup import UNIFIED, Cgroup
from kit.host.cgroup.freezer import Freezer


class Kernel:
    """A clock that advances by sleeping, and groups that report frozen on request. ``told``: the requests to each, in
    order. ``stuck``: a group that freezes only after this number of requests."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 0.0
        self.told: list[str] = []
        self.stuck = {"": 0}

    def group(self, name: str) -> Cgroup:
        path = self.directory / name
        path.mkdir()
        (path / "cgroup.freeze").write_text("0")
        (path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
        return Cgroup({UNIFIED: path})

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def write(self, file: Path, word: str) -> int:
        if not file.exists():
            raise FileNotFoundError(2, "No such file or directory")
        name = file.parent.name
        self.told.append(f"{'freeze' if word == '1' else 'thaw'} {name}")
        frozen = word == "1" and self.told.count(f"freeze {name}") > self.stuck.get(name, 0)
        with (file.parent / "cgroup.events").open("w") as events:
            return events.write(f"populated 1\nfrozen {int(frozen)}\n")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path)
    monkeypatch.setattr("kit.host.cgroup.freezer.time", SimpleNamespace(monotonic=made.monotonic, sleep=made.sleep))
    monkeypatch.setattr(Path, "write_text", lambda file, word: made.write(file, word))
    return made


@pytest.fixture
def two(tmp_path: Path) -> list[Cgroup]:
    """A workload's group and its daemon's."""
    return [Kernel(tmp_path).group(name) for name in ("work", "daemon")]


def test_a_daemon_is_frozen_after_its_clients_and_thawed_before_them(two: list[Cgroup], kernel: Kernel) -> None:
    freezer = Freezer.of(*two)
    freezer.freeze()
    freezer.thaw()
    assert kernel.told == ["freeze work", "freeze daemon", "thaw daemon", "thaw work"]


def test_what_freezes_late_runs_for_a_moment_before_the_next_request(two: list[Cgroup], kernel: Kernel) -> None:
    kernel.stuck = {"work": 2}
    Freezer.of(*two).freeze()
    assert kernel.told == [*["freeze work", "thaw work"] * 2, "freeze work", "freeze daemon"]
    assert 2.2 < kernel.now < 2.3


def test_what_never_freezes_is_given_up(two: list[Cgroup], kernel: Kernel) -> None:
    kernel.stuck = {"daemon": 1000}
    with pytest.raises(RunError, match="daemon does not freeze"):
        Freezer.of(*two).freeze()
    assert 120 < kernel.now < 123


def test_a_daemon_that_is_gone_keeps_nobody_frozen(two: list[Cgroup], kernel: Kernel) -> None:
    freezer = Freezer.of(*two)
    (two[1].paths[UNIFIED] / "cgroup.freeze").unlink()
    with pytest.raises(RunError, match="No such file"):
        freezer.thaw()
    assert kernel.told == ["thaw work"]


def test_a_group_that_is_gone_fails_the_run_alone(tmp_path: Path) -> None:
    (tmp_path / "cgroup.freeze").write_text("0")
    freezer = Freezer.of(Cgroup({UNIFIED: tmp_path}))
    with pytest.raises(RunError, match="No such file"):  # of cgroup.events: the group went after it was told to stop
        freezer.freeze()
    assert (tmp_path / "cgroup.freeze").read_text() == "1"
