"""The timing of copies that ran at once."""

from dataclasses import replace

from kit.engines.copies import joined
from tests.fake_engine import TIMING


def test_copies_take_from_the_first_start_to_the_last_end() -> None:
    early = replace(TIMING, real=2.0, ended=12.0, max_rss=5)
    late = replace(TIMING, real=2.5, ended=13.0, max_rss=9)
    both = joined([late, early])
    assert (both.real, both.ended, both.spread, both.copies) == (3.0, 13.0, 1.0, 2)
    assert (both.user, both.minor_faults, both.max_rss) == (2 * TIMING.user, 2 * TIMING.minor_faults, 9)


def test_copies_have_failed_if_one_has() -> None:
    failed = replace(TIMING, exit_code=None, signal=9)
    assert [joined(timings).ok for timings in ([TIMING, TIMING], [TIMING, failed], [failed, TIMING])] == [
        True, False, False,
    ]  # fmt: skip
