"""What functions of the kit call their locals: the noun of the thing, and no word that would fit any."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import kit
from tests.sources import Tree, parsed

ROOT = Path(kit.__file__).parent
_LISTED = """
asked became begun came done found given goes got had held item items kept known left made meant mine named one own put
read rest said says seen shown stays taken tells them these thing things those told took wanted
"""
#: Words that say nothing of what a name holds: a sample, an arm, an interval, a path.
EMPTY = frozenset(_LISTED.split())
#: Of other projects' locals one in a hundred is such a word; "left" may be the side of a plot, "read" a pipe's end.
MOST = 0.02


def assigned_locals(function: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that a function assigns, once, with the line of the first: also by a loop, comprehension, with,
    except, match or ``:=``, and in functions within it."""
    names: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id, node.lineno)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.setdefault(node.name, node.lineno)
    yield from names.items()


def functions(tree: Tree) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [*tree.nodes(ast.FunctionDef), *tree.nodes(ast.AsyncFunctionDef)]


def empty_names(tree: Tree) -> list[tuple[int, str]]:
    """Return the line and the name of each local that is an empty word, also with underscores around."""
    names = {place for function in functions(tree) for place in assigned_locals(function)}
    return sorted((line, name) for name, line in names if name.strip("_") in EMPTY)


def test_locals_are_called_by_what_they_hold() -> None:
    count, empty = 0, []
    for path in sorted(ROOT.rglob("*.py")):
        if "_data" not in path.parts:
            tree = parsed(path)
            count += len({place for function in functions(tree) for place in assigned_locals(function)})
            empty += [f"kit/{path.relative_to(ROOT)}:{line} {name}" for line, name in empty_names(tree)]
    assert count > 5000
    share = len(empty) / count
    places = "\n".join(empty)
    assert share <= MOST, f"{len(empty)} of {count} locals ({share:.1%}) are called by an empty word:\n{places}"


def test_the_test_finds_such_a_word() -> None:
    code = """
def render(session, found=()):
    said = [item for item in session]
    with open("x") as rest, open("y") as file:
        pass
    try:
        if (made := rest.read()):
            arm = made
    except OSError as error:
        for one, other in said:
            arm.known = other
    return [lambda left: left]
"""
    assert [name for _, name in empty_names(Tree(code))] == ["item", "said", "rest", "made", "one"]
