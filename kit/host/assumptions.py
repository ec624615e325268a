"""What the kit assumes of its machine: one table of checks, each with a name, a probe and a fix.

``kit doctor`` prints them all. A session refuses to start without those that it needs, and an arm is not run without
those of its kind. What has an owner of its own is checked there, when it is used: tools (``command.require``), parts of
the kernel (``kernel_part.require_part``), settings that make figures noisy (``setting``)."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kit.core.errors import KitError, MachineError
from kit.core.paths import Paths
from kit.host.cgroup.cgroup import UNIFIED, hierarchies, mode, none_counts
from kit.host.command import run
from kit.host.container import CGROUPS, DEVICES, DISK, PROCESSES, RIGHTS, granting
from kit.host.kernel_part import LOOP, is_ready, loaded_modules, why_not_loaded
from kit.host.mounts import mount_of
from kit.host.user_namespace import why_no_user_namespace
from kit.model.driver import KernelPart

#: What is impossible without it: any session, one of root's, a container, a container in a user namespace.
SESSION, AS_ROOT, CONTAINER, USER_NAMESPACE = "session", "session as root", "container", "rootless container"
_MIB, _GIB = 1 << 20, 1 << 30
#: Inode numbers of a machine's first namespaces (Linux, include/linux/proc_ns.h).
_FIRST = {"pid": 0xEFFFFFFC, "cgroup": 0xEFFFFFFB}
#: bpf(2): its number, the command BPF_PROG_LOAD, and the program type of the device controller of cgroup v2.
_BPF = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _CGROUP_DEVICE = 5, 15
_NAMESPACES = ("mnt", "pid", "ipc", "uts", "net", "cgroup")
#: A session has dozens of descriptors, a daemon more; a build has hundreds of processes.
_FEWEST_FILES, _FEWEST_PROCESSES = 256, 1024
_OUTSIDE = "run the kit outside of namespaces"
_SOCKETS = {
    "Docker": "/run/docker.sock",
    "containerd": "/run/containerd/containerd.sock",
    "Podman": "/run/podman/podman.sock",
}


@dataclass(frozen=True)
class Unmet:
    """Why an assumption does not hold, in words that name what is missing, and what to do."""

    reason: str
    fix: str


@dataclass(frozen=True)
class Assumption:
    """What the kit assumes of this machine."""

    name: str
    what: str  # is assumed, in a sentence
    # Returns what the machine has, in a few words, or why the assumption does not hold
    probe: Callable[[Paths], str | Unmet]
    needed_by: str = ""  # what is impossible without it; '': nothing, figures or comfort suffer
    kind: str = "machine"  # the heading under which doctor prints it


def _proc(paths: Paths) -> str | Unmet:
    """Without the whole of /proc nothing can be read; a user may be kept from the processes of others."""
    missing = [name for name in ("stat", "filesystems", "sys/kernel") if not Path("/proc", name).exists()]
    if missing:
        return Unmet(f"/proc has no {missing[0]}", "mount -t proc proc /proc, without subset=pid")
    options = mount_of(Path("/proc")).options.split(",")
    hidden = next((option for option in options if option.startswith("hidepid=")), "")
    if hidden in ("", "hidepid=0", "hidepid=off") or os.geteuid() == 0:
        return f"mounted {hidden}" if hidden else "mounted"
    reason = f"processes of other users are hidden ({hidden}): a session that holds the machine can't be named"
    return Unmet(reason, "run as root: sudo kit …, or sudo mount -o remount,hidepid=0 /proc")


def _control_groups(paths: Paths) -> str | Unmet:
    counting = [path for name, path in hierarchies().items() if name in (UNIFIED, "cpuacct")]
    if not counting:
        error = none_counts()
        return Unmet(error.message, error.hint)
    for path in counting:
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return Unmet(f"{path} is mounted read-only", granting(f"{RIGHTS} {CGROUPS}", f"mount -o remount,rw {path}"))
    return mode()


def _controllers(paths: Paths) -> str | Unmet:
    mounts = hierarchies()
    available = set(mounts)
    with suppress(OSError, KeyError):
        available |= set((mounts[UNIFIED] / "cgroup.controllers").read_text().split())
    missing = [name for name in ("cpu", "memory", "pids") if name not in available]
    if missing:
        options = "CONFIG_MEMCG, CONFIG_CGROUP_SCHED, CONFIG_CGROUP_PIDS"
        reason = f"the kernel has no controller {', '.join(missing)}: containers run without these limits"
        return Unmet(reason, f"boot without cgroup_disable, or a kernel with {options}")
    return ", ".join(sorted(available & {"cpu", "cpuset", "io", "blkio", "memory", "pids"}))


def _is_first(kind: str) -> bool:
    """Return whether a namespace is the machine's; a kernel without such namespaces has that one alone."""
    try:
        return Path("/proc/self/ns", kind).stat().st_ino == _FIRST[kind]
    except OSError:
        return True


