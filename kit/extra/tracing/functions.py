"""Functions of the kernel in which storage drivers spend time; tests show which of them can be probed here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kit.core.errors import KitError
from kit.extra.tracing.bpftrace import Maps, attached, program, with_tracefs
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import require
from kit.model.sample import FUNCTION, LOST, NOT_RECORDED, Call
from kit.session.measure.tracer import Level, existing

#: Entries of drivers, by the names of kernels since 5.10; /proc/kallsyms lists those of a kernel. Functions called for
#: each page, block or name are left out: the probes would cost more than the functions, in the arm alone.
FUNCTIONS = (
    "ovl_copy_up_one", "ovl_copy_up_data", "ovl_copy_up_file", "ovl_copy_up_metadata", "ovl_iterate",
    "ovl_create_object", "ovl_do_remove", "ovl_rename", "ovl_fsync", "fuse_simple_request", "__fuse_simple_request",
    "btrfs_create", "btrfs_unlink", "btrfs_sync_file", "btrfs_commit_transaction",
)  # fmt: skip
_KALLSYMS = Path("/proc/kallsyms")
_NS = 1e9
_FIX = "use a kernel with CONFIG_KPROBE_EVENTS; --profile needs none"
#: Attached to no process.
_TRIAL = 'interval:ms:100 {{ printf("attached\\n"); }}\n{probes} /pid == 0/ {{ @tried = count(); }}'


def find_functions(scratch: Path, session: Cgroup) -> tuple[tuple[str, ...], Level]:
    """Return the functions that can be probed here: all are probed once. ``scratch`` and ``session`` as in Traced."""
    try:
        require("bpftrace")
        if not (with_tracefs() / "kprobe_events").exists():
            return (), Level("functions", False, "this kernel has no kprobes", _FIX)
        names = known(_KALLSYMS.read_text(encoding="utf-8", errors="replace").splitlines())
        if not names:
            return (), Level("functions", False, "no storage driver's functions are in /proc/kallsyms", _FIX)
        probes = ",".join(f"{kind}:{name}" for name in names for kind in ("kprobe", "kretprobe"))
        with attached(_TRIAL.format(probes=probes), scratch, existing(session)):
            pass
        return names, Level("functions", True, f"{len(names)} of storage drivers by kprobes")
    except KitError as error:
        return (), Level("functions", False, error.message, error.hint)


def known(symbols: Sequence[str]) -> tuple[str, ...]:
    """Return which of FUNCTIONS are among lines of /proc/kallsyms, in their order."""
    words = (line.split() for line in symbols)
    there = {word[2] for word in words if len(word) >= 3 and word[1] in "tT"}
    return tuple(name for name in FUNCTIONS if name in there)


def function_probes(names: Sequence[str]) -> str:
    """Return the program for these functions, which follows the calls' program: that one has the arm's groups."""
    numbered = ((str(FUNCTIONS.index(name)), name) for name in names)
    return "\n".join(program(["functions"], {"FUNCTION": name, "NUMBER": number}) for number, name in numbered)


def function_rows(maps: Maps) -> Iterator[Call]:
    """Yield the functions' rows, and the number of entries without a recorded end: the kernel can track few calls at
    once."""
    ended = 0
    for (number,), spread in maps.histogram("function_spread").items():
        ended += sum(many for _, many in spread)
        seconds = maps.of("function_took").get((number,), 0) / _NS
        name = FUNCTIONS[number] if 0 <= number < len(FUNCTIONS) else f"function {number}"
        yield Call(name, sum(many for _, many in spread), seconds, histogram=spread, kind=FUNCTION)
    if missed := max(0, maps.number("function_entered") - ended):
        yield Call(f"functions, {NOT_RECORDED}", missed, kind=LOST)
