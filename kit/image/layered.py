"""Images of many layers: a recipe's program writes one directory per layer, lowest first, above the packages."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import tarfile
from pathlib import Path

from kit.host.command import run
from kit.host.safe_fs import scratch

#: The names of the architecture in Debian and in Go.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "riscv64": "riscv64", "s390x": "s390x"}


def add_layers(program: Path, rootfs: Path, archive: Path, date: str) -> None:
    """Run ``program DIRECTORY``, add each layer it writes to the tarball ``rootfs``, and write ``archive``, an image
    that keeps the layers apart (Docker Image Specification v1.2, the format of ``docker save``). ``date``: of files,
    in seconds since 1970."""
    with scratch(rootfs.parent) as made:
        written = made / "layers"
        written.mkdir()
        run([sys.executable, "-I", program, written], what=f"layers of {program.parent.name}")
        base = made / "base.tar"
        base.write_bytes(b"")
        run(["cp", "--reflink=auto", rootfs, base])
        layers = [base]
        alike = ("--sort=name", f"--mtime=@{date}", "--owner=0", "--group=0", "--numeric-owner")
        for directory in sorted(written.iterdir()):
            tarball = directory.with_suffix(".tar")
            run(["tar", *alike, "-C", directory, "-cf", tarball, "."], what=f"layer {directory.name}")
            run(["tar", *alike, "-C", directory, "--append", "-f", rootfs, "."], what=f"layer {directory.name}")
            layers.append(tarball)
        _write_archive(layers, archive, made)


def _write_archive(layers: list[Path], archive: Path, scratch: Path) -> None:
    digests = []
    for layer in layers:
        with layer.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    machine = platform.machine()
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    names = [f"{digest}/layer.tar" for digest in digests]
    manifest = [{"Config": name, "RepoTags": None, "Layers": names}]
    (scratch / name).write_bytes(config)
    (scratch / "manifest.json").write_text(json.dumps(manifest))
    with tarfile.open(archive, "w") as tar:
        for layer, member in zip(layers, names, strict=True):
            tar.add(layer, member)
        tar.add(scratch / name, name)
        tar.add(scratch / "manifest.json", "manifest.json")
