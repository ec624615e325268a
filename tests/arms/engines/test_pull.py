"""Images of a registry: by which program, from which registry, and how it is reached."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.arms.engines.pull import from_registry, registries, skopeo_variables, sources
from kit.arms.image import ImageCache
from kit.core.errors import MachineError
from tests.ordinary_user import ordinary_user


def test_the_machines_docker_names_mirrors_and_registries_without_tls(tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    none = {"registry-mirrors": (), "insecure-registries": ()}
    assert registries(file) == none
    file.write_text('{"registry-mirrors": ["https://m"], "insecure-registries": ["r:5000"], "data-root": "/x"}')
    assert registries(file) == {"registry-mirrors": ("https://m",), "insecure-registries": ("r:5000",)}
    for text in ("{", "[]", '{"registry-mirrors": 3}'):
        file.write_text(text)
        assert registries(file) == none


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user may enter, as /run; ``tmp_path`` is its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_skopeo_is_kept_from_logins_that_its_user_may_not_read(
    open_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = open_directory / "containers"
    monkeypatch.setattr("kit.arms.engines.pull._LOGINS", logins)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert skopeo_variables(tmp_path) == {}
    logins.mkdir(0o700)
    assert skopeo_variables(tmp_path) == {}
    logins.chmod(0)
    with ordinary_user():  # root may look everywhere
        assert skopeo_variables(tmp_path) == {"XDG_RUNTIME_DIR": str(tmp_path)}
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
        assert skopeo_variables(tmp_path) == {}


def test_without_skopeo_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("kit.host.command.environment", lambda: {"PATH": str(tmp_path)})
    with pytest.raises(MachineError, match="skopeo is not installed") as raised:
        from_registry("debian:12", ImageCache(tmp_path / "cache"), lambda text: None)
    assert "install skopeo" in raised.value.hint


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("debian:12", [("m/library/debian:12", False), ("docker.io/library/debian:12", False)]),
        ("me/app:1", [("m/me/app:1", False), ("docker.io/me/app:1", False)]),
        ("debian:12@sha256:ab", [("m/library/debian@sha256:ab", False), ("docker.io/library/debian@sha256:ab", False)]),
        ("ghcr.io/me/app:1", [("ghcr.io/me/app:1", False)]),
        ("r:5000/app:1", [("r:5000/app:1", True)]),
        ("s:5000/app:1", [("s:5000/app:1", False)]),
        ("localhost/app:1", [("localhost/app:1", True)]),
        ("127.0.0.1:5000/app:1", [("127.0.0.1:5000/app:1", True)]),
        ("[::1]:5000/app:1", [("[::1]:5000/app:1", True)]),
        ("10.1.2.3:5000/app:1", [("10.1.2.3:5000/app:1", True)]),
        ("11.1.2.3/app:1", [("11.1.2.3/app:1", False)]),
    ],
)
def test_skopeo_asks_where_docker_would(reference: str, found: list[tuple[str, bool]]) -> None:
    configuration = {"registry-mirrors": ("https://m/",), "insecure-registries": ("r:5000", "10.0.0.0/8")}
    assert sources(reference, configuration) == found
