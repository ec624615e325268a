"""What sessions leave on the machine: nothing, once they have ended or were cleaned up after."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.beside import sessions_of_others

#: What daemons call what they put into directories for temporary files.
_DAEMONS_FILES = ("api_load*", "storage[0-9]*", "container_images*", "containerd-mount*", "docker-*", "libpod*", "oci*")


#: A control group of a test: its last number is the process of the test's worker.
_GROUP_OF_TEST = re.compile(r"/kit-test-[a-z0-9-]*?(\d+)$")


def group_of_test(label: str) -> str:
    """Return the name of a control group that no test of another worker uses, nor reports as left."""
    return f"kit-test-{label}-{os.getpid()}"


def _used_beside(path: Path) -> bool:
    """Return whether a test of another worker may use the control group now; that worker looks for it, too."""
    named = _GROUP_OF_TEST.search(str(path))
    return named is not None and int(named[1]) != os.getpid() and Path("/proc", named[1]).exists()


def daemons_files() -> set[str]:
    directories = [Path(name) for name in ("/tmp", "/var/tmp")]
    return {str(path) for place in directories for name in _DAEMONS_FILES for path in place.glob(name)}


def left_on_machine() -> list[str]:
    """Return what the tests left on this machine: not what was there before, nor what belongs to sessions of others."""
    others = sessions_of_others()
    found = _of_any_session()
    others |= sessions_of_others()
    return [item for item in found if item not in _THERE_BEFORE and not any(name in item for name in others)]


def _of_any_session() -> list[str]:
    groups = [path for pattern in ("*/kit-*", "kit-*") for path in Path("/sys/fs/cgroup").glob(pattern)]
    found = [str(path) for path in groups if not _used_beside(path)]
    found += map(str, Path("/run").glob("kit*/*"))  # kit, and kit-LABEL of workers that share a machine
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        text = _read(path)
        if "/state/loops/" in text:
            found.append(f"{path.parts[3]}: {text.strip()}")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " /run/kit/" in line:
            found.append(line)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        command = _read(path).replace("\0", " ")
        # Unit tests beside it have probes of their own; in an arm none is called by a path of theirs.
        if "/run/kit/" in command or ("kit-probe serve" in command and "/pytest-of-" not in command):
            # Its session, also where it is in a container of a Docker that is not the kit's.
            places = _read(path.with_name("cgroup")) + _read(path.with_name("mountinfo"))
            found.append(f"process {path.parts[2]}: {command} of {sorted(set(re.findall('/kit[-/]([^/ ]+)', places)))}")
    return found + sorted(daemons_files())


def _read(path: Path) -> str:
    """'' where it is gone."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


#: A session of somebody that was killed leaves cgroups and loop devices, which are no fault of the tests.
_THERE_BEFORE = frozenset(_of_any_session())