def _processes(paths: Paths) -> str | Unmet:
    if _is_first("pid"):
        return "all of the machine's"
    reason = (
        "the machine's are hidden: no tracing, no waiting for sessions outside of this container, and not the "
        f"machine's id but the image's, or one that stays in {paths.state}"
    )
    return Unmet(reason, granting(PROCESSES, _OUTSIDE))


def _cgroup_namespace(paths: Paths) -> str | Unmet:
    if _is_first("cgroup"):
        return "all of the machine's"
    reason = "a part of the machine's alone: limits of arms, and figures of their memory, may be missing"
    return Unmet(reason, granting(CGROUPS, _OUTSIDE))


def _disk(paths: Paths) -> str | Unmet:
    kind = mount_of(paths.state).type
    if kind != "overlay":
        return kind
    reason = f"{paths.state} lies on overlay, which is then below every filesystem that is measured"
    return Unmet(reason, granting(DISK, "set KIT_HOME to a directory on a disk"))


def _space(directory: Callable[[Paths], Path], least: int, fix: str, paths: Paths) -> str | Unmet:
    """``directory``: that of what the kit writes; it need not exist yet. ``least``: bytes."""
    path = directory(paths)
    status = os.statvfs(_existing(path))
    free = status.f_bavail * status.f_frsize
    if free < least:
        return Unmet(f"{path} has {free / _MIB:.1f} MiB free, the kit needs {least / _MIB:.0f}", fix)
    if status.f_files and status.f_favail < 100:  # a filesystem that makes inodes as needed counts none
        return Unmet(f"{path} has {status.f_favail} inodes free, the kit needs 100", fix)
    return f"{path}: {free / _MIB:.0f} MiB free"


def _temporary(paths: Paths) -> Path:
    return Path(tempfile.gettempdir())


def _existing(path: Path) -> Path:
    """Return the directory in which a path lies, or will lie."""
    return next(place for place in (path, *path.parents) if os.path.lexists(place))


def _programs(paths: Paths) -> str | Unmet:
    """Root's session mounts its directories anew, without the options that hardened machines give them."""
    if not os.statvfs(_existing(paths.cache)).f_flag & os.ST_NOEXEC:
        return f"run in {paths.cache}"
    if os.geteuid() == 0:
        return f"{paths.cache} is noexec; a session mounts it again, for itself alone"
    reason = f"no program runs in {paths.cache}: it is mounted noexec"
    return Unmet(reason, "set KIT_HOME to a directory on another filesystem")


def _open_files(paths: Paths) -> str | Unmet:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FEWEST_FILES:
        return f"{soft} in each process"
    return Unmet(f"a process may open {soft} files, the kit needs {_FEWEST_FILES}", "ulimit -n 1024")


def _limits(paths: Paths) -> str | Unmet:
    """What ends a build, or a session, that takes more. Every arm's programs inherit it."""
    for name, option, what in (("FSIZE", "f", "size of a file"), ("CPU", "t", "CPU time"), ("AS", "v", "memory")):
        soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        if soft != resource.RLIM_INFINITY:
            return Unmet(f"the {what} of each process is limited to {soft}", f"ulimit -{option} unlimited")
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if os.geteuid() and processes != resource.RLIM_INFINITY and processes < _FEWEST_PROCESSES:  # root's are not counted
        return Unmet(f"a user may have {processes} processes, a build needs hundreds", f"ulimit -u {_FEWEST_PROCESSES}")
    return "none on size, time and memory of a process"


def _names(paths: Paths) -> str | Unmet:
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return encoding
    return Unmet(f"Python reads names of files as {encoding}", "export LC_ALL=C.UTF-8, or PYTHONUTF8=1")


def _clock(paths: Paths) -> str | Unmet:
    """Figures come from the monotonic clock: the time of day matters to signatures, certificates and lists."""
    written = Path(__file__).stat().st_mtime
    if time.time() < written - 86_400:
        now = time.strftime("%Y-%m-%d", time.gmtime())
        return Unmet(f"the clock says {now}, before the kit was installed", "set it: sudo timedatectl set-ntp true")
    asleep = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return f"the machine was suspended for {asleep:.0f} s since it started" if asleep >= 1 else "set"


