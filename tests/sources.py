"""The sources as trees, each parsed once for all tests that look at them."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file's tree."""
    return tuple(ast.walk(parsed(path)))
