"""What the kit needs to know of an image, whatever format it comes in: its configuration and its layers in order."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kit.core.codec import decode_json
from kit.core.listing import listed

#: Maximum bytes of a JSON document: registries accept manifests of 4 MiB (OCI Distribution Specification 1.1), and so
#: do Podman and skopeo.
LONGEST_JSON = 4 << 20
#: Maximum number of layers: overlayfs mounts 500 of them (OVL_MAX_STACK).
_MOST_LAYERS = 500
#: Names that an error has at most.
NAMED = 5
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
WRITE_AGAIN = "write it again: skopeo copy SOURCE oci-archive:FILE, or docker save IMAGE -o FILE"
#: Go's names of what a machine runs, by what uname -m says; its own architecture first.
_ARCHITECTURES = {
    "x86_64": ("amd64", "386"),
    "aarch64": ("arm64", "arm"),
    "armv7l": ("arm",),
    "armv6l": ("arm",),
    "ppc64le": ("ppc64le",),
    "riscv64": ("riscv64",),
    "s390x": ("s390x",),
}


#: The newest variant of 32-bit ARM that a machine runs, by what uname -m says; the variant of images that name none
#: (containerd, platforms/database.go).
_ARM_VARIANTS = {"aarch64": 8, "armv7l": 7, "armv6l": 6}
_ARM_VARIANT = 7
#: The rank of a variant that is no number, after all others.
_UNKNOWN_VARIANT = 1_000


class UnusableError(Exception):
    """An image can't be read: the reason, and the fix. Its reader adds which file it is."""

    def __init__(self, reason: str, fix: str = WRITE_AGAIN) -> None:
        self.reason = reason
        self.fix = fix
        super().__init__(reason)


class OtherMachineError(UnusableError):
    """An image is for another operating system or architecture."""


@dataclass(frozen=True)
class Layer:
    """A layer of an image."""

    file: str  # its name in the archive or directory
    diff_id: str  # digest of the uncompressed tarball
    digest: str = ""  # of the file; '' where the format does not say
    size: int | None = None  # of the file in bytes; None where the format does not say


@dataclass(frozen=True)
class Manifest:
    """An image's configuration and layers."""

    config: bytes  # the image's configuration as it is
    env: tuple[tuple[str, str], ...]
    layers: tuple[Layer, ...]  # lowest first


class Platform(msgspec.Struct, frozen=True):
    """As configurations and descriptors have it; '' where it is not said."""

    architecture: str = ""
    os: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant)))

    @property
    def rank(self) -> tuple[int, int] | None:
        """Return how well it suits this machine, the least first; None if it does not. Of 32-bit ARM the newest variant
        that this machine runs is best, of others the oldest, which runs on every machine of the architecture."""
        ours = architectures()
        if self.os not in ("", "linux") or self.architecture not in ("", *ours):
            return None
        place = ours.index(self.architecture) if self.architecture else len(ours)
        variant = re.fullmatch(r"v?(\d{1,3})", self.variant)
        if self.variant and not variant:
            return place, _UNKNOWN_VARIANT
        if self.architecture != "arm":
            return place, int(variant[1]) if variant else 0
        newest = _ARM_VARIANTS.get(platform.machine(), _ARM_VARIANT)
        number = int(variant[1]) if variant else min(newest, _ARM_VARIANT)
        return (place, newest - number) if number <= newest else None


def architectures() -> tuple[str, ...]:
    """Return Go's names of the architectures that this machine runs, its own first."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, (machine,))


def other_machine(platforms: Sequence[Platform]) -> OtherMachineError:
    """Return the error for an image that exists for these platforms alone."""
    names = list(dict.fromkeys(str(platform)[:40] for platform in platforms))
    return OtherMachineError(
        f"it has no image for this machine (linux/{architectures()[0]}), only for {listed(names, NAMED)}",
        "use an image for this machine, or write it again with all platforms",
    )


def no_such_image(name: str, inside: Sequence[str]) -> UnusableError:
    """Return the error for a file that has no image of that name. ``inside``: in words, the images that it has."""
    if not inside:
        return UnusableError("it has no image")
    return UnusableError(
        f"it has no image '{name[:90]}', only {listed(inside, NAMED)}", "use one of these: --image FILE:NAME"
    )


def several_images(inside: Sequence[str]) -> UnusableError:
    """Return the error for a file of which no image is named."""
    return UnusableError(f"it has several images: {listed(inside, NAMED)}", "name one after a colon: --image FILE:NAME")


class _RootFs(msgspec.Struct):
    diff_ids: tuple[str, ...]


class _Settings(msgspec.Struct):
    env: tuple[str, ...] | None = msgspec.field(name="Env", default=None)


class _Config(msgspec.Struct):
    rootfs: _RootFs
    architecture: str = ""
    os: str = ""
    variant: str = ""
    config: _Settings | None = None


def make_manifest(config: bytes, files: Sequence[tuple[str, str, int | None]]) -> Manifest:
    """Return the description of an image. ``files``: file, digest and size of each layer. Raises UnusableError,
    UnreadableError."""
    parsed = decode_json(_Config, config)
    made_for = Platform(parsed.architecture, parsed.os, parsed.variant)
    if made_for.rank is None:
        raise other_machine([made_for])
    digests = parsed.rootfs.diff_ids
    if len(digests) != len(files):
        raise UnusableError(f"it has {len(files)} layers, and its configuration lists {len(digests)}")
    if len(files) > _MOST_LAYERS:
        raise UnusableError(f"it has {len(files)} layers, more than {_MOST_LAYERS}", "use an image of fewer layers")
    for digest in digests:
        hexadecimal(digest)
    env = (parsed.config and parsed.config.env) or ()
    return Manifest(
        config,
        tuple((key, value) for key, equals, value in (entry.partition("=") for entry in env) if equals),
        tuple(Layer(file, diff_id, digest, size) for (file, digest, size), diff_id in zip(files, digests, strict=True)),
    )


def hexadecimal(digest: str) -> str:
    """Return the hexadecimal part of a digest. Raises UnusableError for anything but SHA-256."""
    if not _DIGEST.fullmatch(digest):
        raise UnusableError(f"'{digest[:90]}' is not a SHA-256 digest")
    return digest.removeprefix("sha256:")


def check_digest(content: bytes, digest: str, what: str) -> None:
    """Raises UnusableError if the content has another digest."""
    if hashlib.sha256(content).hexdigest() != hexadecimal(digest):
        raise UnusableError(f"{what} does not have the digest {digest[:19]}…: the file is damaged")
