"""QEMU: an ordinary kernel, on KVM if that is usable, else emulated. Whether it is usable is tried once a boot."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kit.core.errors import UsageError
from kit.core.sanitize import visible
from kit.extra.guest.kernel import cpio, early_modules
from kit.extra.guest.machine import COPY, READ, Boot, Disk, Kernel, Tools, kernel_words
from kit.host.command import ended, run_bytes, spawn, stop
from kit.host.durable import read_record, sync_filesystem, write_file, write_record
from kit.host.safe_fs import open_file, remove, unpack
from kit.model.fact import ACCELERATOR, GUEST, Fact

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Trial:
    """The answer of a test."""

    reason: str = ""  # why the test failed, '' if it succeeded
    dear: bool = True  # the test took too long to be repeated


@dataclass(frozen=True)
class _Kept:
    where: str
    answer: Trial


def circumstances(device: Path, *digests: str) -> str:
    """Return the circumstances of the answer: the host's boot, the device's state, and the test's inputs. A device has
    another change time after chmod, and is a new one after its modules were reloaded. Raises OSError."""
    info = device.stat()
    return " ".join([_BOOT.read_text().strip(), f"{info.st_dev}:{info.st_ino}:{info.st_ctime_ns}", *digests])


def answer(record_file: Path, where: str, attempt: Callable[[], Trial]) -> Trial:
    """Return the cached answer for these circumstances, else a new one. A quick failure is not cached: its fix may
    leave no trace, for example the end of another hypervisor that used the CPU's extensions."""
    cached = read_record(_Kept, record_file)
    if cached and cached.where == where:
        return cached.answer
    trial = attempt()
    if not trial.reason or trial.dear:
        write_record(record_file, _Kept(where, trial))
    return trial


_KVM = Path("/dev/kvm")
#: Seconds within which a kernel on KVM must reach its first program. A working KVM takes one.
_TRIAL = 30
_BOOTED = "kit: booted"
#: The first program of the initial RAM disk. kit.trial: report the start, and end.
_INIT = f"""#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
for module in /modules/*; do $b insmod "$module"; done
if $b grep -q kit.trial /proc/cmdline; then echo "{_BOOTED}"; $b poweroff -f; fi
until [ -b /dev/vda ]; do $b sleep 0.1; done
$b mount -t ext4 /dev/vda /new
$b umount /proc
exec $b switch_root /new /kit-init
"""


