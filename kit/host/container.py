"""What a container withholds from a kit that runs in it, and the options of ``docker run`` that grant it.

docs/how-to/run-in-a-container.md explains each option; examples/kubernetes has the same for Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.host.mounts import mount_of

RIGHTS = "--privileged"
CGROUPS = "--cgroupns=host --volume /sys/fs/cgroup:/sys/fs/cgroup"
DEVICES = "--volume /dev:/dev"
PROCESSES = "--pid=host"
DISK = "--volume kit:/var/lib/kit"
#: Inode numbers of a machine's first namespaces (Linux, include/linux/proc_ns.h).
_FIRST = {"pid": 0xEFFFFFFC, "cgroup": 0xEFFFFFFB}


@dataclass(frozen=True)
class Withheld:
    """One thing that the kit measures better, or more safely, with. ``fix``: what to do."""

    name: str
    reason: str
    fix: str


def granting(options: str, otherwise: str) -> str:
    """Return the fix for something that is missing: ``otherwise``, or these options for a container."""
    return f"{otherwise}; in a container: docker run {options} …"


def withheld(state: Path, namespaces: Path = Path("/proc/self/ns")) -> Iterator[Withheld]:
    """Return what is withheld and does not end a session. ``state``: the directory of the files behind loop devices.
    ``namespaces``: those of this process."""
    outside = "run the kit outside of namespaces"
    if not _is_first(namespaces, "pid"):
        reason = (
            "the machine's are hidden: no tracing, no waiting for sessions outside of this container, and not the "
            f"machine's id but the image's, or one that stays in {state}"
        )
        yield Withheld("processes", reason, granting(PROCESSES, outside))
    if not _is_first(namespaces, "cgroup"):
        reason = "a part of the machine's alone: limits of arms, and figures of their memory, may be missing"
        yield Withheld("control groups", reason, granting(CGROUPS, outside))
    if mount_of(state).type == "overlay":
        reason = f"{state} lies on overlay, which is then below every filesystem that is measured"
        yield Withheld("disk", reason, granting(DISK, "set KIT_HOME to a directory on a disk"))


def _is_first(namespaces: Path, kind: str) -> bool:
    """Return whether a namespace is the machine's; a kernel without such namespaces has that one alone."""
    try:
        return (namespaces / kind).stat().st_ino == _FIRST[kind]
    except FileNotFoundError:
        return True
