from __future__ import annotations

import shlex
import subprocess

from kit.report.format.wrap import wrap, wrap_command


def test_a_number_stays_with_its_unit() -> None:
    assert wrap("against any lies between -4.6 % and +7.1 %", 30) == "against any lies between\n  -4.6 % and +7.1 %"
    assert wrap("of +0.33 s, 212 MiB at 37 µs", 10).split("\n") == ["of", "  +0.33 s,", "  212 MiB", "  at 37 µs"]


def test_no_more_lines_than_wanted() -> None:
    assert wrap("one two three four five", 9, most=2) == "one two\n  three …"


def test_a_figure_stays_with_its_interval() -> None:
    text = "writing costs +1.92 % [+1.42, +2.41], reading +0.21 s [-0.05, +0.47]; 1.056 [1.031, 1.082]"
    lines = ["writing costs", "  +1.92 % [+1.42, +2.41],", "  reading", "  +0.21 s [-0.05, +0.47];"]
    assert wrap(text, 30).split("\n") == [*lines, "  1.056 [1.031, 1.082]"]


def test_a_shell_joins_the_lines_of_a_command() -> None:
    words = ["kit", "compare", "--source", "/home/user/a project", "--prepare", "echo it's", "--", "make", "-j2"]
    lines = wrap_command(shlex.join(words), 40)
    assert max(map(len, lines.splitlines())) <= 40 < len(lines)
    done = subprocess.run(["sh", "-c", f"printf '%s\\n' {lines}"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == words
    assert wrap_command("kit show last") == "kit show last"
