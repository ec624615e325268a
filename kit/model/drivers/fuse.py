"""Unions that a program mounts through FUSE."""

from dataclasses import replace

from kit.model.driver import Driver, KernelPart, ProxyPlugin

_KERNEL = KernelPart("FUSE (CONFIG_FUSE_FS)", "fuse", ("fuse",))

#: Docker's, and Podman's overlay driver where that program mounts it.
FUSE_OVERLAYFS = Driver(
    "fuse-overlayfs",
    "use a kernel with FUSE",
    _KERNEL,
    packages={"fuse-overlayfs": "fuse-overlayfs"},
)
CONTAINERD_FUSE_OVERLAYFS = Driver(
    "fuse-overlayfs",
    "use layer:containerd@{root}/fuse-overlayfs, which has the snapshotter; Debian has no package of it",
    _KERNEL,
    packages={"fuse-overlayfs": "fuse-overlayfs", "containerd-fuse-overlayfs-grpc": ""},
    root="2.3",
    plugin=ProxyPlugin(("containerd-fuse-overlayfs-grpc", "{socket}", "{root}")),
)
#: Overlay over layers that a program serves through FUSE (containerd/stargz-snapshotter).
STARGZ = Driver(
    "stargz",
    "use layer:containerd@{root}/stargz, which has the snapshotter; Debian has no package of it",
    _KERNEL,
    packages={"containerd-stargz-grpc": ""},
    root="2.3",
    plugin=ProxyPlugin(("containerd-stargz-grpc", "--address", "{socket}", "--root", "{root}"), lazy=True),
    note="it fetches from the registry what a container reads, where the layers have the format eStargz",
)
DOCKER_STARGZ = replace(
    STARGZ,
    fix="use layer:docker@{root}/stargz, which has the snapshotter; Debian has no package of it",
    root="29",
    image_store=True,
)
#: Overlay over the files of an image, which a program of its own serves through FUSE (containerd/nydus-snapshotter).
NYDUS = Driver(
    "nydus",
    "use layer:containerd@{root}/nydus, which has it and nydusd; Debian has no package of nydusd",
    _KERNEL,
    packages={"containerd-nydus-grpc": "", "nydusd": ""},
    root="2.1-nydus",
    plugin=ProxyPlugin(
        ("containerd-nydus-grpc", "--address", "{socket}", "--root", "{root}", "--log-to-stdout"), lazy=True
    ),
    note="it fetches from the registry what a container reads, where the image has an index in the format of Nydus",
)
UNIONFS_FUSE = Driver("unionfs-fuse", kernel=_KERNEL, packages={"unionfs-fuse": "unionfs-fuse"})
MERGERFS = Driver("mergerfs", kernel=_KERNEL, packages={"mergerfs": "mergerfs"})
