"""Root filesystems of users' machines: a stock Debian with systemd, Docker and an ordinary user who has sudo.

``disk = make_root("trixie", cache)`` returns an ext4 in a file. Boot a copy of it: it is cached."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.arms.image.recipe import Recipe
from kit.extra.guest.disk import cached_disk
from kit.host.command import run
from kit.host.durable import publish
from kit.host.safe_fs import scratch

#: The ordinary user, as a cloud image has one: a group of its own, and sudo without a password.
USER = "debian"
#: Packages of a stock Debian (priorities required and important) with Docker.
STOCK = (
    "init", "systemd", "systemd-sysv", "systemd-timesyncd", "dbus", "dbus-user-session", "libpam-systemd", "udev",
    "kmod", "cron", "logrotate", "ifupdown", "iproute2", "iputils-ping", "less", "nano", "vim-tiny", "procps",
    "tzdata", "netbase", "adduser", "e2fsprogs", "apparmor", "bash-completion", "ca-certificates", "iptables",
    "locales", "nftables", "openssh-server", "sudo", "docker.io",
)  # fmt: skip
#: Packages that README and the how-to pages ask for.
TOOLS = (
    "podman", "crun", "uidmap", "slirp4netns", "passt", "fuse-overlayfs", "btrfs-progs", "xfsprogs",
    "pipx", "python3-venv", "rsync", "zstd", "xz-utils",
)  # fmt: skip
#: Packages that only some releases have: others have their programs in docker.io.
RELEASES = {
    "bookworm": (),
    "trixie": ("docker-cli",),
    "unstable": ("docker-cli",),
}
_CUSTOMIZE = (
    f'chroot "$1" useradd --create-home --shell /bin/bash --groups sudo {USER}',
    f'echo "{USER} ALL=(ALL) NOPASSWD:ALL" >"$1/etc/sudoers.d/90-cloud-init-users"',
    'chmod 440 "$1/etc/sudoers.d/90-cloud-init-users"',
    'echo "127.0.0.1 localhost\n127.0.1.1 machine\n::1 localhost" >"$1/etc/hosts"',
)
#: Bytes that the user's machine has free, in a sparse file.
SPARE = 40 << 30


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class _Filling:
    """Fill a disk: the packages, then the machine's own files over them."""

    tarball: Path
    files: Path | None

    def __call__(self, directory: Path) -> Path:
        root = directory / "root"
        root.mkdir()
        run(["tar", "--extract", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-f", self.tarball, "-C", root])
        (root / "etc/hostname").write_text("machine\n")
        if self.files:
            run(["cp", "--archive", "--no-preserve=ownership", f"{self.files}/.", root])
        return root


def make_root(
    release: str,
    cache: Path,
    packages: Sequence[str] = (),
    customize: Sequence[str] = (),
    files: Path | None = None,
    tell: Callable[[str], None] = say,
    tools: Sequence[str] = TOOLS,
) -> Path:
    """Return the disk of a stock Debian ``release``, an ext4 without partitions; a cached one if nothing differs.

    ``packages``: more than STOCK and ``tools``. ``customize``: mmdebstrap's customize hooks. ``files``: a
    directory that is copied over the root. The disk belongs to the cache: boot a copy. Raises KitError."""
    directory = cache / "users_machine"
    directory.mkdir(parents=True, exist_ok=True)
    tarball = _tarball(release, directory, (*tools, *packages), customize, tell)
    key = hashlib.sha256(f"{tarball.name} {_digest(files)} {SPARE}".encode()).hexdigest()[:12]
    return cached_disk(directory, release, key, _Filling(tarball, files), SPARE, tell)


def _tarball(
    release: str, directory: Path, packages: Sequence[str], customize: Sequence[str], tell: Callable[[str], None]
) -> Path:
    """Return the packages' files, fetched once: minutes."""
    recipe = Recipe(
        f"users-{release}",
        "a user's machine",
        release,
        (*STOCK, *RELEASES[release], *packages),
        customize=(*_CUSTOMIZE, *customize),
    )
    tarball = directory / f"{release}-{recipe.digest[:12]}.tar"
    if not tarball.exists():
        tell(f"making the root filesystem of {release} (once, about 3 minutes)")
        with scratch(directory) as new:
            recipe.build(new / "root.tar", new / "layers", directory / f"{release}.log")
            publish(new / "root.tar", tarball)
    return tarball


def fetch_packages(release: str, cache: Path, names: Sequence[str], tell: Callable[[str], None] = say) -> Path:
    """Return a directory with what ``apt-get install`` of these packages asks the network for on the machine: its
    ``lists`` and its ``archives``. Raises KitError."""
    directory = cache / "users_machine"
    tarball = _tarball(release, directory, TOOLS, (), tell)
    key = hashlib.sha256(f"{tarball.name} {names}".encode()).hexdigest()[:12]
    target = directory / f"packages-{release}-{key}"
    if not target.exists():
        with scratch(directory) as new:
            root, archives = new / "root", new / "packages/archives"
            (root / "var/lib/apt/lists/partial").mkdir(parents=True)
            (archives / "partial").mkdir(parents=True)
            run(["tar", "-xf", tarball, "-C", root, "./etc/apt", "./var/lib/dpkg"])
            settings = {
                "Dir": root,
                "Dir::State::status": root / "var/lib/dpkg/status",
                "Dir::Cache::archives": archives,
                "APT::Sandbox::User": "root",
                "Acquire::GzipIndexes": "true",  # the lists are copied to the machine: a sixth of their size
            }
            apt = ["apt-get", "--quiet", *(f"--option={name}={value}" for name, value in settings.items())]
            run([*apt, "update"])
            run([*apt, "install", "--yes", "--download-only", *names])
            (root / "var/lib/apt/lists").rename(new / "packages/lists")
            publish(new / "packages", target)
    return target


def _digest(files: Path | None) -> str:
    """Return a digest of names, modes and contents."""
    hashed = hashlib.sha256()
    for path in sorted(files.rglob("*")) if files else ():
        hashed.update(f"{path.relative_to(files or path)} {path.lstat().st_mode}\0".encode())
        hashed.update(str(path.readlink()).encode() if path.is_symlink() else b"")
        hashed.update(path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
    return hashed.hexdigest()
