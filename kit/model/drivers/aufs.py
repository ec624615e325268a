"""aufs: the union that Docker began with; no kernel of kernel.org's has it."""

from kit.model.driver import OWN_KERNEL, Driver, KernelPart

AUFS = Driver(
    "aufs",
    "use a kernel with aufs (kit kernel build {kernel}, then --guest) and a Docker {versions} (docker@{root}/aufs)",
    KernelPart("aufs", "aufs", ("aufs",)),
    before="24",
    root="20.10",
    guests=(OWN_KERNEL,),
    guest_kernel="aufs",
)
