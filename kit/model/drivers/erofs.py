"""Layers as EROFS images, with overlay above them."""

from kit.model.driver import Driver, KernelPart

EROFS = Driver(
    "erofs",
    "use containerd {versions}: layer:containerd@{root}/erofs, and a kernel with EROFS",
    KernelPart("EROFS (CONFIG_EROFS_FS)", "erofs", ("erofs",)),
    since="2.1",
    root="2.1",
    tried_in_roots=True,
)
