"""Parts of a kernel that are modules. This machine's may have none: below a directory lies what /proc and /lib say, and
modprobe is a script that loads there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.errors import MachineError
from kit.host import kernel_part
from kit.host.kernel_part import filesystem_part, is_ready, loaded_modules, require_part, why_not_loaded

SHINYFS = filesystem_part("shinyfs")
#: $1: what ``modprobe -a`` does, $2: what ``modprobe -D`` does.
MODPROBE = """#!/bin/sh
echo "$@" >>{root}/asked
case "$1" in -D) {shows} ;; -a) {loads} ;; esac
"""
LOADS = "echo 'nodev shinyfs' >>{root}/proc/filesystems; echo 'shinyfs 1 0 - Live 0x0' >>{root}/proc/modules"
FORBIDDEN = "echo \"modprobe: ERROR: Error running install command '/bin/false' for module shinyfs\" >&2; exit 1"
MISSING = 'echo "modprobe: FATAL: Module shinyfs not found" >&2; exit 1'
Machine = Callable[..., Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Make the root of a machine, with a modprobe that finds or loads the module, or does not."""

    def make(shows: str = "true", loads: str = LOADS, release: str = os.uname().release) -> Path:
        (tmp_path / "proc/sys/kernel").mkdir(parents=True)
        (tmp_path / "proc/filesystems").write_text("nodev\tsysfs\n\text4\n")
        (tmp_path / "proc/modules").write_text("ext4 1 0 - Live 0x0\n")
        if release:
            (tmp_path / "lib/modules" / release).mkdir(parents=True)
        modprobe = tmp_path / "modprobe"
        modprobe.write_text(MODPROBE.format(root=tmp_path, shows=shows, loads=loads.format(root=tmp_path)))
        modprobe.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        return tmp_path

    return make


def asked(root: Path) -> list[str]:
    return (root / "asked").read_text().splitlines() if (root / "asked").exists() else []


def refusal(root: Path, fix: str = "") -> tuple[str, str]:
    with pytest.raises(MachineError) as caught:
        require_part(SHINYFS, fix, root)
    return caught.value.message, caught.value.hint


def test_root_loads_what_is_on_the_disk(machine: Machine) -> None:
    root = machine()
    before = loaded_modules(root)
    require_part(SHINYFS, root=root)
    assert asked(root) == ["-a shinyfs"] and is_ready(SHINYFS, root)
    assert loaded_modules(root) - before == {"shinyfs"}
    require_part(SHINYFS, root=root)
    assert len(asked(root)) == 1, "what is ready is not loaded again"


def test_a_kernel_without_that_module_needs_another(machine: Machine) -> None:
    reason, fix = refusal(machine(shows=MISSING, loads=MISSING))
    assert reason == "this kernel has no shinyfs" and "boot a kernel that has it" in fix


def test_the_fix_of_a_driver_comes_first(machine: Machine) -> None:
    assert refusal(machine(shows=MISSING, loads=MISSING), "install shinyfs-dkms")[1] == "install shinyfs-dkms"


def test_a_module_that_the_owner_forbids_is_no_fault_of_the_kernel(machine: Machine) -> None:
    reason, fix = refusal(machine(loads=FORBIDDEN))
    assert "this kernel has no shinyfs: modprobe" in reason and "/bin/false" in reason and "/etc/modprobe.d" in fix


def test_after_an_upgrade_the_fix_is_a_reboot(machine: Machine) -> None:
    root = machine(release="99.1.0-kit")
    reason, fix = refusal(root)
    assert f"{root}/lib/modules/{os.uname().release} is gone, as after an upgrade (to 99.1.0-kit)" in reason
    assert fix == "reboot into that kernel" and not asked(root)


@pytest.mark.parametrize("user", [0, 1000])
def test_where_nothing_can_load_it_the_fix_says_what_to_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    root = machine(release="")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if user:
        (root / "modprobe").write_text(MODPROBE.format(root=root, shows=MISSING, loads=MISSING))
    reason, fix = refusal(root)
    assert reason.endswith(f"yet, and there is no {root}/lib/modules/{os.uname().release}")
    assert fix.startswith("run modprobe shinyfs on the machine; in a container: ") and "/lib/modules:" in fix
    (root / "lib/modules" / os.uname().release).mkdir(parents=True)
    monkeypatch.setattr(kernel_part, "which", lambda tool: None)
    reason, fix = refusal(root)
    assert reason.endswith("modprobe is not installed") and fix.startswith("run apt-get install kmod")
    (root / "proc/sys/kernel/modules_disabled").write_text("1\n")
    assert refusal(root)[1] == "reboot, and run modprobe shinyfs on the machine early"


def test_the_kernel_loads_what_a_users_program_mounts(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    require_part(SHINYFS, root=root)
    assert asked(root) == ["-D -q shinyfs"], "an ordinary user loads nothing"


def test_a_kernel_without_modules_has_all_that_it_will_ever_have(machine: Machine) -> None:
    root = machine()
    (root / "proc/modules").unlink()
    assert refusal(root)[0] == "this kernel has no shinyfs, and it loads no modules" and not asked(root)
    assert why_not_loaded("shinyfs", root) == (", and it loads no modules", "")
