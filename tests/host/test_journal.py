"""What sessions acquire is undone, of dead ones too; what they did not make is not."""

import fcntl
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.errors import MachineError, RunError
from kit.host.command import run
from kit.host.recovery.journal import Cleaned, Journal, Owner, check_entry, clean
from kit.session.setup.cleanups import CLEANUPS

DIE = """
import os, sys
from pathlib import Path
from kit.host.recovery.journal import Journal
from kit.session.setup.cleanups import CLEANUPS
book = Journal(Path(sys.argv[1]) / "journal" / "dead.jsonl", CLEANUPS)
"""


@pytest.fixture
def die(tmp_path: Path) -> Callable[..., Path]:
    """A session that does so much and dies; returns its journal."""

    def run(script: str) -> Path:
        code = f"{DIE}state = Path(sys.argv[1])\n{script}\nos._exit(9)"
        assert subprocess.run([sys.executable, "-c", code, tmp_path], check=False).returncode == 9
        return tmp_path / "journal" / "dead.jsonl"

    return run


@pytest.mark.promise("faults", "What a killed kit has left is removed by the next session or by `kit clean`.")
def test_what_a_dead_session_left_is_undone(tmp_path: Path, die: Callable[..., Path]) -> None:
    path = die("""
held = book.directory(state / "left"); held.__enter__()
(state / "left" / "deep").mkdir()
file = book.file(state / "loops" / "dead-ext4.img"); file.__enter__()
with book.directory(state / "gone"):
    pass
book.acquire("directory", state / "never made")
""")
    with path.open("a") as file:
        file.write('["+", "dir')  # the crash came in the middle of a line
    assert not (tmp_path / "gone").exists() and (tmp_path / "left/deep").is_dir()
    assert clean(tmp_path / "journal", CLEANUPS) == Cleaned(
        (f"dead: removed directory {tmp_path}/left", f"dead: removed file {tmp_path}/loops/dead-ext4.img")
    )
    assert not (tmp_path / "left").exists() and not path.exists()
    assert clean(tmp_path / "journal", CLEANUPS) == Cleaned()


def test_what_existed_before_is_neither_used_nor_undone(tmp_path: Path) -> None:
    """As where an imported session is called after a directory of the user's."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "letter").write_text("dear")
    (tmp_path / "link").symlink_to(theirs)
    book = Journal(tmp_path / "journal" / "mine.jsonl", CLEANUPS)
    for name in ("theirs", "link"):
        with (
            pytest.raises(RunError, match="exists already and is not of this session"),
            book.directory(tmp_path / name),
        ):
            pytest.fail("it was taken")
    with pytest.raises(RunError, match="already"), book.file(theirs / "letter"):
        pytest.fail("it was taken")
    with pytest.raises(RunError, match="can't be made"), book.directory(theirs / "letter" / "in it"):
        pytest.fail("it was taken")
    book.close()
    assert (theirs / "letter").read_text() == "dear" and not book.path.exists()


def test_what_is_made_is_the_sessions_alone(tmp_path: Path) -> None:
    book = Journal(tmp_path / "journal" / "mine.jsonl", CLEANUPS)
    with book.directory(tmp_path / "new" / "one", 0o711) as made, book.file(made / "mine.img") as file:
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (book.path.parent, book.path, made, file)]
    assert modes == [0o700, 0o600, 0o711, 0o600]
    assert not made.exists()
    book.close()


def test_what_another_took_in_between_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made by somebody after the look and before the act."""
    book = Journal(tmp_path / "journal" / "mine.jsonl", CLEANUPS)
    (tmp_path / "theirs").mkdir()
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    with pytest.raises(RunError, match="can't be made: File exists"), book.directory(tmp_path / "theirs"):
        pytest.fail("it was taken")
    book.close()
    assert (tmp_path / "theirs").is_dir()


def test_a_session_that_lives_keeps_what_it_holds(tmp_path: Path) -> None:
    """Whoever thinks to hold the machine: its lock may be another's."""
    hold = "held = book.directory(Path(sys.argv[1]) / 'held'); held.__enter__()"
    code = f"{DIE}{hold}; print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "up\n"
        expected = f"dead still runs (process {process.pid}): nothing of it is removed"
        assert clean(tmp_path / "journal", CLEANUPS) == Cleaned((), (expected,))
        assert (tmp_path / "held").is_dir()
        process.kill()
    assert clean(tmp_path / "journal", CLEANUPS).undone == (f"dead: removed directory {tmp_path}/held",)


