"""What is printed of traced calls: the answer first, every line within 100 columns."""

from dataclasses import replace

from kit.analysis.analyse import Analysis, analyse
from kit.analysis.calls import CallCosts, CallPart, CopyUps
from kit.analysis.stats import Interval
from kit.model.call import Call
from kit.model.fact import NO_TRACING
from kit.model.sample import Phase
from kit.report.calls import COLUMNS, largest_group, render_calls
from kit.report.shown import shown
from tests.stored import SAMPLE, SESSION


def interval(value: float) -> Interval:
    return Interval(value, value - 1.5, value + 1.5, 3)


PART = CallPart("create, rename, remove", "", 1234567.0, 1234567.0, 99.5, 21.25, interval(78.25), 0.95)
CALL = replace(PART, name="openat, creating", errors=(("EXDEV", 12.0),))
COSTS = CallCosts(
    "layer:overlay2", "bare", "jobs=2", "work", 3, interval(82.0), interval(41.0), (PART,), (CALL,), (CALL,),
    interval(1.75), interval(2.0), (3.0, 0.0), CopyUps(212.0, 14.0, 8.48e6),
)  # fmt: skip


def analysed(*found: CallCosts) -> Analysis:
    return replace(analyse(SESSION), calls=found)


def test_sentences_first_and_nothing_too_wide() -> None:
    lines = render_calls(SESSION, analysed(COSTS)).splitlines()
    assert lines[0].startswith("layer:overlay2 at jobs=2 over bare: processes worked or were held up +82.00 s")
    text = " ".join(" ".join(lines).split())
    assert (
        "+78.25 s (95 %) is create, rename, remove: openat, creating, 1,234,567 calls at 80.6 µs, there 1,234,567 at "
        "17.2 µs." in text
    )
    assert "212 files, 8.48 MB, and 14 directories were copied up from lower layers." in text
    assert "errors a run: openat, creating EXDEV 12" in text and "not recorded: 3 calls a run, there 0" in text
    assert max(map(len, lines)) <= COLUMNS


def test_a_group_that_is_not_told_from_none_is_not_named() -> None:
    nothing = replace(PART, difference=interval(0.5), share=None)
    assert largest_group(replace(COSTS, groups=(nothing,))) == ""
    assert largest_group(COSTS).startswith("layer:overlay2 at jobs=2 over bare, by traced calls: of +82.00 s")


def test_why_there_are_none() -> None:
    assert render_calls(SESSION, analysed()).startswith("no calls were traced in this session")
    lacking = replace(SESSION, facts={NO_TRACING.key: "bpftrace is not installed (fix: apt-get install bpftrace)"})
    assert render_calls(lacking, analysed()).startswith("not traced: bpftrace is not installed")


def test_names_of_an_imported_session_have_no_character_that_acts() -> None:
    call = Call("open\x1b[31m", 1, errors=(("E\x1b[1m", 1),))
    sample = replace(SAMPLE, kind="traced", phases=(Phase("build", "ok", calls=(call,)),))
    made = shown(replace(SESSION, samples=(sample,))).samples[0].phases[0].calls[0]
    assert (made.name, made.errors) == ("open\\x1b[31m", (("E\\x1b[1m", 1),))
