"""Archives of ``docker save`` are read without a daemon: layers over layers, names dropped, damage refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import shutil
import tarfile
import zlib
from pathlib import Path

import pytest

from kit.core.errors import MachineError, UsageError
from kit.engines.pull import from_archive, is_archive, registry_words
from kit.image import ImageCache, unpack
from kit.session.setup.cleanups import CLEANUPS

Entry = tuple[str, str, str]  # name, type (file, dir, link, symlink), content or target


def layer(*entries: Entry) -> bytes:
    data = io.BytesIO()
    kinds = {"file": tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "link": tarfile.LNKTYPE, "symlink": tarfile.SYMTYPE}
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, text in entries:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kinds[kind], 0o755
            member.pax_headers = {"SCHILY.xattr.user.kit": "x"} if kind == "file" else {}
            if kind == "file":
                member.size = len(text.encode())
            else:
                member.linkname = text
            tar.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


def save(path: Path, *layers: bytes, packed: bool = False, damaged: bool = False) -> Path:
    """As docker save writes it, with the name of somebody's image."""
    digests = [f"sha256:{hashlib.sha256(item).hexdigest()}" for item in layers]
    config = {"config": {"Env": ["PATH=/bin", "A=b=c"]}, "rootfs": {"type": "layers", "diff_ids": digests}}
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "c.json", "RepoTags": ["debian:12"], "Layers": names}]
    files = {"manifest.json": json.dumps(manifest).encode(), "c.json": json.dumps(config).encode()}
    for name, data in zip(names, layers, strict=True):
        files[name] = gzip.compress(data) if packed else data + (b"x" if damaged else b"")
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def seen(tmp_path: Path, *layers: bytes) -> dict[str, str]:
    """What is there after all layers: text of files, targets of symlinks, '' for directories."""
    cache = ImageCache(tmp_path / "cache")
    root = tmp_path / "root"
    unpack(from_archive(save(tmp_path / "x.tar", *layers), cache), root)
    found = {}
    for path in root.rglob("*"):
        text = str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else ""
        found[str(path.relative_to(root))] = text
    return found


def test_upper_layers_replace_remove_and_hide(tmp_path: Path) -> None:
    low = layer(
        ("etc", "dir", ""), ("etc/a", "file", "1"), ("etc/b", "file", "1"), ("opt/", "dir", ""), ("opt/x", "file", "1"),
        ("opt/deep", "dir", ""), ("opt/deep/y", "file", "1"), ("was", "dir", ""), ("was/dir", "file", "1"),
        ("gone", "dir", ""), ("gone/z", "file", "1"), ("turned", "file", "1"),
    )  # fmt: skip
    high = layer(
        ("etc", "dir", ""), ("etc/b", "file", "2"), ("etc/.wh.a", "file", ""), ("opt", "dir", ""),
        ("opt/.wh..wh..opq", "file", ""), ("opt/new", "file", "2"), ("was", "symlink", "etc"), (".wh.gone", "file", ""),
        ("./turned", "dir", ""), ("turned/in", "file", "2"),
    )  # fmt: skip
    assert seen(tmp_path, low, high) == {
        "etc": "", "etc/b": "2", "opt": "", "opt/new": "2", "was": "etc", "turned": "", "turned/in": "2",
    }  # fmt: skip


def test_what_was_removed_can_come_again(tmp_path: Path) -> None:
    found = seen(tmp_path, layer(("a", "file", "1")), layer((".wh.a", "file", "")), layer(("a", "file", "3")))
    assert found == {"a": "3"}


def test_hard_links_live_on_where_their_first_name_is_gone(tmp_path: Path) -> None:
    low = layer(("a", "file", "same"), ("b", "link", "a"), ("c", "link", "a"), ("d", "link", "b"))
    assert seen(tmp_path, low, layer(("a", "file", "other"))) == {"a": "other", "b": "same", "c": "same", "d": "same"}
    shutil.rmtree(tmp_path / "root")
    hidden = layer(("a", "file", "other"), ("b", "file", "other"))
    assert seen(tmp_path, low, hidden) == {"a": "other", "b": "other", "c": "same", "d": "same"}
    shutil.rmtree(tmp_path / "root")
    seen(tmp_path, low, layer(("a", "file", "other")))
    assert (tmp_path / "root/b").stat().st_ino == (tmp_path / "root/c").stat().st_ino


