"""OCI runtimes: which program an arm's container gets, and why it can't have one."""

from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.engines.docker_server import Dockerd
from kit.arms.engines.engine import EngineConfig
from kit.arms.engines.oci_runtime import registered_blocker, runtime_blocker, runtime_errors
from kit.arms.engines.podman import PODMAN, PodmanService
from kit.arms.engines.root import EngineRoot
from kit.arms.engines.supervisor import DaemonDirs
from kit.core.errors import MORE_ROOM, RunError
from kit.host.machine import read_host
from kit.host.recovery.journal import Journal
from kit.model.arm import parse_arm

RUNC = parse_arm("layer:overlay2+runtime=runc")


def programs(directory: Path, *names: str) -> Path:
    """Return a directory with programs."""
    directory.mkdir()
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the one directory with the programs of the host: crun and runsc alone."""
    found = programs(tmp_path / "bin", "crun", "runsc")
    monkeypatch.setattr("kit.host.command.environment", lambda: {"PATH": str(found)})
    return found


def home(directory: Path, root: Path | None = None) -> DaemonDirs:
    made = DaemonDirs(directory / "data", directory / "run", "none", EngineRoot(root))
    made.directory.mkdir()
    made.data.mkdir()
    return made


def test_an_engine_has_the_runtimes_of_the_host_and_finds_its_own(path: Path, tmp_path: Path) -> None:
    found = Dockerd("overlay2", home(tmp_path)).runtimes("runc")
    assert {*found} == {f"{kind}-{name}" for kind in ("kit", "kit-plain") for name in ("runc", "crun", "runsc")} | {
        "kit-plain"
    }
    assert found["kit-runc"] == "runc" and found["kit-crun"] == str(path / "crun")


def test_an_engine_root_has_its_own_runtime_alone(path: Path, tmp_path: Path) -> None:
    dockerd = Dockerd("overlay2", home(tmp_path, tmp_path / "root"))
    assert {*dockerd.runtimes("runc")} == {"kit-runc", "kit-plain", "kit-plain-runc"}
    assert dockerd.runtime_name("runc", plain=False) == "kit-runc"
    assert runtime_blocker(RUNC, versioned=True) is None
    blocked = runtime_blocker(parse_arm("layer:docker@26.1/overlay2+runtime=crun"), versioned=True)
    assert blocked is not None and blocked.reason == "the root of docker@26.1 has no crun"


def test_a_given_docker_brings_runc_or_uses_the_host_s(path: Path, tmp_path: Path) -> None:
    assert runtime_blocker(RUNC, False, programs(tmp_path / "given", "dockerd", "runc")) is None
    for given in (programs(tmp_path / "without", "dockerd"), None):
        blocked = runtime_blocker(RUNC, False, given)
        assert blocked is not None and blocked.reason == "runc is not installed"


@pytest.mark.parametrize(
    ("text", "words", "reason"),
    [
        ("layer:system/overlay2", None, ""),
        ("layer:system/overlay2+runtime=runc", None, ""),
        ("layer:system/overlay2+runtime=crun", None, "the running Docker has no runtime crun"),
        ("tmpfs:system/overlay2+runtime=runsc", ["--host-uds=open", "--overlay2=none"], "runsc keeps a tmpfs"),
        ("layer:system/overlay2+runtime=runsc", None, "the running Docker starts runsc without --host-uds=open --over"),
        ("layer:system/overlay2+runtime=runsc", ["--host-uds=open"], "the running Docker starts runsc without"),
        ("layer:system/overlay2+runtime=runsc", ["--host-uds=all", "-overlay2=none", "--debug"], ""),
    ],
)
def test_the_running_docker_has_a_runtime_as_its_daemon_json_says(
    text: str, words: list[str] | None, reason: str
) -> None:
    runsc = {"path": "/usr/bin/runsc", **({"runtimeArgs": words} if words else {})}
    blocked = registered_blocker(parse_arm(text), {"runc": {"path": "runc"}, "runsc": runsc})
    assert (blocked.reason if blocked else "").startswith(reason) and bool(blocked) == bool(reason)
    if blocked and "without" in reason:
        assert '"runtimeArgs": ["--host-uds=open", "--overlay2=none"]' in blocked.fix


def test_a_full_disk_is_no_refusal_of_the_runtime() -> None:
    arm = parse_arm("layer:overlay2+runtime=crun")
    for hint, fix in ((MORE_ROOM, MORE_ROOM), ("see the log", "use +runtime=runc")):
        with pytest.raises(RunError) as raised, runtime_errors(arm):
            raise RunError(f"{arm}: no container: no space left on device", hint)
        assert raised.value.hint == fix


@pytest.mark.parametrize("runtime", ["", "crun"])
@pytest.mark.parametrize("limited", [True, False])
def test_podman_that_can_t_raise_limits_leaves_them_out_of_every_runtime(
    limited: bool, runtime: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kit.arms.engines.podman._may_raise_limits", lambda: not limited)
    monkeypatch.setattr("os.geteuid", lambda: 0)  # rootless Podman has lower ones
    (service,) = PodmanService("overlay", home(tmp_path), (), runtime=runtime).programs()
    program = next(word for word in service.argv if word.startswith("--runtime=")).partition("=")[2]
    wrapper = Path(program).read_text() if program.startswith(str(tmp_path / "run")) else ""
    assert ("inherit-limits" in wrapper) == limited
    assert "crun" in (wrapper or program)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("layer:podman/overlay@dir+userns=auto", "only root can give out numbers of users"),
        ("layer:podman/overlay@dir+runtime=runc", "runc is not installed"),
        ("tmpfs:podman/overlay@dir+runtime=runsc", "runsc keeps a tmpfs inside the container"),
    ],
)
def test_podman_without_root_says_what_it_can_t_have(text: str, reason: str, path: Path, tmp_path: Path) -> None:
    setting = EngineConfig("x", tmp_path, tmp_path, Journal(tmp_path / "journal" / "x.jsonl", {}), "none")
    blocked = PODMAN(setting).check(parse_arm(text), replace(read_host(), root=False))
    assert blocked is not None and blocked.reason.startswith(reason)
