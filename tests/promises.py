"""What tests promise: ``@pytest.mark.promise(topic, sentence)``, read from their source, as a table of a page."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Promise:
    topic: str  # the page has one table for each
    sentence: str
    path: str  # of the file, from the root of the repository
    test: str


def read_promises(root: Path = ROOT) -> list[Promise]:
    """Return what the tests below ``root``/tests promise, in the order of their files and lines. Imports none of them.
    Raises ValueError for a promise that no test keeps, or that is no plain text."""
    paths = sorted((root / "tests").rglob("*.py"))
    return [promise for path in paths for promise in _read(path, path.relative_to(root).as_posix())]


def _read(path: Path, name: str) -> Iterator[Promise]:
    text = path.read_text(encoding="utf-8")
    if "mark.promise(" not in text:
        return
    tree = ast.parse(text)
    marks = {node for node in ast.walk(tree) if _is_mark(node)}
    for node in ast.walk(tree):
        if not isinstance(node, _FUNCTIONS) or not node.name.startswith("test_"):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and mark in marks:
                marks.remove(mark)
                topic, sentence = (ast.literal_eval(word) for word in mark.args)
                yield Promise(topic, sentence, name, node.name)
    if marks:
        raise ValueError(f"{name}: a promise marks no test")


def _is_mark(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise"


def promises_table(promises: list[Promise], topic: str) -> str:
    """Return a line for each sentence of a topic, with all tests that keep it."""
    lines = ["| promise | kept by |", "| --- | --- |"]
    chosen = [promise for promise in promises if promise.topic == topic]
    for sentence in dict.fromkeys(promise.sentence for promise in chosen):
        tests = [f"`{promise.path}::{promise.test}`" for promise in chosen if promise.sentence == sentence]
        lines.append(f"| {sentence} | {', '.join(tests)} |")
    return "\n".join(lines)