def owned(tmp_path: Path, owner: Owner, *lines: object) -> Path:
    (tmp_path / "journal").mkdir(mode=0o700, exist_ok=True)
    path = tmp_path / "journal" / "dead.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (["owner", *owner.words], *lines)))
    path.chmod(0o600)
    return path


def test_a_process_is_distinguished_from_others_with_its_number(tmp_path: Path) -> None:
    (tmp_path / "held").mkdir()
    entry = ["+", "directory", str(tmp_path / "held")]
    with subprocess.Popen(["sleep", "60"]) as process:
        start = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
        boot = Owner.me().boot
        owned(tmp_path, Owner(process.pid, start, boot), entry)
        assert "still runs" in clean(tmp_path / "journal", CLEANUPS).left[0] and (tmp_path / "held").is_dir()
        for other in (Owner(process.pid, start - 1, boot), Owner(process.pid, start, "before the last boot")):
            (tmp_path / "held").mkdir(exist_ok=True)
            owned(tmp_path, other, entry)
            assert clean(tmp_path / "journal", CLEANUPS).undone and not (tmp_path / "held").exists()
        process.kill()


def test_a_zombie_is_dead() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "from kit.host.recovery.journal import Owner; print(*Owner.me().words)"],
        stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout
    owner = Owner.parse(process.stdout.read().split())
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not owner.lives() and Path(f"/proc/{process.pid}").exists()
    process.communicate()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (["+", "directory", "/home"], "no directory of this session's: '/home'"),
        (["+", "directory", "/x/dead/../../home"], "no directory of this session's"),
        (["+", "directory", "dead"], "no directory of this session's"),
        (["+", "directory", "STATE"], "no directory of this session's"),
        (["+", "directory", "STATE/journal/dead"], "no directory of this session's"),
        (["+", "file", "/etc/passwd"], "no file of this session's"),
        (["+", "empty directory", "/srv"], "no empty directory of this session's"),
        (["+", "cgroup", "system.slice"], "no cgroup of this session's"),
        (["+", "cgroup", "kit-dead/../system.slice"], "no cgroup of this session's"),
        (["+", "zpool", "tank"], "no zpool of this session's"),
        (["+", "image", "debian:stable"], "no image of this session's"),
        (["+", "house", "kit-dead"], "no house of this session's"),
        (["*", "cgroup", "kit-dead"], "the sign '*'"),
        (["+", "cgroup"], "not enough values"),
        (["+", "cgroup", 3], "no list of words"),
        ({"+": 1}, "no list of words"),
    ],
)
def test_a_line_that_no_session_writes_is_refused_with_its_journal(tmp_path: Path, line: object, reason: str) -> None:
    (tmp_path / "held").mkdir()
    good = ["+", "directory", str(tmp_path / "held")]
    words = json.loads(json.dumps(line).replace("STATE", str(tmp_path)))
    path = owned(tmp_path, Owner(1, 1, "long ago"), good, words)
    cleaned = clean(tmp_path / "journal", CLEANUPS)
    assert not cleaned.undone and (tmp_path / "held").is_dir()
    assert cleaned.left[0].startswith(f"journal {path}: line 3: {reason}")
    assert cleaned.left[0].endswith("; nothing of it was undone, see dead.refused")
    assert clean(tmp_path / "journal", CLEANUPS) == Cleaned()


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'["+", "directory", "/x"]\n', b"\0\n"])
def test_a_damaged_journal_is_no_traceback(tmp_path: Path, content: bytes) -> None:
    owned(tmp_path, Owner(1, 1, "long ago")).write_bytes(content)
    assert "line 1: " in clean(tmp_path / "journal", CLEANUPS).left[0]


@pytest.mark.promise("another user", "The kit obeys no record or journal that others may have written.")
def test_a_link_or_a_file_that_others_may_write_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text('["owner", "1", "1", "x"]\n')
    (tmp_path / "journal").mkdir(mode=0o700)
    (tmp_path / "journal" / "a.jsonl").symlink_to(tmp_path / "victim")
    os.link(tmp_path / "victim", tmp_path / "journal" / "b.jsonl")
    os.mkfifo(tmp_path / "journal" / "c.jsonl")
    (tmp_path / "journal" / "d.jsonl").touch()
    (tmp_path / "journal" / "d.jsonl").chmod(0o666)
    left = clean(tmp_path / "journal", CLEANUPS).left
    reasons = ("it is a link", "it is not a regular file", "it is not a regular file", "others may write to it")
    assert all(reason in line for reason, line in zip(reasons, left, strict=True))
    assert (tmp_path / "victim").exists()


