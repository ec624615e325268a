"""``kit kernel``: build, list, rm."""

from __future__ import annotations

import time
from dataclasses import asdict

import click

from kit.cli.options import json_option, wait_option, write_json

_EPILOG = """\b
Examples:
  kit kernel build aufs
  kit kernel list
  kit kernel rm aufs
  kit compare smoke --guest --arms bare,layer:devicemapper
  kit compare smoke --kernel ~/linux/arch/x86/boot/bzImage --arms bare,layer:overlay2

--kernel takes a kernel of yours, a bzImage or a User-Mode Linux: with BLK_DEV_LOOP, CGROUPS, NAMESPACES,
BPF_SYSCALL, CGROUP_BPF, POSIX_MQUEUE, the drivers and the filesystems built in, or as --modules. The guest
says what its kernel lacks before the session begins."""


@click.group(epilog=_EPILOG)
def kernel() -> None:
    """Build, list and remove guest kernels.

    Guest kernels have drivers that this machine's kernel lacks. Sessions in a
    guest use them."""


@kernel.command(
    epilog="\b\nExamples:\n  kit kernel build aufs\n  kit kernel build aufs --for qemu"
    "\n  kit kernel build aufs --source ./aufs-standalone-aufs6.1.tar.zst"
)
@click.argument("name")
@click.option("--for", "machine", default="uml", show_default=True, metavar="uml|qemu", help="Guest that boots it.")
@click.option(
    "--source",
    default="",
    metavar="DIR|TARBALL|git:URL#BRANCH",
    help="Source of its patches.  [the recipe's]",
)
@click.option("--force", is_flag=True, help="Rebuild, even if the cache has the kernel.")
@wait_option
def build(name: str, machine: str, source: str, force: bool, wait: bool) -> None:
    """Build a guest kernel.

    Unless the cache has it, this takes 13 minutes of CPU time or more."""
    from kit.core.paths import find_paths
    from kit.core.quantity import shown_duration
    from kit.extra.guest.recipe import read_kernel_recipe
    from kit.extra.guest.session_kernel import build_kernel
    from kit.host.interrupt import interruptible
    from kit.report.format.units import moment
    from kit.report.text.progress import make_observer
    from kit.session.execute.session_loop import held_machine

    read_kernel_recipe(name).machine(machine)  # before anything is held
    paths = find_paths()
    observer = make_observer(False)
    began = time.time()
    try:
        with held_machine("kernel-build", paths, wait, observer), interruptible():
            built = build_kernel(name, machine, source, paths.cache, observer.tell, force)
    finally:
        observer.close()
    since = f"cached since {moment(built.created)} UTC; --force rebuilds it"
    how = f"built in {shown_duration(built.seconds)}" if built.created >= began else since
    click.echo(f"{built.release} for {built.machine}, {built.size / 2**20:.0f} MiB, {how}")
    click.echo(f"kit compare … --guest {built.machine} takes it for arms on {name}; or --kernel {built.path}")


@kernel.command("list", epilog="\b\nExamples:\n  kit kernel list\n  kit kernel list --json")
@json_option
def list_(json_file: str) -> None:
    """List built kernels, newest first, and recipes."""
    from tabulate import tabulate

    from kit.core.paths import find_paths
    from kit.extra.guest.kernel_cache import KernelCache
    from kit.extra.guest.recipe import kernel_recipes, read_kernel_recipe
    from kit.model.drivers import in_guest_kernel
    from kit.report.format.units import moment

    kernels = KernelCache(find_paths().cache).list()
    if json_file:
        write_json(json_file, {"schema": 1, "kernels": [asdict(kernel) for kernel in kernels]})
    if json_file == "-":
        return
    rows = [
        [kernel.recipe, kernel.machine, ", ".join(in_guest_kernel(kernel.recipe)), kernel.release,
         f"{kernel.size / 2**20:.0f} MiB", moment(kernel.created)]
        for kernel in kernels
    ]  # fmt: skip
    built = {(kernel.recipe, kernel.machine) for kernel in kernels}
    for name in kernel_recipes():
        for machine, about in read_kernel_recipe(name).machines.items():
            if (name, machine) not in built:
                drivers = ", ".join(in_guest_kernel(name))
                rows.append([name, machine, drivers, "not built", "", f"about {about.minutes} min of CPU time"])
    click.echo(tabulate(rows, ["kernel", "for", "drivers", "release", "size", "created (UTC)"]))
    for name in kernel_recipes():
        click.echo(f"\n{name}: {read_kernel_recipe(name).summary}")


@kernel.command(epilog="\b\nExamples:\n  kit kernel rm aufs")
@click.argument("names", nargs=-1, required=True)
def rm(names: tuple[str, ...]) -> None:
    """Remove built kernels by the name of their recipe."""
    from kit.core.paths import find_paths
    from kit.extra.guest.kernel_cache import KernelCache

    cache = KernelCache(find_paths().cache)
    for name in names:
        for gone in cache.remove(name):
            click.echo(f"removed {gone.release} for {gone.machine}")
