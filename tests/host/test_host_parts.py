"""Parts that touch the host but need no root: inputs, journal, lock, command, probe."""

import os
import resource
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.probe import Probe, ProbeServer, probe_binary, spin
from kit.core.errors import BusyError, MachineError, RunError, UnavailableError, UsageError
from kit.core.paths import find_paths
from kit.host import command
from kit.host.cgroup.idle import wait_idle
from kit.model.scenario import Input
from kit.session.inputs.repack import excluded
from kit.session.inputs.sources import prepare_input

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    tree = tmp_path / "src"
    (tree / "drivers" / "net").mkdir(parents=True)
    (tree / "drivers" / "net" / "big.c").write_text("x")
    (tree / "drivers" / "net" / "Kconfig").write_text("k")
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o755)
    (tree / "link").symlink_to("run.sh")
    return tree


def names(path: Path) -> set[str]:
    with tarfile.open(path) as tar:
        return {member.name for member in tar if not member.isdir()}


def test_input_is_filtered_and_cached(source: Path, tmp_path: Path) -> None:
    item = Input("src", str(source), exclude=("drivers/*", "!*/Kconfig"))
    made = prepare_input(item, tmp_path / "cache")
    assert names(made.path) == {"drivers/net/Kconfig", "run.sh", "link"}
    before = made.path.stat().st_mtime_ns
    assert prepare_input(item, tmp_path / "cache") == made
    assert made.path.stat().st_mtime_ns == before
    (source / "new").write_text("n")
    changed = prepare_input(item, tmp_path / "cache")
    assert "new" in names(changed.path)
    assert changed.digest != made.digest


def test_input_of_a_tarball_with_strip(source: Path, tmp_path: Path) -> None:
    tarball = tmp_path / "src.tar.gz"
    subprocess.run(["tar", "-czf", tarball, "-C", tmp_path, "src"], check=True)
    made = prepare_input(Input("src", str(tarball), strip=1), tmp_path / "cache")
    assert names(made.path) == {"drivers/net/Kconfig", "drivers/net/big.c", "run.sh", "link"}


def test_strip_is_for_tarballs_not_for_directories(source: Path, tmp_path: Path) -> None:
    plain = prepare_input(Input("src", str(source)), tmp_path / "cache")
    made = prepare_input(Input("src", str(source), strip=1), tmp_path / "cache")
    assert names(made.path) == names(plain.path) != set()


def test_input_of_one_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[job]")
    made = prepare_input(Input("job", str(tmp_path / "job.fio")), tmp_path / "cache")
    assert names(made.path) == {"job.fio"}


def repository(path: Path) -> Path:
    path.mkdir()
    (path / "recipe.bb").write_text("x")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=path, check=True)
    return path


def test_input_from_a_branch_of_a_repository(tmp_path: Path) -> None:
    path = repository(tmp_path / "repo")
    item = Input("poky", f"git:file://{path}#main", into="directory")
    made = prepare_input(item, tmp_path / "cache")
    assert (made.path / "recipe.bb").read_text() == "x"
    assert prepare_input(item, tmp_path / "cache") == made
    with pytest.raises(UnavailableError, match="can't be reached") as caught:
        prepare_input(Input("poky", f"git:file://{tmp_path}/none.git#main"), tmp_path / "cache")
    assert f"git clone -b main file://{tmp_path}/none.git, then give --param none=DIRECTORY" in str(caught.value)


@pytest.mark.parametrize("name", ["git:./repo", "git:repo", "git:./repo#main", "git:./repo#{}"])
def test_a_repository_of_a_relative_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = repository(tmp_path / "repo")
    monkeypatch.chdir(tmp_path)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=path, check=True, capture_output=True, text=True).stdout
    item = Input("poky", name.format(head.strip()), into="directory")
    found = prepare_input(item, tmp_path / "cache")
    assert (found.path / "recipe.bb").read_text() == "x"
    monkeypatch.chdir("/")
    absolute = replace(item, source=item.source.replace("./", "").replace("git:", f"git:{tmp_path}/"))
    assert prepare_input(absolute, tmp_path / "cache") == found
    with pytest.raises(UnavailableError, match=f"{tmp_path}/none can't be reached") as caught:
        prepare_input(replace(item, source=f"git:{tmp_path}/none"), tmp_path / "cache")
    assert caught.value.hint.startswith("give the directory of a Git repository")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
def test_root_takes_the_repository_of_the_user_behind_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = repository(tmp_path / "repo")
    for file in (path, *path.rglob("*")):
        os.chown(file, 12345, 12345)
    monkeypatch.setenv("SUDO_UID", "12345")
    found = prepare_input(Input("poky", f"git:{path}", into="directory"), tmp_path / "cache")
    assert (found.path / "recipe.bb").exists()


def test_bad_inputs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown source"):
        prepare_input(Input("src", str(tmp_path / "nope")), tmp_path / "cache")
    (tmp_path / "bad.tar").write_bytes(b"no tar at all" * 100)
    with pytest.raises(UsageError, match="damaged or unsupported"):
        prepare_input(Input("src", str(tmp_path / "bad.tar")), tmp_path / "cache")
    assert not list((tmp_path / "cache" / "inputs").glob("*.tar"))


def test_the_last_pattern_decides() -> None:
    assert excluded("a/b.c", ("a/*",))
    assert not excluded("a/Kconfig", ("a/*", "!*/Kconfig"))
    assert excluded("a/Kconfig", ("a/*", "!*/Kconfig", "a/K*"))


def test_command_errors() -> None:
    with pytest.raises(MachineError, match="nosuchtool is not installed"):
        command.run(["nosuchtool"])
    with pytest.raises(RunError, match="making tea failed: no water"):
        command.run(["sh", "-c", "echo no water >&2; exit 3"], what="making tea")
    with pytest.raises(RunError, match=r"no end after 0\.2 s"):
        command.run(["sleep", "5"], timeout=0.2)


