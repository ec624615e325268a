"""The sources as trees, each parsed and walked once for all tests that look at them."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


class Tree:
    """What a text holds, by kind: of each, in the order of ``ast.walk``, which takes thrice as long."""

    def __init__(self, text: str) -> None:
        self.module = ast.parse(text)
        self._nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        pending: list[ast.AST] = [self.module]
        for node in pending:  # which grows meanwhile
            self._nodes[node.__class__].append(node)
            for value in vars(node).values():
                if isinstance(value, list):
                    pending += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST):
                    pending.append(value)

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Of this class itself."""
        found: list[Node] = self._nodes.get(kind, [])  # type: ignore[assignment]
        return found


@cache
def parsed(path: Path) -> Tree:
    return Tree(path.read_text())


@cache
def literals(path: Path) -> tuple[tuple[int, str], ...]:
    """Return the strings of a module as far as they are written in it, with their lines, without docstrings."""
    return tuple(_literals(path))


def _literals(path: Path) -> Iterator[tuple[int, str]]:
    tree = parsed(path)
    owners: list[ast.Module | ast.ClassDef | ast.FunctionDef] = []
    owners += [*tree.nodes(ast.Module), *tree.nodes(ast.ClassDef), *tree.nodes(ast.FunctionDef)]
    firsts = [node.body[0] for node in owners if node.body]
    documents = {id(first.value) for first in firsts if isinstance(first, ast.Expr)}
    inner = {id(part) for node in tree.nodes(ast.JoinedStr) for part in node.values}
    for node in tree.nodes(ast.Constant):
        if isinstance(node.value, str) and id(node) not in documents | inner:
            yield node.lineno, node.value
    for joined in tree.nodes(ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in joined.values)
        yield joined.lineno, text
