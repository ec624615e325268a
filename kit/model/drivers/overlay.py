"""The kernel's overlay (Documentation/filesystems/overlayfs.rst), under the names that engines give it."""

import re

from kit.model.driver import Driver, KernelPart, Options

_KERNEL = KernelPart("overlay (CONFIG_OVERLAY_FS)", "overlay", ("overlay",))
_FIX = "boot a kernel with overlay"
_NO_NFS = (
    "overlay writes to no NFS, which has no trusted.* attributes: use containerd/native, which copies all, or a disk"
)
_NO_TYPES = "overlay needs file types in directories (d_type): use ext4, xfs with ftype=1 or btrfs"
_NO_NEST = (
    "overlay writes to no overlay: put the inner engine's data on a volume with +data-root=volume, or use the inner "
    "driver vfs or fuse-overlayfs"
)
_UNFIT = {"nfs": _NO_NFS, "nfs4": _NO_NFS, "jfs": _NO_TYPES, "reiserfs": _NO_TYPES, "overlay": _NO_NEST}
#: Commonly tuned features.
_FEATURES = Options(
    {
        "metacopy": re.compile(r"on|off"),
        "redirect_dir": re.compile(r"on|off|follow|nofollow"),
        "index": re.compile(r"on|off"),
        "xino": re.compile(r"on|off|auto"),
        "volatile": re.compile(r""),
    },
    "+metacopy=on +redirect_dir=on +index=off +xino=off +volatile",
    "the kernel's overlay",
)

OVERLAY2 = Driver("overlay2", _FIX, _KERNEL, unfit=_UNFIT, tried_in_roots=True)
#: An option of Podman's storage (containers-storage.conf(5), enable_partial_images).
PARTIAL = "partial"
#: Podman's driver, which passes mount options on.
OVERLAY = Driver(
    "overlay",
    _FIX,
    _KERNEL,
    unfit=_UNFIT,
    features=_FEATURES,
    options=Options({PARTIAL: re.compile("")}, f"+{PARTIAL} (pulls only the missing files of zstd:chunked layers)"),
)
BUILDAH_OVERLAY = Driver("overlay", _FIX, _KERNEL, unfit=_UNFIT)
BUILDKIT_OVERLAYFS = Driver("overlayfs", _FIX, _KERNEL, unfit=_UNFIT)
OVERLAYFS = Driver(
    "overlayfs", _FIX, _KERNEL, unfit=_UNFIT, features=_FEATURES, features_root="2.1", tried_in_roots=True
)
DOCKER_OVERLAYFS = Driver(
    "overlayfs",
    "use Docker {versions}: docker@{root}/overlayfs, or --docker PATH",
    _KERNEL,
    since="24",
    root="26.1",
    unfit=_UNFIT,
    image_store=True,
    tried_in_roots=True,
)
#: Mounted by the kit.
UNION_OVERLAY = Driver("overlay", kernel=_KERNEL, features=_FEATURES)
