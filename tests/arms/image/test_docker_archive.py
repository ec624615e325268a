"""Archives of ``docker save`` are read without a daemon: layers over layers, names dropped, damage refused."""

from __future__ import annotations

import json
import lzma
import shutil
import subprocess
import tarfile
import zlib
from pathlib import Path

import pytest

from kit.arms.image import ImageCache, unpack
from kit.arms.image.image_file import from_image_file, has_layers
from kit.core.errors import UsageError
from tests.image_archives import OTHER, archive, config, layer, oci_image, oci_layout, save


def seen(tmp_path: Path, *layers: bytes) -> dict[str, str]:
    """What is there after all layers: text of files, targets of symlinks, '' for directories."""
    cache = ImageCache(tmp_path / "cache")
    root = tmp_path / "root"
    unpack(from_image_file(save(tmp_path / "x.tar", *layers), "", cache), root)
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
    assert has_layers(path)
    image = from_image_file(path, "", ImageCache(tmp_path / "cache"))
    assert dict(image.env) == {"PATH": "/bin", "A": "b=c"} and image.archive
    with tarfile.open(image.archive) as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        assert manifest["RepoTags"] is None
        assert [tar.extractfile(name).read() for name in manifest["Layers"]] == list(layers)  # type: ignore[union-attr]
    with tarfile.open(image.rootfs) as tar:
        assert tar.getnames() == ["./a", "./b"]
        assert tar.getmember("./a").pax_headers["SCHILY.xattr.user.kit"] == "x"
    assert sorted(item.name for item in image.rootfs.parent.iterdir()) == ["archive.tar", "image.json", "rootfs.tar"]


@pytest.mark.promise(
    "what others wrote", "Sources, root filesystems and images beyond the bounds are refused, and take no space."
)
def test_archives_that_are_damaged_or_hostile_are_one_line_and_leave_nothing(tmp_path: Path) -> None:
    good = layer(("a", "file", "1"))
    bad = [
        (save(tmp_path / "1.tar", good, damaged=True), "layer 1 is not what the image's configuration says"),
        (save(tmp_path / "2.tar", layer(("../../a", "file", "1"))), "damaged or unsupported"),
        (save(tmp_path / "3.tar", layer(("b", "link", "/etc/passwd"))), "damaged or unsupported"),
        (save(tmp_path / "5.tar", layer(("b", "link", "b"))), "damaged or unsupported"),
        (save(tmp_path / "4.tar", b"no tar"), "damaged or unsupported"),
    ]
    for path, says in bad:
        with pytest.raises(UsageError, match=says):
            from_image_file(path, "", ImageCache(tmp_path / "cache"))
    assert list((tmp_path / "cache/images").iterdir()) == []


@pytest.mark.promise(
    "what others wrote", "Sources, root filesystems and images beyond the bounds are refused, and take no space."
)
def test_an_archive_that_asks_for_gigabytes_to_be_unpacked_is_refused(tmp_path: Path) -> None:
    plain = save(tmp_path / "x.tar", layer(("a", "file", "1"))).read_bytes()
    for name, form, dictionary in (("1", lzma.FORMAT_XZ, 1 << 30), ("2", lzma.FORMAT_ALONE, 1 << 31)):
        path = tmp_path / f"{name}.tar.xz"
        kind = lzma.FILTER_LZMA2 if form == lzma.FORMAT_XZ else lzma.FILTER_LZMA1
        packed = lzma.compress(plain, form, filters=[{"id": kind, "preset": 0, "dict_size": 1 << 16}])
        path.write_bytes(_with_dictionary(packed, form, dictionary))
        with pytest.raises(UsageError, match="takes more than 128 MiB of memory"):
            has_layers(path)
        path.write_bytes(packed)
        assert has_layers(path)


