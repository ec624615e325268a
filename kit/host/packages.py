"""Debian's packages of the programs that the kit calls, and how to say what to install, on other distributions too.
Pure."""

from __future__ import annotations

from collections.abc import Iterable

#: The packages of each tool: ``a b`` both, ``a|b`` the first that the release has. A tool whose package has its name is
#: not listed.
PACKAGES = {
    "apt-get": "apt",
    "cc": "gcc libc6-dev",
    "dockerd": "docker.io",
    "docker": "docker-cli|docker.io",  # split since Debian 13
    "dpkg-deb": "dpkg",
    "ctr": "containerd",
    "exportfs": "nfs-kernel-server",
    "go": "golang-go",
    "ip": "iproute2",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext2": "e2fsprogs",
    "mkfs.ext3": "e2fsprogs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.jfs": "jfsutils",
    "mkfs.reiserfs": "reiserfsprogs",
    "mkfs.xfs": "xfsprogs",
    "mount.nfs": "nfs-common",
    "mke2fs": "e2fsprogs",
    "newuidmap": "uidmap",
    "nsenter": "util-linux",
    "perf": "linux-perf|linux-tools-generic",  # Debian's, Ubuntu's
    "rpc.mountd": "nfs-kernel-server",
    "rpc.nfsd": "nfs-kernel-server",
    "setpriv": "util-linux",
    "tc": "iproute2",
    "unshare": "util-linux",
    "xz": "xz-utils",
    "zpool": "zfsutils-linux",
}
#: Of Debian's component contrib, which a stock Debian does not have among apt's sources.
_CONTRIB = ("zfs-dkms", "zfsutils-linux")
#: What to do without packages that releases have dropped.
_DROPPED = {
    "reiserfsprogs": "Debian 13 was the last release with it; use another filesystem, or --guest qemu",
    "unionfs-fuse": "Debian 12 was the last release with it; use union:mergerfs",
}
#: Package managers of other distributions, and how each finds a package by the program in it: packages have other names
#: there (dnf(8), "package file spec"; apk-package(5), "provides"; zypper(8), search; pacman(8), -F).
MANAGERS = {
    "dnf": "run dnf install '*/*bin/{}'",
    "zypper": "install what zypper search --provides '*bin/{}' lists",
    "apk": "run apk add cmd:{}",
    "pacman": "install what pacman -Fy {} lists",
}
#: What to do instead, where a distribution other than Debian may have no package.
_INSTEAD = {
    "mmdebstrap": ", or give a tarball or directory as image: --image rootfs.tar",
    "apt-cache": ", or give a tarball or directory as source, not deb:",
}
#: Every archive has it: apt then has lists.
_ANY = "apt"


def ask_apt(packages: str) -> list[str]:
    """Return the words of apt-cache that list what apt's sources have of the packages."""
    return ["madison", _ANY, *packages.replace("|", " ").split()]


def install_words(packages: str, offered: Iterable[str] | None, manager: str = "", program: str = "") -> str:
    """Return how to install the packages. ``offered``: the names in apt's answer; None without apt. ``manager``: the
    one of MANAGERS that the machine has instead; ``program``: the one that is missing."""
    alternatives = [names.split() for names in packages.split("|")]
    if offered is None and manager and program:
        return f"{MANAGERS[manager].format(program)}{_INSTEAD.get(program, '')}"
    if offered is None:
        debians = " ".join(alternatives[0])
        return f"install {debians}, or what {manager or 'your distribution'} calls it; the name is Debian's"
    for names in alternatives:
        if set(names) <= set(offered):
            return f"run apt-get install {' '.join(names)}"
    missing = next(name for name in alternatives[0] if name not in offered)
    install = f"apt-get install {' '.join(alternatives[0])}"
    if missing in _CONTRIB:
        return f"add Debian's component contrib to apt's sources, then run apt-get update && {install}"
    if _ANY not in offered:
        return f"run apt-get update && {install}"
    return f"apt's sources have no package {missing}: {_DROPPED.get(missing, 'build it from source')}"
