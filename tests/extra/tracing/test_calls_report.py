"""What is printed of traced calls: the answer first, every line within 100 columns."""

from dataclasses import replace

import pytest

from kit.analysis.session.analyse import Analysis, analyse
from kit.analysis.stats.estimate import Interval
from kit.extra.tracing.analysis.calls import CallCosts, CallPart, CopyUps
from kit.extra.tracing.report.calls import copied, largest_group, render_calls
from kit.model.fact import NO_TRACING
from kit.model.sample import Call, Phase
from kit.report.format.sanitize import shown
from kit.report.format.wrap import NARROW
from tests.stored import SAMPLE, SESSION

NOT_LISTED = "bytes copied not available (the filesystem does not list what files share, or an older kit traced it)"


def interval(value: float) -> Interval:
    return Interval(value, value - 1.5, value + 1.5, 3)


PART = CallPart("create, rename, remove", "", 1234567.0, 1234567.0, 99.5, 21.25, interval(78.25), 0.95)
CALL = replace(PART, name="openat, creating", errors=(("EXDEV", 12.0),))
COSTS = CallCosts(
    "layer:overlay2", "bare", "jobs=2", "work", 3, interval(82.0), interval(41.0), (PART,), (CALL,), (CALL,),
    interval(1.75), interval(2.0), (3.0, 0.0), CopyUps(212.0, 14.0, 8.48e6, copied_bytes=4096.0),
)  # fmt: skip


def analysed(*found: CallCosts) -> Analysis:
    return replace(analyse(SESSION), extra_parts={"calls": found, "overheads": ()})


def text(*found: CallCosts) -> str:
    return " ".join(render_calls(SESSION, analysed(*found)).split())


def test_sentences_first_and_nothing_too_wide() -> None:
    lines = render_calls(SESSION, analysed(COSTS)).splitlines()
    assert lines[0].startswith(
        "layer:overlay2 at jobs=2 over bare: +82.0 s [+80.5, +83.5] of process time; significant in"
    )
    said = text(COSTS)
    assert "significant in create, rename, remove 95 %. +78.2 s (95 %) is create, rename, remove: " in said
    assert "openat, creating, 1,234,567 at 80.6 µs, on the baseline 1,234,567 at 17.2 µs." in said
    assert "copied up from lower layers: 212 files, 8.48 MB in size, at most 4,096 B of it copied, and 14" in said
    assert "copied up per run: 212 files, 8.48 MB in size, at most 4,096 B of it copied, and 14" in said
    assert "copies that were removed in the same phase are not counted" in said
    assert "errors per run that the baseline does not have: openat, creating EXDEV 12" in said
    assert "not recorded: 3 calls per run, on the baseline 0" in said
    assert max(map(len, lines)) <= NARROW


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (CopyUps(0.0, 1.0, 0.0), ["copied: 1 directory"]),
        (CopyUps(1.0, 0.0, 500.0, copied_bytes=0.0), ["copied: 1 file, 500 B in size, at most 0 B of it copied"]),
        (CopyUps(1.0, 0.0, 500.0), [f"copied: 1 file, 500 B in size, {NOT_LISTED}"]),
        (
            CopyUps(4 / 3, 2.0, 1e6, copied_bytes=1e6),
            ["copied: 1.3 files, 1.00 MB in size, at most 1.00 MB of it copied, and 2 directories"],
        ),
        (CopyUps(), []),
        (CopyUps(unmarked=2.0), ["copied or created: 2 files; the union does not mark such copies"]),
        (CopyUps(unseen=1), ["copied: unknown, the upper directory of 1 union was not found"]),
        (
            CopyUps(2.0, unseen=2),
            ["copied: 2 files", "copied: unknown in others, the upper directory of 2 unions was not found"],
        ),
    ],
)
def test_copy_ups_in_words(found: CopyUps, wanted: list[str]) -> None:
    assert list(copied(found, "copied")) == wanted
    said = text(replace(COSTS, copied=found))
    lines = [line.replace("copied", "copied up from lower layers", 1) for line in wanted]
    assert all(f"{line}." in said for line in lines) and ("copied" in said) == bool(wanted)


def test_of_several_phases_the_whole_has_tables_and_each_phase_its_sentences() -> None:
    lines = render_calls(SESSION, analysed(COSTS, replace(COSTS, phase="total"))).splitlines()
    assert [line for line in lines if line.startswith(("work:", "total:"))] == [
        "total: layer:overlay2 / bare at jobs=2, 3 traced rounds; real +41.0 s [+39.5, +42.5]", "work:"
    ]  # fmt: skip
    assert lines[lines.index("work:") + 1].startswith("layer:overlay2 at jobs=2 over bare: +82.0 s")


def test_errors_that_the_baseline_has_too_are_left_out() -> None:
    call = replace(CALL, errors=(("ENOENT", 90.0), ("EXDEV", 12.0)), base_errors=(("ENOENT", 90.0), ("EXDEV", 2.0)))
    assert "does not have: openat, creating EXDEV 12 (baseline 2)" in text(replace(COSTS, calls=(call,)))


def test_functions_have_a_table_of_their_own() -> None:
    copies = replace(PART, group="function", name="ovl_copy_up_one")
    assert "functions of the kernel, with what they call" in text(replace(COSTS, functions=(copies,)))


def test_a_group_that_is_not_significant_is_not_named() -> None:
    nothing = replace(PART, difference=interval(0.5), share=None)
    untold = replace(COSTS, whole=interval(0.7), groups=(nothing,))
    assert largest_group(untold) == ""
    assert (
        "+0.7 s [-0.8, +2.2] of process time, not significant as a whole. No group of calls differs "
        "significantly: the largest, create, rename, remove, +0.5 s [-1.0, +2.0]." in text(untold)
    )
    assert largest_group(COSTS).startswith("layer:overlay2 at jobs=2 over bare, by traced calls: of +82.0 s")


def test_what_is_significant_but_small_beside_the_largest_part_is_not_named() -> None:
    little = replace(PART, group="stat", difference=Interval(0.01, 0.009, 0.011, 3), share=None)
    large = replace(PART, difference=interval(0.5), share=None)
    untold = replace(COSTS, whole=interval(0.7), groups=(large, little))
    assert largest_group(untold) == "" and "is stat" not in text(untold)
    assert "differs significantly: the largest" not in text(untold)


def test_why_there_are_none() -> None:
    assert render_calls(SESSION, analysed()).startswith("this session traced no calls")
    lacking = replace(SESSION, facts={NO_TRACING.key: "bpftrace is not installed (fix: apt-get install bpftrace)"})
    assert render_calls(lacking, analysed()).startswith("not traced: bpftrace is not installed")


def test_names_of_an_imported_session_have_no_character_that_acts() -> None:
    call = Call("open\x1b[31m", 1, errors=(("E\x1b[1m", 1),))
    sample = replace(SAMPLE, kind="traced", phases=(Phase("build", "ok", calls=(call,)),))
    made = shown(replace(SESSION, samples=(sample,))).samples[0].phases[0].calls[0]
    assert (made.name, made.errors) == ("open\\x1b[31m", (("E\\x1b[1m", 1),))
