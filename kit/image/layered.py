"""Images of many layers: a recipe's program writes one directory per layer, lowest first, above the packages."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from kit.host.command import run
from kit.host.safe_fs import scratch
from kit.image.docker_archive import write_docker_archive
from kit.image.manifest import architectures


def add_layers(program: Path, rootfs: Path, archive: Path, date: str) -> None:
    """Run ``program DIRECTORY``, add each layer it writes to the tarball ``rootfs``, and write ``archive``, an image
    that keeps the layers apart (Docker Image Specification v1.2, the format of ``docker save``). ``date``: of files,
    in seconds since 1970."""
    with scratch(rootfs.parent) as workspace:
        written = workspace / "layers"
        written.mkdir()
        run([sys.executable, "-I", program, written], what=f"layers of {program.parent.name}")
        base = workspace / "base.tar"
        base.write_bytes(b"")
        run(["cp", "--reflink=auto", rootfs, base])
        layers = [base]
        alike = ("--sort=name", f"--mtime=@{date}", "--owner=0", "--group=0", "--numeric-owner")
        for directory in sorted(written.iterdir()):
            tarball = directory.with_suffix(".tar")
            run(["tar", *alike, "-C", directory, "-cf", tarball, "."], what=f"layer {directory.name}")
            run(["tar", *alike, "-C", directory, "--append", "-f", rootfs, "."], what=f"layer {directory.name}")
            layers.append(tarball)
        _write_archive(layers, archive)


def _write_archive(layers: list[Path], archive: Path) -> None:
    digests = []
    for layer in layers:
        with layer.open("rb") as file:
            digests.append(f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}")
    config = json.dumps(
        {
            "architecture": architectures()[0],
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": digests},
        }
    ).encode()
    with archive.open("wb") as file:
        write_docker_archive(file, config, list(zip(digests, layers, strict=True)))