def _with_dictionary(packed: bytes, form: int, size: int) -> bytes:
    """The same with a header that asks for so many bytes (xz file format 1.2.1, 3.1 and 5.3.1; lzma-file-format)."""
    if form == lzma.FORMAT_ALONE:
        return packed[:1] + size.to_bytes(4, "little") + packed[5:]
    header = bytearray(packed[12 : 12 + 4 * (packed[12] + 1)])
    header[header.index(b"\x21\x01") + 2] = 2 * (size.bit_length() - 13)
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    return packed[:12] + bytes(header) + packed[12 + len(header) :]


@pytest.mark.promise(
    "what others wrote", "Sources, root filesystems and images beyond the bounds are refused, and take no space."
)
def test_holes_of_a_hidden_file_have_an_end_too(tmp_path: Path) -> None:
    subprocess.run(["truncate", "-s", "2G", tmp_path / "a"], check=True)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    subprocess.run(["tar", "-C", tmp_path, "--sparse", "-cf", tmp_path / "l.tar", "a", "b"], check=True)
    low = (tmp_path / "l.tar").read_bytes()
    path = save(tmp_path / "x.tar", low, layer(("a", "file", "1")))
    with pytest.raises(UsageError, match="has more than 1 GiB of holes"):
        from_image_file(path, "", ImageCache(tmp_path / "cache"))


def several(tmp_path: Path) -> Path:
    one, two = layer(("a", "file", "1")), layer(("a", "file", "2"))
    entries = [
        {"Config": f"{name}.json", "RepoTags": tags, "Layers": [f"{name}.tar"]}
        for name, tags in (("1", ["one:1", "uno:1"]), ("2", ["two:1"]), ("1", None))
    ]
    files = {"1.tar": one, "2.tar": two, "1.json": config(one), "2.json": config(two)}
    return archive(tmp_path / "x.tar", {**files, "manifest.json": json.dumps(entries).encode()})


def test_one_of_several_images_is_named_by_its_tag(tmp_path: Path) -> None:
    path = several(tmp_path)
    cache = ImageCache(tmp_path / "cache")
    found = {name: from_image_file(path, name, cache).digest for name in ("one:1", "uno:1", "two:1")}
    assert found["one:1"] == found["uno:1"] != found["two:1"]
    for name, says in (("", "it has several images: 'one:1', 'two:1'"), ("x", "it has no image 'x', only 'one:1'")):
        with pytest.raises(UsageError, match=says):
            from_image_file(path, name, cache)


def test_an_image_for_another_machine_is_refused_unless_the_index_beside_it_has_ours(tmp_path: Path) -> None:
    item = layer(("a", "file", "1"))
    files = {"c.json": config(item, platform=OTHER), "l.tar": item}
    files["manifest.json"] = json.dumps([{"Config": "c.json", "RepoTags": None, "Layers": ["l.tar"]}]).encode()
    with pytest.raises(UsageError, match=r"it has no image for this machine \(linux/.*\), only for linux/mips64le"):
        from_image_file(archive(tmp_path / "1.tar", files), "", ImageCache(tmp_path / "cache"))
    both = oci_layout(files, oci_image(files, item))
    assert from_image_file(archive(tmp_path / "2.tar", both), "", ImageCache(tmp_path / "cache")).layers


def test_a_layer_that_occurs_twice_is_a_symlink_in_archives_of_older_dockers(tmp_path: Path) -> None:
    item = layer(("a", "file", "1"))
    manifest = [{"Config": "c.json", "RepoTags": None, "Layers": ["1/layer.tar", "2/layer.tar"]}]
    path = archive(
        tmp_path / "x.tar",
        {"manifest.json": json.dumps(manifest).encode(), "c.json": config(item, item), "1/layer.tar": item},
    )
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("2/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../1/layer.tar"
        tar.addfile(link)
    image = from_image_file(path, "", ImageCache(tmp_path / "cache"))
    assert image.archive
    with tarfile.open(image.archive) as tar:
        (entry,) = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        assert len(entry["Layers"]) == 2 and len(set(entry["Layers"])) == 1
