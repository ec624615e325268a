"""A User-Mode Linux whose buffer is too small for this CPU is refused before it dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import MachineError
from kit.guest.uml import check_registers


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
