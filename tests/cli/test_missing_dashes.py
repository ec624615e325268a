"""A command without ``--`` before it is recognised, and the error gives the whole command line with it."""

from __future__ import annotations

import shlex

import pytest

from tests.command_line import Kit


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("compare make -j2", "kit compare -- make -j2"),
        ("compare --arms bare make all", "kit compare --arms bare -- make all"),
        ("compare make -q", "kit compare -- make -q"),
        ("compare make", "kit compare -- make"),
        ("compare --rounds 1 sh -c 'a; b' --quiet", "kit compare --rounds 1 -- sh -c 'a; b' --quiet"),
        ("compare nosuch -j2", "kit compare -- nosuch -j2"),
    ],
)
def test_the_fix_is_the_command_line_with_dashes(kit: Kit, words: str, fix: str) -> None:
    done = kit(*shlex.split(words))
    assert done.returncode == 2
    assert done.stderr.splitlines()[1].strip() == f"fix: put -- before the command: {fix}"


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("compare smoke -j2", "see kit compare --help"),
        ("compare git:short clone x", "see kit compare --help"),
        ("compare kernl --ruonds 3", "use --rounds or --rootfs"),
        ("compare kernl --rounds 3", "use one of: allocate, "),
        ("compare missing.toml -j2", "see kit compare --help"),
        ("compare --nosuch make", "use --source; see kit compare --help"),
    ],
)
def test_other_mistakes_keep_their_fixes(kit: Kit, words: str, fix: str) -> None:
    done = kit(*words.split())
    assert done.returncode == 2 and f"fix: {fix}" in done.stderr and "put --" not in done.stderr