def test_what_goes_through_pipes_is_whole_and_a_failure_is_explained(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    with (tmp_path / "copy").open("wb") as output, command.writing(["cat"], output) as pipe:
        pipe.write(data)
    with command.reading(["cat", tmp_path / "copy"]) as pipe:
        assert pipe.read() == data
    with (
        pytest.raises(RunError, match="making tea failed: no water"),
        command.reading(["sh", "-c", "echo no water >&2; exit 3"], "making tea") as pipe,
    ):
        assert pipe.read() == b""
    with (
        pytest.raises(RunError, match="making tea failed: too much"),
        command.writing(["sh", "-c", "exec <&-; echo too much >&2; exit 3"], what="making tea") as pipe,
    ):
        while True:
            pipe.write(data)


def test_a_command_whose_reader_gives_up_is_ended() -> None:
    with pytest.raises(KeyboardInterrupt), command.reading(["sh", "-c", "echo $$; exec sleep 60"]) as pipe:
        pid = int(pipe.readline())
        raise KeyboardInterrupt
    assert not Path(f"/proc/{pid}").exists()


def test_a_program_that_is_talked_to_ends_with_its_input() -> None:
    with command.talking(["cat"], "a cat") as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"hello\n" and not command.ended(process, 0)
    assert process.returncode == 0 and command.ended(process, 0)


def test_command_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere")
    monkeypatch.setenv("LC_ALL", "de_DE")
    found = command.run(["env"])
    assert "DOCKER_HOST" not in found and "LC_ALL=C.UTF-8" in found


@pytest.fixture
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Probe, Path]]:
    directory = Path(tmp_path_factory.mktemp("p"))
    server = ProbeServer(directory)
    process = subprocess.Popen([probe_binary(find_paths().cache), "serve", server.path])
    connected = server.accept(lambda: "")
    yield connected, directory
    connected.close()
    server.close()
    process.wait(60)


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [
        ("exit 0", 0, None),
        ("exit 7", 7, None),
        ("exit 255", 255, None),
        ("kill -9 $$", None, 9),
        ("kill -15 $$", None, 15),
    ],
)
def test_probe_gives_the_exact_end(
    probe: tuple[Probe, Path], tmp_path: Path, script: str, code: int | None, number: int | None
) -> None:
    with (tmp_path / "log").open("wb") as output:
        timing = probe[0].run(["sh", "-c", script], cwd="/", env=ENV, output=output)
    assert (timing.exit_code, timing.signal, timing.ok) == (code, number, code == 0)


def test_probe_measures_the_tree_and_passes_output_environment_and_directory(
    probe: tuple[Probe, Path], tmp_path: Path
) -> None:
    with (tmp_path / "log").open("wb") as output:
        script = 'pwd; echo "$X"; echo err >&2; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.2'
        timing = probe[0].run(["sh", "-c", script], cwd="/usr", env={**ENV, "X": "a b"}, output=output)
    assert (tmp_path / "log").read_text() == "/usr\na b\nerr\n"
    assert timing.user + timing.sys > 0.01
    if resource.getrusage(resource.RUSAGE_SELF).ru_utime:  # User-Mode Linux books all as system time
        assert timing.user > 0.01
    assert timing.real > timing.user + timing.sys + 0.15
    assert timing.max_rss > 100_000 and timing.minor_faults and timing.voluntary_switches


def test_probe_is_known_by_its_number(probe: tuple[Probe, Path], tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as output:
        probe[0].run(["sh", "-c", "echo $PPID"], cwd="/", env=ENV, output=output)
    assert (tmp_path / "log").read_text() == f"{probe[0].pid}\n"


def test_probe_says_what_it_cannot_start(probe: tuple[Probe, Path], tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as output:
        with pytest.raises(RunError, match="'nosuch': No such file"):
            probe[0].run(["nosuch"], cwd="/", env=ENV, output=output)
        with pytest.raises(RunError, match="directory '/nosuch'"):
            probe[0].run(["true"], cwd="/nosuch", env=ENV, output=output)
        assert probe[0].run(["true"], cwd="/", env=ENV, output=output).ok  # it lives on


def test_probe_ends_its_command_when_the_session_dies(probe: tuple[Probe, Path], tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    with (tmp_path / "log").open("wb") as output, pytest.raises(RunError, match="the arm died: enough"):
        probe[0].run(
            ["sh", "-c", f"echo $$ > {pidfile}; exec sleep 60"], cwd="/", env=ENV, output=output,
            alive=lambda: "enough" if pidfile.exists() else "",
        )  # fmt: skip
    probe[0].close()
    pid = int(pidfile.read_text())
    for _ in range(500):
        try:
            os.kill(pid, 0)
            signal.sigtimedwait([], 0.01)
        except ProcessLookupError:
            return
    pytest.fail("the command outlived its session")


def test_spin_takes_time(tmp_path: Path) -> None:
    found = spin(probe_binary(find_paths().cache))
    assert 0.001 < found.arithmetic < 60
    assert 0.001 < found.memory < 60


def test_waiting_for_a_quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.host.cgroup.idle.WINDOW", 0.3)
    told: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr("kit.host.cgroup.idle.SHARE", 1000.0)
        wait_idle(60, told.append)
    assert told == []
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with pytest.raises(BusyError, match=r"did not become quiet within 0\.6 s"):
            wait_idle(0.6, told.append)
    finally:
        busy.kill()
        busy.wait()
    assert told[0].startswith("waiting for a quiet machine, 0.6 s at most")
