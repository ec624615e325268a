"""Where the kit's files are: in a container, what is the machine's is looked for with its first process."""

from __future__ import annotations

from pathlib import Path

from kit.core.paths import _lock, machine_root


def test_in_a_container_the_machine_is_where_its_first_process_is(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert machine_root(tmp_path) == tmp_path and _lock(tmp_path) == tmp_path / "run"


def test_a_machine_itself_is_no_container(tmp_path: Path) -> None:
    first = tmp_path / "root"
    first.symlink_to("/")
    assert machine_root(first) == Path("/") and _lock(first) == Path("/run")


def test_a_first_process_that_cannot_be_looked_at_is_not_asked(tmp_path: Path) -> None:
    assert machine_root(tmp_path / "missing") == Path("/") and _lock(tmp_path / "missing") == Path("/run")
    assert _lock(tmp_path) == Path("/run")  # its root has none
