"""What ``kit doctor`` says of guests and their kernels."""

from __future__ import annotations

from collections.abc import Iterator

from kit.arms.image import ImageCache
from kit.core.paths import Paths
from kit.extra.guest import Kernel, Tools
from kit.extra.guest.kernel_cache import KernelCache
from kit.extra.guest.qemu import Qemu
from kit.extra.guest.recipe import kernel_recipes, read_kernel_recipe
from kit.host.machine import Host
from kit.model.drivers import OWN_KERNEL, QEMU, UML, in_guest_kernel, registered
from kit.session.trial import Diagnosis

#: Filesystems, besides drivers, that the kit's guest kernel has and a machine may lack.
_FILESYSTEMS = {UML: ("ext4", "xfs", "btrfs", "jfs"), QEMU: ("ext4", "xfs", "btrfs", "jfs", "reiserfs")}


def had_in(guest: str) -> tuple[str, ...]:
    """Drivers that a guest has and a machine may lack; each is named for the first engine that has it."""
    words: dict[str, str] = {}
    for arm, driver in registered():
        if guest in driver.guests:
            words.setdefault(driver.name, arm)
    return tuple(words.values())


def guests(paths: Paths, host: Host) -> Iterator[Diagnosis]:
    """Return which guests can boot, and which features they provide. An unbuilt guest is not booted."""
    built = {image.name for image in ImageCache(paths.cache).list()}
    for kind, filesystems in _FILESYSTEMS.items():
        missing = [name for name in ("guest", kind) if name not in built]
        reason = f"runs {', '.join((*had_in(kind), *filesystems))}: --guest {kind}"
        if not host.root:
            yield Diagnosis("guest", kind, False, "a guest needs root", "run as root: sudo kit …")
        elif missing:
            fix = " && ".join(f"kit image build {name}" for name in missing)
            text = f"its images are not built yet; kit compare builds them; {reason}"
            yield Diagnosis("guest", kind, False, text, fix)
        elif kind == "qemu" and (why := Qemu(Tools(paths.cache), Kernel()).why_emulated()):
            yield Diagnosis("guest", kind, True, f"emulated, 10 to 40 times slower (KVM: {why}); {reason}")
        else:
            yield Diagnosis("guest", kind, True, reason)
    drivers = ", ".join(had_in(OWN_KERNEL))
    reason = f"runs {drivers} and any driver that a kernel of yours has: kit kernel --help"
    yield Diagnosis("guest", "--kernel PATH", host.root, reason, "run as root: sudo kit …")


def guest_kernels(paths: Paths, host: Host) -> Iterator[Diagnosis]:
    """Return which kernels of the kit's recipes are built."""
    cache = KernelCache(paths.cache)
    for name in kernel_recipes():
        built = [kind for kind in read_kernel_recipe(name).machines if cache.find(name, kind)]
        reason = f"runs {', '.join(in_guest_kernel(name))}"
        if built:
            yield Diagnosis("guest", f"kernel {name}", True, f"{reason}: --guest {' or '.join(built)}")
        else:
            fix = f"kit kernel build {name}"
            yield Diagnosis(
                "guest", f"kernel {name}", False, f"it is not built yet; kit compare builds it; {reason}", fix
            )
