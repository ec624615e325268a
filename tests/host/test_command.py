"""What the kit starts takes nothing from the current directory, which may be another user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.core.errors import MachineError, RunError, UsageError
from kit.core.paths import find_paths
from kit.core.private import users_umask
from kit.extra.fleet.service.capabilities import examine_machine
from kit.extra.guest.python import _fetch
from kit.host.command import environment, process_pool, python_module, python_path, reading, run, spawn, talking, which
from kit.host.durable import read_record, write_record

#: A module that shows that it was imported. Names that children of the kit import, or that such modules import.
_MARK = "open({mark!r}, 'a').write(__name__)\nraise SystemExit('foreign')\n"
_NAMES = ("pip", "platform", "json", "multiprocessing", "concurrent", "kit", "site", "runpy", "shutil")


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that exists as soon as a module of the current directory was imported."""
    mark = tmp_path / "imported"
    place = tmp_path / "foreign"
    for name in _NAMES:
        (place / name).mkdir(parents=True)
        (place / f"{name}/__init__.py").write_text(_MARK.format(mark=str(mark)))
    program = place / "kit-test-program"
    program.write_text(f"#!/bin/sh\necho program >>{mark}\n")
    program.chmod(0o755)
    monkeypatch.chdir(place)
    return mark


@pytest.mark.promise("another user", "The kit takes no module and no program from the current directory.")
def test_a_python_imports_nothing_from_the_current_directory(foreign: Path) -> None:
    assert "Linux" in run(python_module("platform"))
    with talking(python_module("kit", "--version"), "kit", python_path()) as process:
        assert process.stdout and b"Python" in process.stdout.read()
    assert not foreign.exists()


@pytest.mark.promise("another user", "The kit takes no module and no program from the current directory.")
def test_no_child_of_the_kit_does(foreign: Path, tmp_path: Path) -> None:
    """pip of a guest's packages, and a worker's kit doctor: neither gets far here."""
    with pytest.raises(MachineError, match="no such option"):
        _fetch(tmp_path / "new", ("--no-such-option",))
    (tmp_path / "home").mkdir()
    (tmp_path / "home/data").symlink_to(tmp_path)
    with pytest.raises(RunError, match="home/data: it is a link"):
        examine_machine(find_paths(), str(tmp_path / "home"), print)
    assert not foreign.exists()


def _where(number: int) -> str:
    return f"{number} {sys.modules['multiprocessing'].__file__}"


@pytest.mark.promise("another user", "The kit takes no module and no program from the current directory.")
def test_a_pool_is_of_copies_of_this_process(foreign: Path) -> None:
    """A new interpreter would look for its modules in the current directory: the default since Python 3.14."""
    with process_pool(2) as pool:
        assert pool._mp_context and pool._mp_context.get_start_method() == "fork"
        assert [text.split()[0] for text in pool.map(_where, range(3))] == ["0", "1", "2"]
    assert not foreign.exists()


@pytest.mark.promise("another user", "The kit takes no module and no program from the current directory.")
@pytest.mark.parametrize("path", ["", ".", ":/usr/bin:/bin", "/usr/bin:/bin:", "foreign:/usr/bin", "/usr/bin:.:/bin"])
def test_no_program_is_taken_from_the_current_directory(
    foreign: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    assert which("kit-test-program") is None
    assert all(part.startswith("/") for part in environment()["PATH"].split(":"))
    assert not foreign.exists()


def test_commands_run_nowhere_and_paths_are_those_of_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("content")
    assert run(["pwd"]).strip() == "/"
    assert run(["cat", Path("file")]) == "content"
    assert run(["cat", Path("file")], cwd=tmp_path) == "content"
    with reading(["sh", "-c", 'pwd; cat "$0"', Path("file")]) as output:
        assert output.read() == b"/\ncontent"
    with (tmp_path / "said").open("wb") as said:
        assert spawn(["sh", "-c", 'pwd; cat "$0"', Path("file")], output=said).wait() == 0
    assert (tmp_path / "said").read_text() == "/\ncontent"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run(["pwd"]).strip() == "/"


_MAKES = """
import os, sys, kit.cli
kit.cli.cli.main = lambda **named: (os.mkdir("directory"), open("file", "w"), os.system("touch child"))
kit.cli.main()
"""


@pytest.mark.promise("another user", "Whatever the umask is, others cannot write to what the kit makes.")
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o027, 0o077], ids=oct)
def test_a_command_and_its_children_have_one_umask(tmp_path: Path, umask: int) -> None:
    """Under umask 000 everybody could write to programs of the cache."""
    words = [sys.executable, "-c", _MAKES]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(words, cwd=tmp_path, env=env, umask=umask, check=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"directory": 0o755, "file": 0o644, "child": 0o644}


def test_a_library_knows_its_users_umask() -> None:
    before = os.umask(0o137)
    try:
        assert users_umask() == 0o137
    finally:
        os.umask(before)


@pytest.mark.promise("another user", "The kit obeys no record or journal that others may have written.")
def test_what_others_may_have_changed_in_the_cache_is_not_obeyed(tmp_path: Path) -> None:
    (tmp_path / "entry").mkdir(mode=0o755)
    record = tmp_path / "entry/record.json"
    write_record(record, {"a": "b"})
    assert read_record(dict[str, str], record) == {"a": "b"}
    for path, mode in ((record, 0o666), (record.parent, 0o777), (record.parent, 0o1777), (tmp_path, 0o777)):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(UsageError, match=f"{path} is a (file|directory) to which others may write"):
            read_record(dict[str, str], record)
        path.chmod(before)
    record.rename(tmp_path / "aside")
    record.symlink_to("../aside")
    assert read_record(dict[str, str], record) is None
