"""Tests of --dir: another user can neither redirect root with the directory, nor run the files that root puts there."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kit.arms.filesystem import BackingOptions, make_backing
from kit.arms.filesystem.plain import own_directory
from kit.core.errors import RunError, UsageError
from kit.host.recovery.journal import Journal
from kit.host.safe_fs import open_trusted
from kit.session.setup.cleanups import CLEANUPS

pytestmark = [
    pytest.mark.machine,
    pytest.mark.unmeasured,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user"),
]
NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of root's that every user can look into, below a sticky one."""
    path = Path(tempfile.mkdtemp(prefix="kit-test-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def theirs(place: Path) -> Path:
    """Another user's directory."""
    path = place / "theirs"
    path.mkdir()
    os.chown(path, NOBODY, NOBODY)
    return path


@pytest.fixture
def target(place: Path) -> Path:
    """A directory of root's that nobody else may change."""
    path = place / "target"
    (path / "fs").mkdir(parents=True)
    (path / "precious").write_text("kept")
    (path / "fs/precious").write_text("kept")
    path.chmod(0o700)
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal" / "mine.jsonl", CLEANUPS)


def as_nobody(script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", script, "sh", *words], user=NOBODY, group=NOBODY, extra_groups=[],
                          capture_output=True, text=True, check=False)  # fmt: skip


@pytest.mark.promise("another user", "Another user cannot exchange `--dir` or a directory above it.")
@pytest.mark.parametrize("way", ["owner", "above", "far above", "writable", "group", "link", "missing"])
def test_a_directory_that_another_user_could_exchange_is_refused(
    place: Path, theirs: Path, journal: Journal, way: str
) -> None:
    given, named = theirs, theirs
    if way in ("above", "far above", "missing"):
        given = theirs / ("below/it" if way == "far above" else "below")
        if way != "missing":
            given.mkdir(parents=True)
    elif way in ("writable", "group"):
        given = named = place / "open"
        given.mkdir()
        os.chown(given, 0, NOBODY)
        given.chmod(0o777 if way == "writable" else 0o775)
    elif way == "link":
        place.chmod(0o1777)
        given = named = place / "link"
        assert as_nobody('ln -s /var/tmp "$1"', given).returncode == 0
    with pytest.raises(UsageError, match=f"--dir {given}: {named} ") as found:
        make_backing("dir", BackingOptions(directory=given), place / "seen", "mine", journal).__enter__()
    assert "nobody" in found.value.message or "others may write" in found.value.message
    assert not list(Path("/var/tmp").glob("kit-mine*")) and not list(given.glob("*"))
    assert way != "missing" or not given.exists()


@pytest.mark.parametrize("way", ["sticky", "link", "missing"])
def test_a_directory_that_root_alone_can_exchange_is_used_and_left_empty(
    place: Path, journal: Journal, way: str
) -> None:
    given = place / "given"
    if way != "missing":
        given.mkdir()
    if way == "sticky":
        given.chmod(0o1777)
    if way == "link":
        (place / "way").symlink_to(given)
    options = BackingOptions(directory=place / "way/.." / "way" if way == "link" else given)
    with make_backing("dir", options, place / "seen", "mine", journal) as backing:
        (made,) = given.iterdir()
        assert made.name == "kit-mine" and stat.S_IMODE(made.stat().st_mode) == 0o700
        (backing.path / "file").write_text("x")
        assert backing.outside(backing.path / "file").read_text() == "x"
        assert backing.outside(backing.path).is_relative_to(made)
    assert not list(given.iterdir()) and not (place / "seen").is_mount()


@pytest.mark.promise("another user", "Another user who exchanges `--dir` during a session leads root nowhere.")
def test_who_exchanges_the_directory_meanwhile_leads_root_nowhere(
    place: Path, theirs: Path, target: Path, journal: Journal
) -> None:
    """Its owner put a symlink there: files of the target were deleted, the image was unpacked into it."""
    with pytest.raises(RunError, match="kit-mine was replaced"), own_directory(
        theirs, "mine", place / "seen", journal
    ) as path:  # fmt: skip
        assert as_nobody('mv "$1/kit-mine" "$1/away" && ln -s "$2" "$1/kit-mine"', theirs, target).returncode == 0
        (path / "new").write_text("of the session")
        (path / "precious").write_text("of the session")
    assert sorted(item.name for item in target.iterdir()) == ["fs", "precious"]
    assert (target / "precious").read_text() == (target / "fs/precious").read_text() == "kept"
    assert (theirs / "away/fs/new").read_text() == "of the session"
    journal.close()
    assert not journal.path.exists()


@pytest.mark.promise("another user", "Another user who exchanges `--dir` during a session leads root nowhere.")
def test_cleaning_up_after_a_dead_session_follows_no_symlink(theirs: Path, target: Path) -> None:
    assert as_nobody('mkdir "$1/a" && ln -s "$2" "$1/a/link"', theirs, target).returncode == 0
    with pytest.raises(RunError, match="symlink"):
        CLEANUPS["directory"].undo_one("directory", str(theirs / "a/link/fs"))
    assert (target / "fs/precious").read_text() == "kept"


def exchange_for_ever(theirs: Path, target: Path) -> None:
    made, away = theirs / "kit-mine", theirs / "away"
    while True:
        with suppress(OSError):
            made.rename(away)
            made.symlink_to(target)
            made.unlink()
            away.rmdir()


@pytest.mark.promise("another user", "Another user who exchanges `--dir` during a session leads root nowhere.")
def test_a_symlink_in_the_place_of_a_new_directory_changes_no_mode(
    theirs: Path, target: Path, journal: Journal
) -> None:
    child = os.fork()
    if not child:
        try:
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            exchange_for_ever(theirs, target)
        finally:
            os._exit(1)
    try:
        for _ in range(1000):
            with suppress(RunError), journal.directory(theirs / "kit-mine", 0o755):
                pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert (target / "precious").read_text() == "kept"


_SESSION = """
import shutil, sys
from pathlib import Path
from kit.arms.filesystem import BackingOptions, make_backing
from kit.host.recovery.journal import Journal
from kit.host.namespace import enter_private_mounts
from kit.session.setup.cleanups import CLEANUPS
given, seen, state = map(Path, sys.argv[1:])
enter_private_mounts()
journal = Journal(state / "journal" / "mine.jsonl", CLEANUPS)
with make_backing("dir", BackingOptions(directory=given), seen, "mine", journal) as backing:
    program = backing.path / "id"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    print(program, backing.outside(program), flush=True)
    sys.stdin.read()
"""


@pytest.mark.promise("another user", "Other users run no setuid program of an image.")
def test_other_users_run_no_setuid_program_of_an_image(place: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", _SESSION, str(place), str(place / "seen"), str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout and session.stdin
        inside, outside = session.stdout.readline().split()
        assert Path(outside).stat().st_mode & stat.S_ISUID
        for program in (inside, outside):
            assert as_nobody('"$1" -u', program).returncode in (126, 127)
            assert as_nobody('"$1" -u', f"/proc/{session.pid}/root{program}").returncode in (126, 127)
        session.stdin.close()
        assert session.wait(30) == 0
    assert not (place / "kit-mine").exists()


def test_no_descriptor_is_left_open(place: Path, theirs: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(UsageError):
        open_trusted(theirs)
    os.close(open_trusted(place))
    assert os.listdir("/proc/self/fd") == before
