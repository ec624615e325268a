"""The kernel of the users' machines: User-Mode Linux of Debian unstable's sources, with the modules that Docker and the
kit ask for. Debian's own package user-mode-linux lacks nftables' NAT."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable
from pathlib import Path

from kit.arms.image.recipe import Recipe
from kit.host.command import run
from kit.host.durable import publish
from kit.host.safe_fs import scratch
from tests.users_machine.machine import Kernel

_CONFIG = Path(__file__).with_name("kernel.config")
_PACKAGES = ("linux-source", "gcc", "make", "bc", "bison", "flex", "kmod", "libc6-dev", "libelf-dev", "xz-utils")
#: Runs in the build's root filesystem. An option that this Linux does not have is left out, and printed. The kernel is
#: linked statically, to run with another C library; its Kconfig refuses that with a network driver that can resolve
#: names, which no machine here asks of it.
_BUILD = """
mkdir -p /kernel/out && cd /kernel
tar --strip-components 1 -xf /usr/src/linux-source-*.tar.xz
export ARCH=um KBUILD_BUILD_TIMESTAMP=@1700000000
sed -i '/depends on .*MAY_HAVE_RUNTIME_DEPS/d' arch/um/Kconfig
make -s defconfig
scripts/kconfig/merge_config.sh -m .config /kernel.config
make -s olddefconfig
grep -x CONFIG_STATIC_LINK=y .config
make -s -j"$(nproc)" linux modules
make -s modules_install INSTALL_MOD_PATH=/kernel/out INSTALL_MOD_STRIP=1
cp linux out/
"""


def make_kernel(cache: Path, tell: Callable[[str], None]) -> Kernel:
    """Return the kernel from the cache, or build it. Raises KitError."""
    directory = cache / "users_machine"
    directory.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(f"{_PACKAGES} {_BUILD} {_CONFIG.read_text()}".encode()).hexdigest()[:12]
    target = directory / f"kernel-{key}"
    if not target.exists():
        tell("building the kernel of the users' machines (once, about 25 minutes of CPU time)")
        with scratch(directory) as new:
            hooks = (
                f'cp {shlex.quote(str(_CONFIG))} "$1/kernel.config"',
                f'chroot "$1" sh -ec {shlex.quote(_BUILD)}',
                f'tar -C "$1/kernel/out" -cf {shlex.quote(str(new / "kernel.tar"))} .',
            )
            recipe = Recipe("users-kernel", "a kernel", "unstable", _PACKAGES, customize=hooks)
            recipe.build(new / "root.tar", new / "layers", directory / "kernel.log")
            built = new / "kernel"
            built.mkdir()
            run(["tar", "-xf", new / "kernel.tar", "-C", built])
            publish(built, target)
    (modules,) = (target / "lib/modules").iterdir()
    return Kernel(target / "linux", modules)
