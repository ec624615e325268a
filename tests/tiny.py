"""A root filesystem of one program, which has most commands in it: what shows no size needs no large image, and what
needs none does not wait for one."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from kit.host.command import run


def make_tiny(directory: Path) -> Path:
    """Make it in a directory that everybody may enter, and return the tarball."""
    run(["apt-get", "download", "busybox-static"], cwd=directory)
    (package,) = directory.glob("*.deb")
    run(["dpkg-deb", "--extract", package, directory / "package"])
    (busybox,) = directory.glob("package/**/bin/busybox")
    root = directory / "root"
    for name in ("bin", "build", "dev", "etc", "proc", "sys", "tmp", "usr/games"):
        (root / name).mkdir(parents=True)
    (root / "etc/debian_version").write_text("12.0\n")
    shutil.copy(busybox, root / "bin")
    for name in run([root / "bin/busybox", "--list"]).split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    with tarfile.open(root.parent / "tiny.tar", "w") as tar:
        tar.add(root, ".")
    return root.parent / "tiny.tar"
