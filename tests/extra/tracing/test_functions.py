"""Which functions of a kernel are probed, by what program, and what becomes of its maps."""

import subprocess
from pathlib import Path

import pytest

from kit.extra.tracing.bpftrace import program, read_maps, with_tracefs
from kit.extra.tracing.functions import FUNCTIONS, function_probes, function_rows, known
from kit.host.command import which
from kit.host.namespace import enter_private_mounts
from kit.model.sample import FUNCTION, LOST, Call

SYMBOLS = """\
ffffffff81861b80 t ovl_copy_up_one\t[overlay]
ffffffff81861b80 t ovl_copy_up_one.cold
ffffffff81837d50 T __fuse_simple_request
ffffffff82206640 D ovl_rename
0000000000000000
"""


def test_those_that_this_kernel_has() -> None:
    assert known(SYMBOLS.splitlines()) == ("ovl_copy_up_one", "__fuse_simple_request")
    assert len(set(FUNCTIONS)) == len(FUNCTIONS)


def test_rows(tmp_path: Path) -> None:
    number = FUNCTIONS.index("ovl_iterate")
    spread = f'{{"{number}": [{{"min": 1024, "max": 2047, "count": 3}}]}}'
    (tmp_path / "said").write_text(
        f'{{"type": "map", "data": {{"@function_took": {{"{number}": 9000}}}}}}\n'
        f'{{"type": "hist", "data": {{"@function_spread": {spread}}}}}\n'
    )
    wanted = Call("ovl_iterate", 3, 9e-6, histogram=((10, 3),), kind=FUNCTION)
    assert list(function_rows(read_maps(tmp_path / "said"))) == [wanted]
    with (tmp_path / "said").open("a") as said:
        said.write('{"type": "map", "data": {"@function_entered": 5}}\n')
    missed = Call("functions, not recorded", 2, kind=LOST)
    assert list(function_rows(read_maps(tmp_path / "said"))) == [wanted, missed]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_the_program_is_one_for_bpftrace(tmp_path: Path) -> None:
    """Without attaching it: its functions need not be here."""
    if not which("bpftrace"):
        pytest.skip("needs bpftrace")
    enter_private_mounts()
    with_tracefs()
    text = program(["calls"], {"LISTED": "", "OPENAT": "257"})
    (tmp_path / "all.bt").write_text(f"{text}\n{function_probes(FUNCTIONS)}")
    # Before 0.20 the option has no argument.
    runs = [
        subprocess.run(["bpftrace", *words, tmp_path / "all.bt"], capture_output=True, text=True, check=False)
        for words in (["-d"], ["-d", "all"])
    ]
    if any("No matches for kprobe" in done.stderr for done in runs):
        pytest.skip("this bpftrace needs a kernel with kprobes and with all storage drivers")
    printed = [done.stdout for done in runs if done.returncode == 0]
    assert printed and "kretprobe:btrfs_sync_file" in printed[0], [done.stderr for done in runs]