@pytest.mark.promise("another user", "The kit obeys no record or journal that others may have written.")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
def test_a_journal_of_somebody_else_is_not_obeyed(tmp_path: Path) -> None:
    (tmp_path / "held").mkdir()
    path = owned(tmp_path, Owner(1, 1, "long ago"), ["+", "directory", str(tmp_path / "held")])
    os.chown(path, 4321, 4321)
    assert "it belongs to user 4321" in clean(tmp_path / "journal", CLEANUPS).left[0]
    os.chown(path.parent, 4321, 4321)
    for use in (
        lambda: clean(tmp_path / "journal", CLEANUPS),
        lambda: Journal(tmp_path / "journal" / "x.jsonl", CLEANUPS),
    ):
        with pytest.raises(MachineError, match="journal: it belongs to user 4321, not to root"):
            use()
    assert (tmp_path / "held").is_dir()


def test_a_journal_that_is_there_is_not_written_to(tmp_path: Path) -> None:
    book = Journal(tmp_path / "journal" / "x.jsonl", CLEANUPS)
    with pytest.raises(RunError, match="the session x still runs"):
        Journal(tmp_path / "journal" / "x.jsonl", CLEANUPS)
    book.close()


def test_a_journal_that_a_cleaner_takes_before_it_is_locked_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that do not share the machine's lock may share the directory."""
    lock = fcntl.flock
    cleaned: list[bool] = []

    def late(file: int, how: int) -> None:
        if not cleaned:
            cleaned.append(True)
            clean(tmp_path / "journal", CLEANUPS)
        lock(file, how)

    with monkeypatch.context() as patch:
        patch.setattr("kit.host.recovery.journal.fcntl.flock", late)
        book = Journal(tmp_path / "journal" / "x.jsonl", CLEANUPS)
    assert cleaned and book.path.exists()
    assert "still runs" in clean(tmp_path / "journal", CLEANUPS).left[0]
    book.close()


def test_what_is_in_the_way_of_a_refused_journal_is_one_line(tmp_path: Path) -> None:
    path = owned(tmp_path, Owner(1, 1, "long ago"), ["+", "nosuch", "x"])
    path.with_suffix(".refused").mkdir()
    with pytest.raises(MachineError, match="can't be put aside"):
        clean(tmp_path / "journal", CLEANUPS)


def test_a_link_in_place_of_a_directory_is_removed_alone(tmp_path: Path) -> None:
    owned(tmp_path, Owner(1, 1, "long ago"), ["+", "directory", f"{tmp_path}/held"])
    (tmp_path / "held").symlink_to("/proc")
    assert clean(tmp_path / "journal", CLEANUPS).undone and Path("/proc/self").exists()


def test_no_session_acquires_what_could_not_be_undone(tmp_path: Path) -> None:
    path = tmp_path / "journal" / "20260101-000000-abcd.jsonl"
    check_entry("container", "kit-20260101-000000-abcd-1", path, CLEANUPS)
    check_entry("directory", "/mnt/of the user/kit-20260101-000000-abcd", path, CLEANUPS)
    check_entry("directory", str(tmp_path / "guest"), path, CLEANUPS)
    check_entry("image", "kit:0123456789ab", path, CLEANUPS)
    with pytest.raises(ValueError, match="not a session"):
        check_entry("cgroup", "kit-..", tmp_path / "journal" / "...jsonl", CLEANUPS)


@pytest.mark.promise("a workload", "What a workload forbids to remove is removed, or named, and sessions go on.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_what_cannot_be_removed_is_named_and_sessions_go_on(tmp_path: Path, die: Callable[..., Path]) -> None:
    path = die("""
held, left = book.directory(state / "held"), book.directory(state / "left")
held.__enter__(); left.__enter__()
""")
    run(["mount", "-t", "tmpfs", "kit", tmp_path / "held"])
    try:
        for undone in ((f"dead: removed directory {tmp_path}/left",), ()):
            found = clean(tmp_path / "journal", CLEANUPS)
            assert found.undone == undone and path.exists()
            assert found.left == (
                f"session dead left a directory {tmp_path}/held: something is mounted at {tmp_path}/held; "
                f"it is not removed; fix: run umount {tmp_path}/held",
            )
    finally:
        run(["umount", tmp_path / "held"])
    assert clean(tmp_path / "journal", CLEANUPS).undone == (f"dead: removed directory {tmp_path}/held",)
    assert not path.exists()
