"""A User-Mode Linux on a machine that is too small for it: refused before it dies, or a warning before it hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import MachineError
from kit.extra.guest.uml import check_registers, few_mappings
from kit.host.machine import most_mappings


@pytest.mark.parametrize(
    ("release", "flags", "dies"),
    [
        ("6.1.192", {"amx_tile", "avx512f"}, True),
        ("6.12.0-rc1", {"amx_tile"}, True),
        ("6.13.0", {"amx_tile"}, False),
        ("7.2.3", {"amx_tile"}, False),
        ("6.1.192", {"avx512f"}, False),
        ("6.1.192-kit-0123abcd", {"amx_tile"}, False),
    ],
)
def test_a_kernel_that_would_die_is_refused(release: str, flags: set[str], dies: bool, tmp_path: Path) -> None:
    kernel = tmp_path / "linux"
    kernel.write_bytes(b"\x7fELF\0Linux version %s\0Linux version " + release.encode() + b" (root@x) (gcc)\n\0")
    if not dies:
        check_registers(kernel, flags)
        return
    with pytest.raises(MachineError) as caught:
        check_registers(kernel, flags)
    assert release in caught.value.message and "kit kernel build" in caught.value.hint


def test_few_mappings_are_named_with_their_fix() -> None:
    """65,530 is Linux' default. A Python with as many mappings hung in a page fault."""
    assert "more than 255 MiB may hang" in few_mappings(65_530)
    command = few_mappings(65_530).partition("fix: sudo sysctl -w ")[2]
    name, _, value = command.partition("=")
    assert Path("/proc/sys", *name.split(".")).read_text() == f"{most_mappings()}\n" and not few_mappings(int(value))
