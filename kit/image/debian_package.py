"""The files of a Debian package of any suite: mmdebstrap fetches it, whatever distribution this machine has."""

from __future__ import annotations

from pathlib import Path

from kit.core.errors import RunError
from kit.host.command import CommandError
from kit.host.safe_fs import unpack
from kit.image.mmdebstrap import run_mmdebstrap
from kit.image.recipe import explain


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
