"""Images in OCI layout: as directory and archive, with every compression, one of several, for this machine."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kit.arms.image import Image, ImageCache
from kit.arms.image import decompress as decompression
from kit.arms.image.image_file import find_image_file, from_image_file, has_layers
from kit.arms.image.manifest import LONGEST_JSON, Platform
from kit.core.errors import UsageError
from tests.image_archives import (
    FORMS,
    INDEX,
    LAYER,
    MANIFEST,
    NAME,
    OTHER,
    OURS,
    Files,
    archive,
    blob,
    config,
    directory,
    layer,
    named,
    oci_image,
    oci_index,
    oci_layout,
    tarball,
    zstd,
)

LOW, HIGH = layer(("a", "file", "1"), ("b", "file", "1")), layer((".wh.a", "file", ""), ("c", "file", "2"))


def read(path: Path, name: str = "") -> Image:
    return from_image_file(path, name, ImageCache(path.parent / "cache"))


def names(image: Image) -> list[str]:
    with tarfile.open(image.rootfs) as tar:
        return tar.getnames()


def refused(tmp_path: Path, files: Files, name: str = "") -> str:
    """The message, which is one line within bounds; nothing is left."""
    path = directory(tmp_path / "layout", files)
    with pytest.raises(UsageError) as caught:
        read(path, name)
    assert list((tmp_path / "cache").glob("images/*")) == []
    assert len(caught.value.message) < 400 and "\n" not in caught.value.message and caught.value.hint
    return caught.value.message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("form", FORMS)
def test_directory_and_archive_with_every_compression_are_the_same_image(tmp_path: Path, form: str) -> None:
    files: Files = {}
    files = oci_layout(files, oci_image(files, LOW, HIGH, form=form))
    plain = archive(tmp_path / "x.tar", files)
    paths = [directory(tmp_path / "layout", files), plain]
    for pack in (gzip.compress, lzma.compress, bz2.compress, zstd):
        paths.append(tmp_path / f"{pack.__module__}.{pack.__name__}")
        paths[-1].write_bytes(pack(plain.read_bytes()))
    assert all(map(has_layers, paths))
    images = [read(path) for path in paths]
    assert {(image.digest, image.layers) for image in images} == {(images[0].digest, images[0].layers)}
    assert names(images[0]) == ["./b", "./c"] and dict(images[0].env) == {"PATH": "/bin", "A": "b=c"}
    assert images[0].archive
    with tarfile.open(images[0].archive) as tar:
        (entry,) = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        assert [tar.extractfile(item).read() for item in entry["Layers"]] == [LOW, HIGH]  # type: ignore[union-attr]


def test_names_in_an_archive_may_begin_with_a_dot(tmp_path: Path) -> None:
    files: Files = {}
    files = {f"./{name}": data for name, data in oci_layout(files, oci_image(files, LOW)).items()}
    path = archive(tmp_path / "x.tar", files)
    assert has_layers(path) and names(read(path)) == ["./a", "./b"]


def test_the_tarball_of_a_root_filesystem_is_no_image(tmp_path: Path) -> None:
    for name, pack in (("1", bytes), ("2", gzip.compress), ("3", zstd)):
        path = tmp_path / name
        path.write_bytes(pack(tarball({"./usr/bin/a": b"", "manifest.json": b"", "oci-layout": b""})))
        assert not has_layers(path)
    path.write_bytes(b"no tar")
    assert not has_layers(path)


def test_one_of_several_images_is_named(tmp_path: Path) -> None:
    files: Files = {}
    one, two = oci_image(files, LOW, **named("docker.io/library/app:1")), oci_image(files, HIGH, **named("2"))
    path = directory(tmp_path / "layout", oci_layout(files, one, {**one, **named("1")}, two))
    assert names(read(path, "docker.io/library/app:1")) == names(read(path, "1")) == ["./a", "./b"]
    assert names(read(path, "2")) == names(read(path, two["digest"])) == ["./c"]
    for name, says in (
        ("", "it has several images: 'docker.io/library/app:1', '1', '2'"),
        ("3", "it has no image '3', only 'docker.io/library/app:1', '1', '2'"),
    ):
        with pytest.raises(UsageError, match=says):
            read(path, name)


def test_two_names_of_one_image_need_no_choice(tmp_path: Path) -> None:
    files: Files = {}
    one = oci_image(files, LOW, **named("1"))
    assert read(directory(tmp_path / "layout", oci_layout(files, one, {**one, **named("2")}))).layers


def test_a_file_and_the_name_in_it_are_told_apart_by_what_exists(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    files: Files = {}
    directory(tmp_path / "layout", oci_layout(files, oci_image(files, LOW)))
    for name in ("x.tar", "y:z.tar"):
        Path(name).touch()
    (tmp_path / "debian").mkdir()
    assert find_image_file("layout") == (Path("layout"), "")
    assert find_image_file("./layout:docker.io/a:1") == (Path("layout"), "docker.io/a:1")
    assert find_image_file("x.tar:a:1") == (Path("x.tar"), "a:1")
    assert find_image_file("y:z.tar:1") == (Path("y:z.tar"), "1")
    directory(tmp_path / "fedora", oci_layout(files, oci_image(files, LOW)))
    assert find_image_file("debian:12") is None and find_image_file("debian") is None
    assert find_image_file("fedora:12") is None  # an image of a registry


def test_images_with_the_same_tag_or_none_are_several(tmp_path: Path) -> None:
    files: Files = {}
    tags = [{"annotations": {NAME: "latest", "io.containerd.image.name": f"localhost/{name}:latest"}} for name in "ab"]
    one, two = (oci_image(files, data) for data in (LOW, HIGH))
    path = directory(tmp_path / "layout", oci_layout(files, {**one, **tags[0]}, {**two, **tags[1]}))
    assert names(read(path, "localhost/b:latest")) == ["./c"]
    for name, listed in (("", (one, two)), ("latest", ({**one, **tags[0]}, {**two, **tags[1]}))):
        directory(path, oci_layout(files, *listed))
        with pytest.raises(UsageError, match="it has several images: "):
            read(path, name)


def test_no_name_leads_out_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    files: Files = {}
    files = oci_layout(files, oci_image(files, LOW))
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout" / "up").symlink_to(tmp_path)
    for name in ("../secret", str(tmp_path / "secret"), "up/secret"):
        entry = json.dumps([{"Config": name, "RepoTags": None, "Layers": []}]).encode()
        assert refused(tmp_path, {**files, "manifest.json": entry}).endswith("is not in the directory")


@pytest.mark.parametrize("nested", [False, True])
def test_of_several_platforms_this_machines_is_picked(tmp_path: Path, nested: bool) -> None:
    files: Files = {}
    attestation = {"platform": {"os": "unknown", "architecture": "unknown"}}
    images = [
        oci_image(files, HIGH, platform=OTHER) | {"platform": OTHER},
        oci_image(files, LOW, HIGH) | {"platform": {**OURS, "variant": "v9"}},
        oci_image(files, LOW) | {"platform": OURS},
        {**oci_image(files, HIGH), **attestation, "annotations": {"vnd.docker.reference.type": "attestation-manifest"}},
    ]
    listed = [oci_index(files, oci_index(files, *images), **named("1"))] if nested else images
    assert names(read(directory(tmp_path / "layout", oci_layout(files, *listed)))) == ["./a", "./b"]


@pytest.mark.parametrize(
    ("machine", "listed", "best"),
    [
        ("armv7l", ["arm/v5", "arm/v6", "arm/v7", "arm64/v8"], "arm/v7"),
        ("armv7l", ["arm/v5", "arm/v6"], "arm/v6"),
        ("armv7l", ["arm/v6", "arm"], "arm"),  # without a variant it is v7
        ("armv7l", ["arm/v8"], ""),
        ("armv6l", ["arm/v5", "arm/v6", "arm/v7"], "arm/v6"),
        ("armv6l", ["arm"], "arm"),
        ("aarch64", ["arm/v7", "arm64/v9", "arm64"], "arm64"),
        ("aarch64", ["arm/v6", "arm/v8", "arm/v7"], "arm/v8"),
        ("x86_64", ["amd64/v3", "amd64/v2", "amd64"], "amd64"),
        ("x86_64", ["amd64/v3", "amd64/v10", "amd64/v2"], "amd64/v2"),
        ("x86_64", ["386", "amd64/odd"], "amd64/odd"),
        ("x86_64", ["arm/v7"], ""),
    ],
)
def test_the_best_variant_is_first(machine: str, listed: list[str], best: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    ranks = {}
    for text in listed:
        architecture, _, variant = text.partition("/")
        if (rank := Platform(architecture, "linux", variant).rank) is not None:
            ranks[text] = rank
    assert min(ranks, key=lambda text: ranks[text], default="") == best


def test_what_is_missing_for_this_machine_is_said(tmp_path: Path) -> None:
    files: Files = {}
    others = [
        oci_image(files, LOW, platform=OTHER) | {"platform": {**OTHER, "variant": f"v{number}"}} for number in range(9)
    ]
    says = refused(tmp_path, oci_layout(files, oci_index(files, *others)))
    assert says == (
        f"it has no image for this machine (linux/{OURS['architecture']}), only for linux/mips64le/v0, "
        "linux/mips64le/v1, linux/mips64le/v2, linux/mips64le/v3, linux/mips64le/v4 and 4 more"
    )
    assert refused(tmp_path, oci_layout(files, oci_image(files, LOW, platform=OTHER))).endswith("linux/mips64le")


def manifest_of(files: Files, *layers: Any, settings: Any = None) -> Files:
    settings = settings or blob(files, config(LOW), "application/vnd.oci.image.config.v1+json")
    text = json.dumps({"config": settings, "layers": layers}).encode()
    return oci_layout(files, blob(files, text, MANIFEST))


def test_what_is_damaged_or_can_not_be_unpacked_is_one_line(tmp_path: Path) -> None:
    files: Files = {}
    good = blob(files, LOW, LAYER)
    lost = {**good, "digest": "sha256:" + "0" * 64}
    foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
    chart = {**good, "mediaType": "application/vnd.cncf.helm.config.v1+json"}
    for name, bad, says in (
        ("missing", manifest_of(files, lost), f"blobs/sha256/{'0' * 64} is missing"),
        ("foreign", manifest_of(files, {**lost, "mediaType": foreign}), "layer 1 may not be distributed"),
        ("encrypted", manifest_of(files, {**good, "mediaType": f"{LAYER}+encrypted"}), "which can't be unpacked"),
        ("size", manifest_of(files, {**good, "size": 3}), "layer 1 does not have the size and digest of its manifest"),
        ("digest", manifest_of(files, {**good, "digest": "sha256:../../../etc/passwd"}), "is not a SHA-256 digest"),
        ("sha512", manifest_of(files, {**good, "digest": "sha512:" + "0" * 128}), "is not a SHA-256 digest"),
        ("number", manifest_of(files), "it has 0 layers, and its configuration lists 1"),
        ("chart", manifest_of(files, good, settings=chart), "it is not a container image: its configuration is app"),
        ("other", oci_layout(files, {**good, "mediaType": "application/vnd.wasm"}), "it is not a container image"),
        ("diff", manifest_of(files, blob(files, HIGH, LAYER)), "layer 1 is not what the image's configuration says"),
        ("gzip", manifest_of(files, blob(files, gzip.compress(LOW)[:-20], LAYER)), "gzip failed"),
        ("empty", oci_layout(files), "it has no image"),
        ("json", {**files, "oci-layout": b"", "index.json": b"{" * 100_000}, "damaged or unsupported"),
        ("long", {**files, "oci-layout": b"", "index.json": b" " * (LONGEST_JSON + 1)}, "index.json has more than 4"),
        ("big", oci_layout(files, {**good, "mediaType": MANIFEST, "size": 1 << 40}), "more than 4 MiB"),
        ("bare", {"oci-layout": b"", "index.json": b""}, "blobs/sha256 is missing"),
        ("none", {"oci-layout": b"", "blobs/sha256/x": b""}, "index.json is missing"),
        ("file", {**files, "oci-layout": b"", "index.json/x": b""}, "index.json is missing"),
    ):  # fmt: skip
        top = tmp_path / name
        top.mkdir()
        assert says in refused(top, bad), name
    changed = dict(manifest_of(files, good))
    changed[f"blobs/sha256/{good['digest'][7:]}"] = HIGH
    assert "layer 1 does not have the size and digest" in refused(tmp_path, changed)


def test_indexes_in_indexes_have_an_end(tmp_path: Path) -> None:
    files: Files = {}
    item = oci_image(files, LOW)
    for _ in range(17):
        item = oci_index(files, item, item)
    assert refused(tmp_path, oci_layout(files, item)) == "more than 16 indexes, one in the other"
    itself = {"mediaType": INDEX, "digest": "sha256:" + "1" * 64, "size": 3}
    (tmp_path / "2").mkdir()
    looped = oci_layout({f"blobs/sha256/{'1' * 64}": b"{ }"}, itself)
    assert "does not have the digest sha256:111" in refused(tmp_path / "2", looped)


def test_links_and_pipes_in_a_layout_are_not_read(tmp_path: Path) -> None:
    files: Files = {}
    files = oci_layout(files, oci_image(files, LOW))
    path = directory(tmp_path / "layout", files)
    biggest = max((path / "blobs/sha256").iterdir(), key=lambda item: item.stat().st_size)
    data = biggest.read_bytes()
    biggest.unlink()
    os.mkfifo(biggest)
    with pytest.raises(UsageError, match="not a regular file"):
        read(path)
    biggest.unlink()
    (tmp_path / "elsewhere").write_bytes(data)
    biggest.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="Too many levels of symbolic links"):
        read(path)


def test_a_layer_that_becomes_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "_LEAST", 1 << 20)
    for name, pack in (("1", gzip.compress), ("2", zstd)):
        files: Files = {}
        bomb = blob(files, pack(bytes(1 << 25)), LAYER)
        (tmp_path / name).mkdir()
        says = refused(tmp_path / name, manifest_of(files, bomb))
        assert says == "it decompresses to more than 1 GiB and 100 times its size"


def test_a_layer_of_a_window_of_gigabytes_is_refused(tmp_path: Path) -> None:
    zstd(b"")
    files: Files = {}
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3]) + bytes(40)  # window of 2 GiB (RFC 8878, 3.1.1.1.2)
    (tmp_path / "layout").mkdir()
    with pytest.raises(UsageError, match="decompressing it takes more than 128 MiB of memory"):
        read(directory(tmp_path / "layout", manifest_of(files, blob(files, frame, f"{LAYER}+zstd"))))
