"""Errors are one line, whatever is quoted in them."""

from __future__ import annotations

import pytest

from kit.core.errors import LONGEST_ERROR, KitError, UsageError, brief, said_by_system
from tests.command_line import Kit


@pytest.mark.promise("what others wrote", "Odd input ends in an answer, or in an error of one line with its fix.")
@pytest.mark.parametrize("text", ["x" * 70_000, "a\nb\r\n  c\u2028d\n" * 5_000, "\n" * 1_000])
def test_an_error_is_one_line_of_bounded_length(text: str) -> None:
    error = UsageError(f"begin {text} end", text)
    for line in (error.message, error.hint, said_by_system(OSError(2, "gone", text))):
        assert len(line) <= LONGEST_ERROR and len(line.splitlines()) <= 1
    assert error.message.startswith("begin") and error.message.endswith("end")


def test_what_is_cut_out_leaves_no_half_of_a_secret() -> None:
    for before in range(150, 250):
        assert "hunter" not in brief("x" * before + "password=" + "hunter2" * 50 + "y" * 300)


def test_a_short_error_stays_as_it_is() -> None:
    assert str(KitError("  two  blanks", "do this")) == "  two  blanks\n  fix: do this"


@pytest.mark.parametrize("word", ["x" * 70_000, "a\nb\nc"])
@pytest.mark.parametrize("command", [("compare", "--arms"), ("show",), ("--{}",), ("{}",), ("nightly",), ("import",)])
def test_no_command_repeats_a_long_word(kit: Kit, command: tuple[str, ...], word: str) -> None:
    words = [item.format(word) for item in command]
    done = kit(*words, *([] if words != list(command) else [word]))
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert max(map(len, lines)) <= 400 and len(lines) <= 6