def _cpus(paths: Paths) -> str | Unmet:
    usable, online = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    if usable < online:
        return Unmet(f"the kit may use {usable} of {online} CPUs", "see taskset -p $$, and the cpuset of its group")
    return f"all {online}"


def _swap(paths: Paths) -> str | Unmet:
    """/proc/swaps has a line for each area below its heading; a kernel without swap has no such file."""
    file = Path("/proc/swaps")
    areas = [line.split() for line in file.read_text().splitlines()[1:]] if file.exists() else []
    if not areas:
        return "none"
    used = sum(int(area[3]) for area in areas) / 1024
    names = ", ".join(area[0] for area in areas)
    reason = f"{names}, {used:.0f} MiB in use: a build that swaps measures that disk"
    return Unmet(reason, "sudo swapoff -a; afterwards sudo swapon -a")


def _modules(paths: Paths) -> str | Unmet:
    why, fix = why_not_loaded("NAME")
    if not fix:
        return "none: this kernel has no modules" if why else f"on demand; {len(loaded_modules())} are loaded"
    return Unmet(f"a module can't be loaded{why}", fix)


def _device(name: str, part: KernelPart, paths: Paths) -> str | Unmet:
    if Path("/dev", name).exists():
        return f"/dev/{name}"
    fix = "mount devtmpfs on /dev" if is_ready(part) else f"sudo modprobe {part.modules[0]}"
    return Unmet(f"/dev has no {name}", granting(f"{RIGHTS} {DEVICES}", fix))


def _namespaces(paths: Paths) -> str | Unmet:
    missing = [name for name in _NAMESPACES if not Path("/proc/self/ns", name).exists()]
    if missing:
        options = "boot a kernel with CONFIG_NAMESPACES and all of them"
        return Unmet(f"this kernel has no {' and no '.join(missing)} namespaces, so it runs no containers", options)
    return ", ".join(_NAMESPACES)


def _message_queues(paths: Paths) -> str | Unmet:
    if is_ready(KernelPart("", "mqueue", ())):
        return "mqueue"
    return Unmet("this kernel has no mqueue, so it runs no containers", "boot a kernel with CONFIG_POSIX_MQUEUE")


def _device_program(paths: Paths) -> str | Unmet:
    """Load the program "return 1" for v2's device controller (Documentation/bpf/prog_cgroup_sysctl.rst has its kin)."""
    number = _BPF.get(platform.machine())
    if mode() != "v2" or number is None or os.geteuid():
        return "not needed here"
    instructions = (ctypes.c_uint64 * 2)(0x00000001000000B7, 0x0000000000000095)  # r0 = 1; exit
    license_ = ctypes.create_string_buffer(b"GPL")
    attribute = (ctypes.c_uint64 * 16)()
    attribute[0] = _CGROUP_DEVICE | 2 << 32
    attribute[1] = ctypes.addressof(instructions)
    attribute[2] = ctypes.addressof(license_)
    libc = ctypes.CDLL(None, use_errno=True)
    program: int = libc.syscall(number, _PROG_LOAD, ctypes.byref(attribute), ctypes.sizeof(attribute))
    if program >= 0:
        os.close(program)
    elif ctypes.get_errno() in (errno.ENOSYS, errno.EINVAL):
        options = "boot a kernel with CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF"
        return Unmet("this kernel has no device programs (BPF), so it runs no containers on cgroup v2", options)
    return "BPF"


def _seccomp(paths: Paths) -> str | Unmet:
    if Path("/proc/sys/kernel/seccomp/actions_avail").exists():
        return "filters"
    reason = "this kernel has no seccomp filters: containers run without seccomp"
    return Unmet(reason, "boot a kernel with CONFIG_SECCOMP_FILTER; figures of others are not comparable")


def _user_namespaces(paths: Paths) -> str | Unmet:
    program = "unshare" if os.geteuid() == 0 else "podman"
    reason, fix = why_no_user_namespace(program, os.geteuid() == 0)
    if reason:
        return Unmet(reason, fix)
    try:
        run(["unshare", "--user", "true"])
    except KitError as error:
        return Unmet(f"no user namespace can be made: {error.message}", granting(RIGHTS, "see dmesg"))
    return "can be made"


def _security(paths: Paths) -> str | Unmet:
    active = _read("/sys/kernel/security/lsm") or "unknown: /sys/kernel/security is not mounted"
    if _read("/sys/fs/selinux/enforce") == "1":
        return "SELinux enforces: where an arm is refused, ausearch -m avc says what is forbidden"
    return active