class Qemu:
    kind = "qemu"
    channel = "/dev/ttyS1"

    def __init__(self, tools: Tools, kernel: Kernel) -> None:
        self._tools = tools
        self._kernel = kernel

    @property
    def patience(self) -> float:
        return 60.0 if self.accelerated() else 600.0

    def check(self) -> None:
        self._tools.root("qemu")

    def warning(self) -> str:
        return ""

    def cores(self, host: int) -> int:
        return host

    def command(self, boot: Boot) -> list[str]:
        kernel, initial = self._boot_files()
        words = [
            *("env", f"TMPDIR={boot.directory}"),
            *self._machine("kvm" if self.accelerated() else "tcg"),
            *("-m", f"{boot.memory >> 20}M", "-smp", str(boot.cores)),
            *("-serial", "file:/proc/self/fd/1", "-serial", f"file:/proc/self/fd/{boot.channel}"),
            *("-kernel", str(kernel), *(("-initrd", str(initial)) if initial else ())),
            *("-append", " ".join(["console=ttyS0", *kernel_words("/dev/vda", self.channel)])),
            *(word for disk in boot.disks for word in _disk(disk)),
        ]
        shared = {boot.directory, kernel.parent, *(disk.path.parent for disk in boot.disks)}
        return self._tools.root("qemu").enter(words, sorted(shared))

    def modules(self) -> Path | None:
        return self._kernel.modules

    def facts(self) -> list[Fact]:
        version = self._tools.root("qemu").version("qemu-system-x86_64")
        accelerator = (
            "KVM" if self.accelerated() else "none; every instruction is emulated: figures are NOT those of hardware"
        )
        return [GUEST.fact(version), ACCELERATOR.fact(accelerator)]

    def accelerated(self) -> bool:
        return not self.why_emulated()

    def why_emulated(self) -> str:
        """Return '' if KVM runs an ordinary kernel. Only a test boot shows that: a device that opens may still hang
        it."""
        return self._kvm.reason if _KVM.exists() else f"there is no {_KVM}"

    @cached_property
    def _kvm(self) -> Trial:
        digests = (self._tools.image(name).digest for name in ("qemu", "guest"))
        return answer(self._tools.directory / "kvm.json", circumstances(_KVM, *digests), self._trial)

    def _trial(self) -> Trial:
        self._tools.tell(f"trying whether KVM is usable here, {_TRIAL} s at most")
        kernel, initial = Qemu(self._tools, Kernel())._boot_files()
        words = [
            *self._machine("kvm"),
            *("-m", "256M", "-smp", "1", "-serial", "file:/proc/self/fd/1", "-kernel", str(kernel)),
            *("-initrd", str(initial), "-append", "console=ttyS0 panic=-1 kit.trial"),
        ]
        log = self._tools.directory / "kvm-trial.log"
        with log.open("wb") as output:
            process = spawn(self._tools.root("qemu").enter(words, [kernel.parent]), output=output)
            try:
                hangs = not ended(process, _TRIAL)
            finally:
                stop(process, patience=1)
        console = log.read_text(errors="replace").strip()
        if _BOOTED in console:
            return Trial()
        why = f"no program ran after {_TRIAL} s" if hangs else visible((console.splitlines() or ["QEMU ended"])[-1])
        self._tools.tell(f"KVM is not usable here: {why} ({log})")
        return Trial(why, dear=hangs)

    def _machine(self, accelerator: str) -> list[str]:
        cpu = "host" if accelerator == "kvm" else "max"
        return [
            *("qemu-system-x86_64", "-machine", f"q35,accel={accelerator}", "-cpu", cpu),
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        ]

    def _boot_files(self) -> tuple[Path, Path | None]:
        """Return the kernel, and the initial RAM disk if it has modules."""
        if self._kernel.path is None:
            return self._own_files()
        if self._kernel.modules is None:
            return self._kernel.path.resolve(), None
        if not (self._kernel.modules / "modules.dep").is_file():
            raise UsageError(
                f"{self._kernel.modules} has no modules.dep", "name the directory /lib/modules/VERSION of that kernel"
            )
        directory = self._tools.directory / "given"
        directory.mkdir(exist_ok=True)
        shutil.copy(self._kernel.path, directory / "vmlinuz")
        self._write_initial(directory / "initrd", self._kernel.modules)
        return directory / "vmlinuz", directory / "initrd"

    def _own_files(self) -> tuple[Path, Path]:
        image = self._tools.image("guest")
        directory = self._tools.directory / f"kernel-{image.digest[:12]}"
        if not (directory / "initrd").exists():
            directory.mkdir(exist_ok=True)
            scratch = directory / "unpacked"
            remove(scratch)  # left by a killed start
            scratch.mkdir()
            patterns = ["./boot/vmlinuz-*", "./usr/lib/modules/*/modules.dep", "./usr/lib/modules/*/kernel/*"]
            unpack(image.rootfs, scratch, what="unpacking the guest's kernel", options=("--wildcards", *patterns))
            name = next(scratch.glob("boot/vmlinuz-*")).name
            with open_file(scratch, f"boot/{name}") as kernel:
                write_file(directory / "vmlinuz", kernel.read())
            self._write_initial(directory / "initrd", next(scratch.glob("usr/lib/modules/*")))
            remove(scratch)
        return directory / "vmlinuz", directory / "initrd"

    def _write_initial(self, target: Path, modules: Path) -> None:
        rootfs = self._tools.image("guest").rootfs
        busybox = run_bytes(
            ["tar", "-xOf", rootfs, "./usr/bin/busybox"], what="looking for busybox in the guest's image"
        )
        sync_filesystem(target.parent)  # if it exists, the kernel beside it exists too
        write_file(target, cpio(_initial(busybox, early_modules(modules))))


def _initial(busybox: bytes, modules: list[tuple[str, bytes]]) -> Iterator[tuple[str, int, bytes]]:
    for name in ("bin", "proc", "dev", "new", "modules"):
        yield name, 0o040755, b""
    yield "init", 0o100755, _INIT.encode()
    yield "bin/busybox", 0o100755, busybox
    for number, (name, content) in enumerate(modules):
        yield f"modules/{number:02d}-{name}.ko", 0o100644, content


def _disk(disk: Disk) -> tuple[str, str]:
    # Cached disks are never written, so several guests may use them together.
    more = {COPY: ",snapshot=on,file.locking=off", READ: ",readonly=on,file.locking=off"}.get(disk.mode, "")
    return "-drive", f"file={disk.path},if=virtio,format=raw,cache=writeback{more}"
