"""What becomes of the maps that a program leaves behind."""

from pathlib import Path

import pytest

from kit.extra.tracing.analysis.calls import group_of
from kit.extra.tracing.bpftrace import Maps, program, read_maps
from kit.extra.tracing.calls import rows
from kit.extra.tracing.names import call_name, call_number, opcode_name
from kit.model.sample import CALL, FAULT, FUSE, LOST, Call

SAID = (
    """\
{"type": "attached_probes", "data": {"probes": 9}}
{"type": "printf", "data": "attached\\n"}
{"type": "map", "data": {"@disk": {"257": 2000}}}
{"type": "map", "data": {"@entered": 7}}
{"type": "map", "data": {"@errors": {"257,-18": 1, "257,-512": 1}}}
{"type": "map", "data": {"@faults": 2}}
{"type": "map", "data": {"@fault": 3000}}
{"type": "map", "data": {"@since": {"4711": 1}}}
{"type": "hist", "data": {"@spread": {"257": [{"min": 1024, "max": 2047, "count": 3}, {"min": 2048, "max": 4095,
""".rstrip("\n")
    + """ "count": 0}, {"min": 4096, "max": 8191, "count": 1}], "-2": [{"min": 0, "max": 0, "count": 1}]}}}
{"type": "map", "data": {"@took": {"257": 9000, "-2": 500}}}
{"type": "hist", "data": {"@fuse_spread": {"1": [{"min": 65536, "max": 131071, "count": 2}]}}}
{"type": "map", "data": {"@fuse_took": {"1": 200000}}}
{"type": "map", "data": {"@cut
"""
)


@pytest.fixture
def maps(tmp_path: Path) -> Maps:
    (tmp_path / "said").write_text(SAID)
    return read_maps(tmp_path / "said")


def test_rows(maps: Maps) -> None:
    found = {(item.kind, item.name): item for item in rows(maps)}
    name = call_name(257)
    assert found[CALL, name] == Call(
        name, 4, 9e-6, 2e-6, histogram=((10, 3), (12, 1)), errors=(("ERESTARTSYS", 1), ("EXDEV", 1))
    )
    assert found[CALL, "exit"].count == 1 and found[CALL, "exit"].histogram == ((0, 1),)
    assert found[FAULT, "page fault"] == Call("page fault", 2, 3e-6, 3e-6, kind=FAULT)
    assert found[FUSE, "LOOKUP"] == Call("LOOKUP", 2, 2e-4, histogram=((16, 2),), kind=FUSE)


def test_what_was_entered_and_neither_ended_nor_goes_on_is_lost(maps: Maps) -> None:
    (lost,) = [item for item in rows(maps) if item.kind == LOST]
    assert lost.count == 7 - 5 - 1


def test_time_in_a_call_is_split_without_a_rest() -> None:
    call = Call("read", 1, 1.0, disk=0.25, daemon=0.125, slept=0.25, ready=0.125)
    assert call.cpu == 0.25
    assert Call("read", 1, 1.0, disk=2.0).cpu == 0.0


def test_programs_are_shipped_and_their_words_replaced() -> None:
    text = program(["calls", "fuse"], {"LISTED": "@group[(uint64)7] = 1;", "OPENAT": "257"})
    assert "BEGIN\n{\n  @group[(uint64)7] = 1;\n" in text and "args->id == 257" in text and "fuse_request_send" in text
    code = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
    assert not {"LISTED", "OPENAT"} & set(code.split())


def test_names() -> None:
    assert [opcode_name(number) for number in (1, 3, 8, 18, 20, 44, 52, 999)] == [
        "LOOKUP", "GETATTR", "MKNOD", "RELEASE", "FSYNC", "READDIRPLUS", "STATX", "opcode 999"
    ]  # fmt: skip
    assert (call_name(-1), call_name(-2), call_name(99999)) == ("rt_sigreturn", "exit", "call 99999")
    number = call_number("openat")
    assert [call_name(number + added) for added in (0, 10000, 20000)] == [
        "openat", "openat, creating", "openat, writing"
    ]  # fmt: skip


def test_groups() -> None:
    assert group_of(Call("openat", 1)) == group_of(Call("openat, creating", 1)) == "open"
    assert group_of(Call("nonsense", 1)) == "other"
    assert group_of(Call("page fault", 1, kind=FAULT)) == group_of(Call("mmap", 1))
