"""Unions that a program mounts through FUSE."""

from kit.model.driver import Driver, KernelPart

_KERNEL = KernelPart("FUSE (CONFIG_FUSE_FS)", "fuse", ("fuse",))

#: Docker's, and Podman's overlay driver where that program mounts it.
FUSE_OVERLAYFS = Driver(
    "fuse-overlayfs",
    "run apt-get install fuse-overlayfs, and use a kernel with FUSE",
    _KERNEL,
    packages={"fuse-overlayfs": "fuse-overlayfs"},
)
CONTAINERD_FUSE_OVERLAYFS = Driver(
    "fuse-overlayfs",
    "use layer:fuse-overlayfs, "
    "Docker with that driver; Debian does not have its snapshotter (containerd-fuse-overlayfs-grpc)",
    _KERNEL,
    blocker="containerd has no snapshotter fuse-overlayfs built in",
    listed=False,
)
UNIONFS_FUSE = Driver("unionfs-fuse", kernel=_KERNEL, packages={"unionfs-fuse": "unionfs-fuse"})
MERGERFS = Driver("mergerfs", kernel=_KERNEL, packages={"mergerfs": "mergerfs"})
