"""The program mmdebstrap, which also fetches a Debian package of any suite, whatever distribution this machine has. An
ordinary user's unpacks as users that are mapped for it (mmdebstrap(1), unshare mode)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kit.core.errors import MachineError, RunError
from kit.host.command import CommandError, require, run
from kit.host.safe_fs import unpack
from kit.host.user_namespace import why_no_mapped_users

PROGRAM = "mmdebstrap"
#: What it says if it is neither root, nor can map users, nor has fakechroot, which pretends to be root.
_NO_MODE = "unable to pick chroot mode"
_DISK = "/var/tmp"
#: mmdebstrap's own last lines, which follow the reason.
_ENDING = ("E: setup failed", "E: mmdebstrap failed", "E: apt-get ", "E: apt download failed")
#: Lines of a reason: one missing package has one.
_SHOWN = 5


def run_mmdebstrap(
    words: Sequence[str | Path],
    scratch: Path,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    what: str = "",
) -> None:
    """Run mmdebstrap with these words; what it needs meanwhile, it makes in ``scratch`` as root. ``what``, ``timeout``:
    as for ``run``. Raises MachineError if it is missing or cannot work for this user, else CommandError."""
    require(PROGRAM)
    place = scratch if os.geteuid() == 0 else _passable_place()
    try:
        run([*together(), PROGRAM, *words], env={**(env or {}), "TMPDIR": str(place)}, timeout=timeout, what=what)
    except CommandError as error:
        reason, fix = why_no_mapped_users(PROGRAM) if _NO_MODE in error.said else ("", "")
        if not reason:
            raise
        raise MachineError(f"mmdebstrap can't work without root: {reason}", fix) from None


def explain(output: str) -> str:
    """Return why mmdebstrap failed, from its output: the errors of apt and dpkg, else the last lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("I: ", *_ENDING))] or lines
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    return "; ".join(dict.fromkeys(errors[:_SHOWN] or lines[-_SHOWN:]))


def together() -> list[str]:
    """Return the beginning of a command line whose processes and mounts all end with the kit, if this is root.

    mmdebstrap mounts /proc, /sys and devices below its scratch directory. A killed one can't unmount them, and a
    removal of its directory would remove their content too. In a namespace of its own the mounts end with it. If the
    kit is killed, all its children are killed too: otherwise they would disturb the next session for minutes."""
    if os.geteuid() != 0:
        return []
    words = (
        "setpriv --pdeathsig KILL -- unshare --pid --fork --kill-child --mount-proc --mount --propagation private --"
    )
    return words.split()


def _passable_place() -> Path:
    """Return a directory for temporary files that mapped users can enter and whose programs run: the user's cache is
    closed to them, and so is a home of mode 700. Raises MachineError."""
    places = [Path(name) for name in (os.environ.get("TMPDIR"), _DISK, tempfile.gettempdir()) if name]
    for place in places:
        if all(map(_open_to_all, _way(place))) and not os.statvfs(place).f_flag & os.ST_NOEXEC:
            return place
    raise MachineError(
        f"without root mmdebstrap needs a directory that all may enter, and programs run neither in {places[0]} "
        f"nor in {places[-1]}",
        "set TMPDIR to such a directory",
    )


def _way(place: Path) -> Iterator[Path]:
    absolute = place.absolute()
    yield from (absolute, *absolute.parents)


def _open_to_all(directory: Path) -> bool:
    return directory.is_dir() and bool(directory.stat().st_mode & 0o001)


def extract_sources(package: str, suite: str, directory: Path, timeout: float | None = None) -> None:
    """Write ``/usr/src`` of a package into a new directory; nothing is installed. ``timeout``: in seconds. Raises
    MachineError if mmdebstrap is missing or cannot work for this user, RunError if the package can't be had."""
    archive = directory.with_name(f"{directory.name}.tar")
    words = ["--variant=extract", "--format=tar", f"--include={package}", suite]
    try:
        run_mmdebstrap([*words, archive], directory.parent, timeout=timeout, what=f"download of {package}")
    except CommandError as error:
        raise RunError(
            f"package {package} of {suite} can't be fetched: {explain(error.said) or error.message}",
            "check the network and apt's sources, or give a tarball or directory as source",
        ) from None
    directory.mkdir()
    unpack(archive, directory, what=f"package {package}", options=("./usr/src",))
    archive.unlink()
