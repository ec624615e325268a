"""Errors that a user meets say what is wrong and where in one line, and begin the fix with a verb, in another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import kit
from kit.cli import cli, usage_error
from kit.core.errors import KitError
from tests.sources import parsed

ROOT = Path(kit.__file__).parent
#: With the place of the fix among the arguments.
_ERRORS = {
    "KitError": 1, "UsageError": 1, "MachineError": 1, "UnavailableError": 1, "RunError": 1, "BusyError": 1,
    "UnreadableError": 1, "Blocker": 1, "NotRun": 2,
}  # fmt: skip
#: What a fix begins with: a new verb is a line of a review.
_VERBS = (
    "add", "attach", "boot", "build", "check", "compare", "connect", "continue", "copy", "drop", "export", "fix",
    "free", "give", "grant", "import", "insert", "install", "leave", "list", "look", "make", "mount", "move", "name",
    "pack", "pick",
    "provide", "put", "raise", "remove", "resume", "run", "save", "see", "set", "shorten", "split", "start",
    "stop", "sweep", "unmount", "update", "use", "wait", "write",
)  # fmt: skip
#: Reasons that another error quotes, with a fix of its own.
_QUOTED = {
    "host/remote_cache.py", "arms/image/peer_image.py", "session/inputs/input_cache.py",
    "store/outbox/outbox_flush.py",
    "extra/pytest_plugin/check.py", "extra/pytest_plugin/runner.py", "extra/pytest_plugin/xdist.py",
    "session/measure/background.py", "session/execute/materials.py", "extra/fleet/client/client.py",
}  # fmt: skip


def raised() -> Iterator[tuple[str, ast.Call, int]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in parsed(path).nodes(ast.Call):
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
            if name in _ERRORS and not any(isinstance(item, ast.Starred) for item in node.args):
                yield str(path.relative_to(ROOT)), node, _ERRORS[name]


def literal(node: ast.expr) -> str | None:
    """The text as far as it is written in the source; None of what is made elsewhere."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(item.value) if isinstance(item, ast.Constant) else "{}" for item in node.values)
    return None


def test_each_error_has_a_fix_that_begins_with_a_verb() -> None:
    wrong, seen = [], 0
    for where, call, place in raised():
        named = {item.arg: item.value for item in call.keywords}
        node = call.args[place] if len(call.args) > place else named.get("hint") or named.get("fix")
        at = f"{where}:{call.lineno}"
        if node is None:
            wrong += [] if where in _QUOTED else [f"{at}: no fix"]
        elif (text := literal(node)) is not None:
            seen += 1
            if text.split(maxsplit=1)[0].rstrip(":,") not in _VERBS:
                wrong.append(f"{at}: {text}")
    assert wrong == [] and seen > 200


def test_what_is_wrong_is_one_line_and_no_sentence() -> None:
    wrong, seen = [], 0
    for where, call, place in raised():
        text = literal(call.args[place - 1]) if call.args else None
        if text:
            seen += 1
            if "\n" in text or text.endswith((".", "!")) or (text[0].isupper() and not text.split()[0].isupper()):
                wrong.append(f"{where}:{call.lineno}: {text}")
    assert [item for item in wrong if not item.split(": ", 1)[1].startswith(("Linux", "SQLite"))] == [] and seen > 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compare --xyzzy", "compare: unknown option '--xyzzy'\n  fix: see kit compare --help"),
        (
            "compare --bugdet 5m",
            "compare: unknown option '--bugdet'\n  fix: use --budget or --quiet or --guest; see kit compare --help",
        ),
        ("nosuch", "unknown command 'nosuch'\n  fix: see kit --help"),
        ("history", "history: missing argument 'SCENARIO'\n  fix: see kit history --help"),
        ("show --format", "option '--format' requires an argument\n  fix: see kit --help"),
    ],
)
def test_what_click_refuses_is_said_in_the_kits_way(words: str, said: str) -> None:
    with pytest.raises(click.ClickException) as refused:
        cli.main(words.split(), prog_name="kit", standalone_mode=False)
    assert str(usage_error(refused.value)) == said


def test_an_error_is_one_line_and_one_fix() -> None:
    assert str(KitError("unknown driver 'overlay3'", "use one of overlay2, btrfs")).splitlines() == [
        "unknown driver 'overlay3'",
        "  fix: use one of overlay2, btrfs",
    ]
