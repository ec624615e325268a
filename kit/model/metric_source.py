"""Where each figure of a phase or a run comes from, and what it does not say. kit.model.metric has their table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Of figures that are read in one way."""

    names: tuple[str, ...]  # of metrics, or of a run's fields
    source: str  # '' for the sum of others
    pitfalls: str = ""  # when it is null, and what it does not say


SOURCES = (
    Source(("real",), "CLOCK_MONOTONIC around fork … wait4 of the command, in the arm"),
    Source(
        ("user", "sys"),
        "rusage from wait4: what `time` prints",
        "misses processes that left the tree (bitbake's server, Gradle's daemon). The table shows the control "
        "group's instead, marked `*`, if they differ by more than 2 % and 20 ms in any arm",
    ),
    Source(
        ("cgroup_user", "cgroup_sys"),
        "the arm's control group: v2 `cpu.stat`, v1 `cpuacct`",
        "the split between the two is by ticks, their sum is exact",
    ),
    Source(("cpu",), "", "without a control group the process tree's"),
    Source(
        ("outside",),
        "CPU of the whole machine less the control group's, less the kit's own, a background load's and a "
        "registry's, less the idle rate × time",
        "other programs on the machine count; the answer names the rounds in which they used much. Exact with "
        "v1's root `cpuacct.usage`, else from /proc/stat in ticks of 10 ms. Can be a little below zero",
    ),
    Source(("cpu_total",), "", "what the machine paid in CPU"),
    Source(
        ("flush",),
        "time of syncfs of the backing filesystem after the phase. Before it of the arm's own, if its root is a"
        " filesystem above that one (devicemapper, devmapper, blockfile)",
        "a sync through fuse-overlayfs returns immediately with the data still dirty; a sync of the backing "
        "filesystem leaves dirty data of a filesystem in its files",
    ),
    Source(
        ("durable",), "", "until the data are on the device; the flush waits for everything dirty on that filesystem"
    ),
    Source(("flush_bytes",), "written to the device in that sync"),
    Source(("flush_cpu",), "outside CPU in that sync"),
    Source(
        ("space", "inodes"),
        "statvfs of the backing filesystem: how much more is in use after the phase and its flush than before; "
        "of the whole run, after the phase with the most in use",
        "what other programs write there counts. Before each reading XFS frees what was removed (for root "
        "alone); on filesystems of its own the kit has it give back what it preallocated, in `dir` that counts."
        " Changes while an interleaved arm is frozen count. `inodes` is null on btrfs, which counts none",
    ),
    Source(
        ("dirtied_bytes",),
        "rusage (`ru_oublock`): what the process tree dirtied in the page cache or wrote directly",
        "data removed before they are written back are in it. Null with daemons (FUSE drivers, build arms): "
        "nobody counts what they write. Null where the kernel counts whole folios of up to 2 MiB, as on XFS, "
        "and on ext4 since Linux 6.16: 64 bytes written into 64 pages counted as 59.9 MB. A fact of the session"
        " says so; compare `written` there",
    ),
    Source(
        ("read_bytes", "write_bytes", "read_ops", "write_ops"),
        "/sys/dev/block/…/stat of the backing device during the phase",
        "null if it has none (tmpfs); other users of the device count",
    ),
    Source(("written",), "", "what reached the device"),
    Source(
        ("amplification",),
        "",
        "null without `dirtied_bytes`, or where the build wrote nothing. btrfs counts much metadata as the "
        "program's writes, ext4 none of its journal: between filesystems compare `written`",
    ),
    Source(("minor_faults", "major_faults", "involuntary_switches"), "rusage of the process tree"),
    Source(
        ("voluntary_switches",),
        "rusage of the process tree",
        "null in interleaved runs: each freeze and thaw adds two to a process that sleeps (none under cgroup "
        "v1), and one to a process that runs",
    ),
    Source(("max_rss",), "rusage: the largest single process", "not a sum"),
    Source(
        ("arm_memory",),
        "the greatest memory of the arm's control group during the phase: v2 `memory.peak`, v1 "
        "`memory.max_usage_in_bytes`, reset at its start",
        "page cache that the arm's programs filled first counts, also what the kernel could free, and what "
        "earlier phases and untimed steps left there: a large peak does not mean that the build needs as much. "
        "Null for `bare`, `host`, unions, `+cgroup=none` and rootless arms, unless the memory controller is on "
        "in their group: accounting costs time, so the kit enables it nowhere. Before Linux 6.12, v2 can't "
        "reset a peak, and a phase after a higher one has none; before 5.19 v2 has no peak",
    ),
    Source(
        ("daemon_memory",),
        "VmHWM of the daemons that serve the arm's filesystem or build in it, reset at the phase's start "
        "(`clear_refs`), their sum",
        "null for arms without such daemons, so for dockerd and containerd unless they build; page cache of "
        "their files is not in it",
    ),
    Source(
        ("peak_memory",),
        "",
        "the peaks may be of different moments: their sum is an upper bound. The answer compares those of "
        "containers with each other, also where those of `bare` are null",
    ),
    Source(("psi_cpu", "psi_io", "psi_memory"), "/proc/pressure: seconds in which some task waited, whole machine"),
    Source(
        ("psi_cpu_own", "psi_io_own", "psi_memory_own"),
        "the same of all that the session started: its control group's `*.pressure`",
        "null without a cgroup v2 hierarchy",
    ),
    Source(("steal",), "/proc/stat", "ticks of 10 ms"),
    Source(
        ("swapped",),
        "/proc/vmstat: read from swap space and written to it, whole machine",
        "a note names the rounds with more than 1 MiB",
    ),
    Source(
        ("throttled",),
        "`thermal_throttle/core_throttle_count` of all CPUs: cores slowed down for their temperature",
        "null where CPU or virtual machine do not say; a note names the rounds",
    ),
    Source(("slices",), "time slices of a phase, in interleaved rounds", "null in sequential rounds"),
    Source(
        ("frozen_write_bytes",),
        "the arm's data written while it was frozen, in interleaved rounds",
        "the same device of the machine's carries both",
    ),
    Source(
        ("others_write_bytes",),
        "data written to the other arms' filesystems in the arm's slices",
        "the same device of the machine's carries both",
    ),
    Source(
        ("energy",),
        "/sys/class/powercap: the processors of the whole machine during the phase (RAPL, domains package-N)",
        "memory, disks and fans are not in it; other programs and the idle machine are. Null without a counter,"
        " as in virtual machines and guests, and for all but root. Tested in a directory in sysfs's layout, not"
        " seen on real hardware",
    ),
)
#: Seconds of a run, which are fields of Sample and no metrics.
RUN_SOURCES = (
    Source(
        ("calibration_before", "calibration_after"),
        "the fastest of three counts of a fixed chain of multiplications on the host, outside all arms",
        "follows the clock speed and nothing else",
    ),
    Source(
        ("memory_before", "memory_after"),
        "fresh pages and loads that wait for each other, 32 MiB, on the host",
        "follows what neighbours do to caches and memory; physical placement adds noise of its own",
    ),
    Source(("engine_seconds",), "placing and releasing", "includes unpacking the sources; never inside `real`"),
)
