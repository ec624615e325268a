"""A file that the user asks for takes its name whole, and nothing behind a link or another name is written."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.arms.image.image import Image
from kit.arms.image.save import save_image
from kit.cli.options import check_writable
from kit.core.errors import KitError, UsageError
from kit.host.output_file import append_output, make_output_directory, new_output, write_output
from tests.command_line import in_fork
from tests.nights import night
from tests.stores import new_store


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("dear")
    return path


LINKS: tuple[Callable[[Path, Path], None], ...] = (
    lambda path, victim: path.symlink_to(victim),
    lambda path, victim: os.link(victim, path),
    lambda path, victim: path.symlink_to(victim.with_name("not-yet")),
)


@pytest.fixture(params=LINKS, ids=["symlink", "hard link", "dangling"])
def link(request: pytest.FixtureRequest) -> Callable[[Path, Path], None]:
    make: Callable[[Path, Path], None] = request.param
    return make


def untouched(victim: Path) -> bool:
    return victim.read_text() == "dear" and not victim.with_name("not-yet").exists()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    (made / "data").mkdir(parents=True)
    (made / "data").chmod(0o700)
    store = new_store(made / "data/kit.db")
    store.add(night(1, 0.1))
    store.close()
    return made


COMMANDS = ("report last -o FILE", "show last --json FILE.json", "export last -o FILE", "sessions --json FILE.json",
            "show last --format csv -o FILE", "site DIR")  # fmt: skip


@pytest.mark.promise("another user", "The kit writes no report, plot, export or image through a link in its place.")
@pytest.mark.parametrize("words", COMMANDS)
def test_no_command_writes_through_a_link(
    words: str, link: Callable[[Path, Path], None], victim: Path, tmp_path: Path, home: Path
) -> None:
    place = tmp_path / "place"
    if "DIR" in words:
        assert in_fork("site", place, KIT_HOME=str(home)).returncode == 0
        name = "index.html"
        (place / name).unlink()
    else:
        place.mkdir()
        name = words.split()[-1].replace("FILE", "out")
    link(place / name, victim)
    named = words.replace("FILE", str(place / "out")).replace("DIR", f"{place} --all").split()
    done = in_fork(*named, KIT_HOME=str(home))
    assert done.returncode == 0, done.stderr
    assert untouched(victim)
    assert not (place / name).is_symlink() and (place / name).stat().st_size > 100
    assert not [path for path in place.iterdir() if path.name.startswith(".")]


@pytest.mark.promise("another user", "The kit writes no report, plot, export or image through a link in its place.")
def test_plots_follow_no_link(link: Callable[[Path, Path], None], victim: Path, tmp_path: Path, home: Path) -> None:
    plots = tmp_path / "plots"
    words = ("report", "last", "--plot-format", "svg", "--plots")
    names = [Path(line).name for line in in_fork(*words, plots, KIT_HOME=str(home)).stdout.splitlines()]
    (plots / names[0]).unlink()
    link(plots / names[0], victim)
    done = in_fork(*words, plots, KIT_HOME=str(home))
    assert done.returncode == 0 and untouched(victim) and not (plots / names[0]).is_symlink()
    (tmp_path / "linked").symlink_to(plots)
    done = in_fork(*words, tmp_path / "linked", KIT_HOME=str(home))
    assert done.returncode == 2 and "a link; name the directory" in done.stderr


@pytest.mark.promise("another user", "The kit writes no report, plot, export or image through a link in its place.")
def test_an_image_is_saved_through_no_link(link: Callable[[Path, Path], None], victim: Path, tmp_path: Path) -> None:
    rootfs = tmp_path / "rootfs.tar"
    rootfs.write_bytes(bytes(10240))
    file = tmp_path / "image.tar"
    link(file, victim)
    link(tmp_path / f"image.tar.{os.getpid()}", victim)  # the name of an older kit's file beside
    save_image(Image("mine", "0" * 64, "directory", 10240, 1.0, rootfs), file, "mine:1")
    assert untouched(victim) and file.stat().st_size > 10240 and not file.is_symlink()


@pytest.mark.promise("another user", "The kit writes no report, plot, export or image through a link in its place.")
def test_a_directory_exchanged_for_a_link_is_refused(victim: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError, match="a link"):
        make_output_directory(tmp_path / "link")
    with pytest.raises(OSError, match="symbolic"):
        (tmp_path / "step").symlink_to(victim)
        append_output(tmp_path / "step", "x")
    assert untouched(victim)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a link of another user's")
@pytest.mark.promise("another user", "Nothing is written where another user's link leads, wherever it is on the path.")
@pytest.mark.parametrize("words", [*COMMANDS, "report last --plots DIR"])
def test_no_command_writes_where_the_link_of_another_user_leads(words: str, tmp_path: Path, home: Path) -> None:
    target, place = tmp_path / "target", tmp_path / "place"
    (target / "below").mkdir(parents=True)
    place.mkdir()
    place.chmod(0o777)
    (place / "link").symlink_to(target)
    os.lchown(place / "link", 4321, 4321)
    for directory in ("link", "link/below", "link/new"):
        named = words.replace("FILE", f"{place / directory}/out").replace("DIR", f"{place / directory}/site").split()
        if directory == "link" and "DIR" not in words:  # as known before hours of measuring
            with pytest.raises(UsageError, match="belongs to"):
                check_writable(str(place / "link/out"))
        if "link/new" in named[-1] and "DIR" not in words:
            continue  # the commands make no directory of a file
        done = in_fork(*named, KIT_HOME=str(home))
        assert done.returncode == 2 and f"the link {place}/link belongs to" in done.stderr, done.stderr
    assert [path.name for path in target.rglob("*")] == ["below"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes links of others")
def test_links_of_root_of_this_user_and_of_sudos_caller_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    for name, owner in (("own", 0), ("caller", 4321)):
        (tmp_path / name).symlink_to("real")
        os.lchown(tmp_path / name, owner, owner)
    monkeypatch.setenv("SUDO_UID", "4321")
    for name in ("own", "caller"):
        write_output(tmp_path / name / "file", name)
        make_output_directory(tmp_path / name / "deep/er")
        assert (tmp_path / "real/file").read_text() == name
    monkeypatch.delenv("SUDO_UID")
    with pytest.raises(PermissionError, match="belongs to"):
        append_output(tmp_path / "caller/file", "x")


def test_the_old_file_stays_until_the_new_one_is_whole(victim: Path) -> None:
    with pytest.raises(KitError), new_output(victim) as file:
        file.write(b"half")
        file.flush()
        raise KitError("stopped")
    assert untouched(victim) and os.listdir(victim.parent) == ["victim"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077], ids=oct)
def test_the_users_umask_holds_and_a_files_own_mode_stays(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_output(tmp_path / "new", "x")
        make_output_directory(tmp_path / "directory")
        (tmp_path / "old").touch()
        (tmp_path / "old").chmod(0o640)
        write_output(tmp_path / "old", "x")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"new": 0o666 & ~umask, "directory": 0o777 & ~umask, "old": 0o640}


def test_pipes_and_descriptors_are_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        write_output(tmp_path / "pipe", "through")
        assert reader.communicate()[0] == b"through" and (tmp_path / "pipe").is_fifo()
    with (tmp_path / "out").open("wb") as out:
        write_output(Path(f"/dev/fd/{out.fileno()}"), "by number")
        write_output(Path("/dev/null"), "x")
    assert (tmp_path / "out").read_text() == "by number" and Path("/dev/null").is_char_device()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a pipe to another user")
def test_a_pipe_of_somebody_elses_is_refused(tmp_path: Path) -> None:
    """Its owner would read what is written."""
    os.mkfifo(tmp_path / "pipe")
    os.chown(tmp_path / "pipe", 4321, 4321)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(PermissionError):
        write_output(tmp_path / "pipe", "secret")
    assert os.read(reader, 10) == b""
    os.close(reader)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: becomes another user")
def test_a_directory_that_may_not_be_looked_into_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "closed/in").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    os.seteuid(4321)
    try:
        with pytest.raises(PermissionError):
            write_output(tmp_path / "closed/in/file", "x")
    finally:
        os.seteuid(0)
