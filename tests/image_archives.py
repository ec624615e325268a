"""Small images in every format that the kit reads, made here."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kit.arms.image.manifest import architectures

Entry = tuple[str, str, str]  # name, type (file, dir, link, symlink), content or target
_KINDS = {"file": tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "link": tarfile.LNKTYPE, "symlink": tarfile.SYMTYPE}
OURS = {"os": "linux", "architecture": architectures()[0]}
OTHER = {"os": "linux", "architecture": "mips64le"}
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
NAME = "org.opencontainers.image.ref.name"

Files = dict[str, bytes]


def layer(*entries: Entry) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, text in entries:
            member = tarfile.TarInfo(name)
            member.type, member.mode = _KINDS[kind], 0o755
            member.pax_headers = {"SCHILY.xattr.user.kit": "x"} if kind == "file" else {}
            if kind == "file":
                member.size = len(text.encode())
            else:
                member.linkname = text
            tar.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


def tarball(files: Mapping[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


def holes(path: Path) -> Path:
    """Write a tarball of a few KiB whose one file is a hole, a byte longer than any that is read."""
    with path.with_name("holes").open("wb") as file:
        file.truncate((1 << 30) + 1)
    subprocess.run(["tar", "--sparse", "-C", path.parent, "-cf", path, "holes"], check=True)
    return path


def long_header(path: Path) -> Path:
    """Write a tarball of a few KiB, compressed by gzip, with a name of 2 MiB."""
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 2 << 20
    with gzip.open(path, "wb") as file:
        file.write(member.tobuf(tarfile.GNU_FORMAT) + b"a" * (2 << 20) + tarball({"y": b""}))
    return path


def directory(path: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def archive(path: Path, files: Mapping[str, bytes]) -> Path:
    path.write_bytes(tarball(files))
    return path


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def config(*layers: bytes, platform: Mapping[str, str] = OURS) -> bytes:
    rootfs = {"type": "layers", "diff_ids": [digest(item) for item in layers]}
    return json.dumps({**platform, "config": {"Env": ["PATH=/bin", "A=b=c"]}, "rootfs": rootfs}).encode()


def save(path: Path, *layers: bytes, packed: bool = False, damaged: bool = False) -> Path:
    """As docker save writes it, with the name of somebody's image."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "c.json", "RepoTags": ["debian:12"], "Layers": names}]
    files = {"manifest.json": json.dumps(manifest).encode(), "c.json": config(*layers)}
    for name, data in zip(names, layers, strict=True):
        files[name] = gzip.compress(data) if packed else data + (b"x" if damaged else b"")
    return archive(path, files)


def zstd(data: bytes) -> bytes:
    if shutil.which("zstd") is None:
        pytest.skip("needs zstd: apt-get install zstd")
    return subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout


#: How a layer is compressed, and the end of its media type.
FORMS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "+gzip": gzip.compress, "+zstd": zstd}


def blob(files: Files, data: bytes, kind: str, **more: Any) -> dict[str, Any]:
    """Add a blob; return its descriptor."""
    files[f"blobs/sha256/{digest(data)[7:]}"] = data
    return {"mediaType": kind, "digest": digest(data), "size": len(data), **more}


def oci_image(files: Files, *layers: bytes, form: str = "", platform: Mapping[str, str] = OURS, **more: Any) -> Any:
    """Add an image; return the descriptor of its manifest. ``more``: further fields of it."""
    manifest = {
        "schemaVersion": 2,
        "config": blob(files, config(*layers, platform=platform), "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(files, FORMS[form](item), LAYER + form) for item in layers],
    }
    return blob(files, json.dumps(manifest).encode(), MANIFEST, **more)


def oci_index(files: Files, *descriptors: Any, **more: Any) -> Any:
    """Add an index; return its descriptor."""
    return blob(files, json.dumps({"schemaVersion": 2, "manifests": descriptors}).encode(), INDEX, **more)


def oci_layout(files: Files, *descriptors: Any) -> Files:
    """Return all files of a layout with these images."""
    index = json.dumps({"schemaVersion": 2, "manifests": descriptors}).encode()
    return {**files, "oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index}


def named(name: str) -> dict[str, Any]:
    return {"annotations": {NAME: name}}
