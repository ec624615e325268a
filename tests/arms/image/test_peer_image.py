"""Images that another machine has are taken from its cache, and not where it lies."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.arms.image import Image, ImageCache
from kit.arms.image.peer_image import taken_or_built
from kit.arms.image.recipe import read_recipe
from kit.core.errors import UsageError
from kit.host import safe_fs
from kit.host.remote_cache import VARIABLE, parse_peer
from tests.peer import shared

KEY = "one-abc"


def build(text: str, layers: str = "") -> Callable[[Path, Path], dict[str, str]]:
    def make(rootfs: Path, archive: Path) -> dict[str, str]:
        assert not rootfs.exists() and not archive.exists()
        with tarfile.open(rootfs, "w") as tar:
            member = tarfile.TarInfo("file")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
        if layers:
            archive.write_text(layers)
        return {"PATH": f"/{text}"}

    return make


def ours(tmp_path: Path, told: list[str], text: str = "ours") -> Image:
    make = taken_or_built(KEY, "one", build(text), told.append)
    return ImageCache(tmp_path / "ours").make(KEY, "one", "test", make)


def never(text: str) -> None:
    pytest.fail(text)


@pytest.fixture
def theirs(tmp_path: Path) -> Image:
    return ImageCache(tmp_path / "theirs").make(KEY, "one", "test", build("theirs", "layers"))


@pytest.fixture(params=["directory", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with shared(tmp_path / "theirs", request.param) as place:
        monkeypatch.setenv(VARIABLE, f"{tmp_path}/nowhere {place}")
        yield place


def test_a_peers_image_is_copied_with_its_layers_and_environment(tmp_path: Path, theirs: Image, place: str) -> None:
    told: list[str] = []
    image = ours(tmp_path, told)
    assert image.digest == theirs.digest and image.env == (("PATH", "/theirs"),)
    assert image.archive and image.archive.read_text() == "layers"
    assert told == [
        f"image one is not copied from {tmp_path}/nowhere: no such directory",
        f"copying image one, 0 MiB, from {place}",
    ]
    assert sorted(path.name for path in (tmp_path / "ours/images").iterdir()) == [KEY]


def test_what_no_peer_has_is_built(tmp_path: Path, place: str) -> None:
    (tmp_path / "theirs").mkdir(exist_ok=True)
    assert ours(tmp_path, []).env == (("PATH", "/ours"),)


def test_what_an_older_kit_made_without_layers_is_taken(tmp_path: Path, place: str) -> None:
    made = ImageCache(tmp_path / "theirs").make(KEY, "one", "test", build("theirs"))
    recorded(made.rootfs.parent, layers=None, layers_size=None)
    image = ours(tmp_path, [])
    assert image.digest == made.digest and image.archive is None


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def recorded(path: Path, **said: Any) -> None:
    record = path / "image.json"
    facts = {**json.loads(record.read_text()), **said}
    record.write_text(json.dumps({key: value for key, value in facts.items() if value is not None}))


LIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "another root": (lambda entry: damaged(entry / "rootfs.tar"), "rootfs.tar is not what its record says"),
    "other layers": (lambda entry: damaged(entry / "archive.tar"), "archive.tar is not what its record says"),
    "no digest": (lambda entry: recorded(entry, digest=""), "is not what its record says"),
    "cut short": (lambda entry: os.truncate(entry / "rootfs.tar", 512), "is shorter than its record says"),
    "without end": (lambda entry: recorded(entry, size=512), "is longer than its record says"),
    "no layers": (lambda entry: (entry / "archive.tar").unlink(), "it has no images/one-abc/archive.tar"),
    "an older kit's": (lambda entry: recorded(entry, layers=None), "its layers have no digest"),
    "no record": (lambda entry: (entry / "image.json").unlink(), ""),
    "another's record": (lambda entry: (entry / "image.json").write_text("[" * 10_000), "not a _Record"),
    "a huge record": (lambda entry: (entry / "image.json").write_text(" " * (2 << 20)), "is not a record"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_peer_that_lies_is_found_out_and_the_image_built(tmp_path: Path, theirs: Image, place: str, lie: str) -> None:
    told: list[str] = []
    spoil, reason = LIES[lie]
    spoil(theirs.rootfs.parent)
    image = ours(tmp_path, told)
    assert image.env == (("PATH", "/ours"),) and image.archive is None and image.digest != theirs.digest
    assert reason in told[-1] and (f"image one is not copied from {place}" in told[-1] or not reason)


@pytest.fixture
def of_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    """A peer's image of a recipe."""
    recipe = read_recipe("smoke")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "theirs"))
    return ImageCache(tmp_path / "theirs").make(f"smoke-{recipe.digest[:12]}", "smoke", "test", build("theirs"))