def test_the_image_keeps_its_layers_and_loses_its_names(tmp_path: Path) -> None:
    layers = layer(("a", "file", "1")), layer(("b", "file", "2"))
    path = save(tmp_path / "x.tar", *layers, packed=True)
    assert is_archive(path)
    image = from_archive(path, ImageCache(tmp_path / "cache"))
    assert dict(image.env) == {"PATH": "/bin", "A": "b=c"} and image.archive
    with tarfile.open(image.archive) as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        assert manifest["RepoTags"] is None
        assert [tar.extractfile(name).read() for name in manifest["Layers"]] == list(layers)  # type: ignore[union-attr]
    with tarfile.open(image.rootfs) as tar:
        assert tar.getnames() == ["./a", "./b"]
        assert tar.getmember("./a").pax_headers["SCHILY.xattr.user.kit"] == "x"
    assert sorted(item.name for item in image.rootfs.parent.iterdir()) == ["archive.tar", "image.json", "rootfs.tar"]


def test_archives_that_are_damaged_or_hostile_are_one_line_and_leave_nothing(tmp_path: Path) -> None:
    good = layer(("a", "file", "1"))
    bad = [
        (save(tmp_path / "1.tar", good, damaged=True), "a layer is not what the image says it is"),
        (save(tmp_path / "2.tar", layer(("../../a", "file", "1"))), "no usable image"),
        (save(tmp_path / "3.tar", layer(("b", "link", "/etc/passwd"))), "no usable image"),
        (save(tmp_path / "5.tar", layer(("b", "link", "b"))), "no usable image"),
        (save(tmp_path / "4.tar", b"no tar"), "no usable image"),
    ]
    for path, says in bad:
        with pytest.raises(UsageError, match=says):
            from_archive(path, ImageCache(tmp_path / "cache"))
    assert list((tmp_path / "cache/images").iterdir()) == []


def test_an_archive_that_asks_for_gigabytes_to_be_unpacked_is_refused(tmp_path: Path) -> None:
    plain = save(tmp_path / "x.tar", layer(("a", "file", "1"))).read_bytes()
    for name, form, dictionary in (("1", lzma.FORMAT_XZ, 1 << 30), ("2", lzma.FORMAT_ALONE, 1 << 31)):
        path = tmp_path / f"{name}.tar.xz"
        kind = lzma.FILTER_LZMA2 if form == lzma.FORMAT_XZ else lzma.FILTER_LZMA1
        packed = lzma.compress(plain, form, filters=[{"id": kind, "preset": 0, "dict_size": 1 << 16}])
        path.write_bytes(_with_dictionary(packed, form, dictionary))
        with pytest.raises(UsageError, match="takes more than 128 MiB of memory"):
            is_archive(path)
        path.write_bytes(packed)
        assert is_archive(path)


def _with_dictionary(packed: bytes, form: int, size: int) -> bytes:
    """The same with a header that asks for so many bytes (xz file format 1.2.1, 3.1 and 5.3.1; lzma-file-format)."""
    if form == lzma.FORMAT_ALONE:
        return packed[:1] + size.to_bytes(4, "little") + packed[5:]
    header = bytearray(packed[12 : 12 + 4 * (packed[12] + 1)])
    header[header.index(b"\x21\x01") + 2] = 2 * (size.bit_length() - 13)
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    return packed[:12] + bytes(header) + packed[12 + len(header) :]


def test_registries_are_reached_as_the_machines_own_docker_reaches_them(tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    assert registry_words(file) == ()
    file.write_text('{"registry-mirrors": ["https://m"], "insecure-registries": ["r:5000"], "data-root": "/x"}')
    assert registry_words(file) == ("--registry-mirror=https://m", "--insecure-registry=r:5000")
    for text in ("{", "[]", '{"registry-mirrors": 3}'):
        file.write_text(text)
        assert registry_words(file) == ()


def test_without_root_nobody_elses_docker_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kit.engines import EngineConfig
    from kit.engines.pull import from_registry
    from kit.host.recovery.journal import Journal

    setting = EngineConfig("x", tmp_path, tmp_path / "probe", Journal(tmp_path / "x.jsonl", CLEANUPS), "none", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="needs root"):
        from_registry("debian:12", ImageCache(tmp_path / "cache"), setting, lambda text: None)