def _init(paths: Paths) -> str | Unmet:
    if Path("/run/systemd/system").is_dir():  # sd_booted(3)
        return "systemd"
    return f"{_read('/proc/1/comm') or 'unknown'}: no timers to stop, and nights need another scheduler than systemd"


def _daemons(paths: Paths) -> str | Unmet:
    running, hidden = [], []
    for name, path in _SOCKETS.items():
        try:
            running += [f"{name} ({path})"] if Path(path).is_socket() else []
        except PermissionError:  # its directory is root's
            hidden.append(name)
    text = f"{', '.join(running)}; the kit's are beside them" if running else "none"
    return f"{text}; whether {' or '.join(hidden)} runs, only root sees" if hidden else text


def _read(path: str) -> str:
    """Return what a file of the kernel says; '' where there is none."""
    with suppress(OSError):
        return Path(path).read_text().strip()
    return ""


_HOME = "free space there, or set KIT_HOME to a directory on a larger disk"
_TMP = "set TMPDIR to a larger directory"
_RUN = "free space there: df -h and df -i show what is full"
_FUSE = KernelPart("FUSE", "fuse", ("fuse",), "misc")
ASSUMPTIONS = (
    Assumption("/proc", "All of it is mounted; processes of other users are visible.", _proc, SESSION),
    Assumption(
        "control groups", "A hierarchy that counts CPU is mounted and can be written to.", _control_groups, AS_ROOT
    ),
    Assumption("controllers", "The kernel limits CPU, memory and processes of containers.", _controllers),
    Assumption(
        "run directory", "It has room for sockets.", partial(_space, lambda paths: paths.run, _MIB, _RUN), SESSION
    ),
    Assumption("results", "There is room for them.", partial(_space, lambda paths: paths.data, _MIB, _HOME), SESSION),
    Assumption("journals", "There is room for them.", partial(_space, lambda paths: paths.state, _MIB, _HOME), SESSION),
    Assumption("cache", "It has room for images.", partial(_space, lambda paths: paths.cache, _GIB, _HOME)),
    Assumption("programs", "An ordinary user's cache is on no mount with noexec.", _programs, SESSION),
    Assumption("temporary files", "There is room for outputs.", partial(_space, _temporary, 64 * _MIB, _TMP)),
    Assumption("open files", "A process may open 256.", _open_files, SESSION),
    Assumption("limits", "No limit ends a build: size of files, CPU time, memory, processes.", _limits),
    Assumption("names of files", "Python reads them as UTF-8.", _names, SESSION),
    Assumption("clock", "It was set. Figures come from the monotonic clock, whatever it does.", _clock),
    Assumption("CPUs", "The kit may use all.", _cpus),
    Assumption("swap", "The machine has none.", _swap),
    Assumption("kernel modules", "They can be loaded, for the kernel that runs.", _modules),
    Assumption("loop devices", "/dev has their control device.", partial(_device, "loop-control", LOOP)),
    Assumption("FUSE", "/dev has its device.", partial(_device, "fuse", _FUSE)),
    Assumption("namespaces", "The kernel has all kinds.", _namespaces, CONTAINER),
    Assumption("message queues", "The kernel has POSIX message queues.", _message_queues, CONTAINER),
    Assumption(
        "device programs", "With cgroup v2 the kernel has BPF programs for devices.", _device_program, CONTAINER
    ),
    Assumption("seccomp", "The kernel filters system calls of containers.", _seccomp),
    Assumption("user namespaces", "Users may make them.", _user_namespaces, USER_NAMESPACE),
    Assumption("security modules", "None; doctor names those that are active.", _security),
    Assumption("init", "None; timers of nights, and those that doctor lists, use systemd.", _init),
    Assumption("running daemons", "None; doctor names those that run.", _daemons),
    Assumption("processes", "All of the machine's are visible.", _processes, kind="container"),
    Assumption("control groups", "All of the machine's are visible.", _cgroup_namespace, kind="container"),
    Assumption("disk", "Filesystems in files do not lie on overlay.", _disk, kind="container"),
)


def unmet(needed_by: str, paths: Paths) -> Iterator[tuple[Assumption, Unmet]]:
    """Return the assumptions that do not hold here, of those without which this is impossible."""
    for assumption in ASSUMPTIONS:
        if assumption.needed_by == needed_by and isinstance(answer := assumption.probe(paths), Unmet):
            yield assumption, answer


def check_machine(paths: Paths) -> None:
    """Check what every session needs, and one of root's. Raises MachineError."""
    for needed_by in (SESSION, AS_ROOT) if os.geteuid() == 0 else (SESSION,):
        for _, answer in unmet(needed_by, paths):
            raise MachineError(answer.reason, answer.fix)