def test_what_a_peer_gave_is_looked_through_once(
    tmp_path: Path, of_recipe: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    def counting(path: Path, mode: str, **keywords: Any) -> tarfile.TarFile:
        opened.append(path)
        return tarfile.TarFile.open(path, **keywords)

    monkeypatch.setattr(tarfile, "open", counting)
    assert ImageCache(tmp_path / "ours").from_recipe("smoke").digest == of_recipe.digest
    assert [path.name for path in opened] == ["rootfs.tar"]


def test_a_peers_image_whose_layout_leads_outside_is_not_taken(tmp_path: Path, theirs: Image, place: str) -> None:
    with tarfile.open(theirs.rootfs, "w") as tar:
        member = tarfile.TarInfo("./build")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(member)
    data = theirs.rootfs.read_bytes()
    recorded(theirs.rootfs.parent, size=len(data), digest=hashlib.sha256(data).hexdigest())
    told: list[str] = []
    assert ours(tmp_path, told).env == (("PATH", "/ours"),)
    assert told[-1] == f"image one is not copied from {place}: /build of image one is a symlink"


def test_of_what_is_built_the_layout_is_checked(tmp_path: Path) -> None:
    def wrong(rootfs: Path, archive: Path) -> dict[str, str]:
        with tarfile.open(rootfs, "w") as tar:
            tar.addfile(tarfile.TarInfo("./dev"))
        return {}

    for make in (wrong, taken_or_built(KEY, "one", wrong, never)):
        with pytest.raises(UsageError, match="/dev of image one is no directory"):
            ImageCache(tmp_path).make(KEY, "one", "test", make)
    with pytest.raises(UsageError, match="/dev of image one is no directory"):
        taken_or_built(KEY, "one", wrong, never)(tmp_path / "rootfs.tar", tmp_path / "archive.tar")
    assert ImageCache(tmp_path).list() == ()


@pytest.mark.parametrize("trap", ["symlink", "pipe"])
def test_only_plain_files_are_read_of_a_shared_directory(tmp_path: Path, theirs: Image, trap: str) -> None:
    rootfs, told = theirs.rootfs, list[str]()
    rootfs.rename(tmp_path / "elsewhere")
    os.mkfifo(rootfs) if trap == "pipe" else rootfs.symlink_to(tmp_path / "elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path / "theirs"))
        ours(tmp_path, told)
    assert "is a symlink" in told[-1] or "not a regular file" in told[-1]


def test_a_server_that_redirects_or_does_not_answer_is_reported(tmp_path: Path, theirs: Image) -> None:
    told: list[str] = []
    with shared(tmp_path / "theirs", "http") as place, pytest.MonkeyPatch.context() as patch:
        (theirs.rootfs.parent / "image.json").unlink()
        (theirs.rootfs.parent / "image.json").mkdir()  # it sends to the same with a slash
        patch.setenv(VARIABLE, f"{place} http://127.0.0.1:1")
        ours(tmp_path, told)
    assert "it answers 301" in told[0] and "127.0.0.1:1: no answer" in told[1]


def test_a_server_proves_itself(tmp_path: Path, theirs: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    with shared(tmp_path / "theirs", "https") as place:
        monkeypatch.setenv(VARIABLE, place)
        assert ours(tmp_path, told).digest != theirs.digest and "CERTIFICATE_VERIFY_FAILED" in told[0]
        safe_fs.remove(tmp_path / "ours")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
        assert ours(tmp_path, told).digest == theirs.digest


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("http://b1.example.org/kit", "without TLS"),
        ("ftp://b1.example.org/kit", "no URL of a cache"),
        ("https:///kit", "no URL of a cache"),
        ("https://b1.example.org/?x", "no URL of a cache"),
        ("https://[::1/x", "no URL"),
    ],
)
def test_a_place_that_proves_nothing_is_refused(place: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_peer(place)
    assert str(parse_peer("https://me:secret@b1.example.org/kit")) == "https://***@b1.example.org/kit"
