"""Layers, cycles and sizes, as ../shared/design.md has them."""

import ast
from pathlib import Path

import kit

ROOT = Path(kit.__file__).parent
LAYERS = (
    {"errors", "scenario", "arm", "sample", "plan", "stats", "compare", "record", "timeoutput"}
    | {"runs", "ladder", "growth", "sweep", "drift", "burst", "schedule", "analysis", "reported", "parsers", "wire"}
    | {"visible", "redact"}
    | {"threshold", "outcome", "history", "change", "regression", "between", "exchange"}
    | {"quantity", "night", "nightfile", "scenariofile", "toml", "limit"}
    | {"pool", "paired", "ranking"},
    {"paths", "command", "host", "journal", "filesystem", "image", "engines", "probe", "store", "lock", "namespace"}
    | {"beneath"}
    | {"cgroup", "counters", "inputs", "measure", "guest", "idle", "mounts", "owner", "leftovers"}
    | {"textfile", "runlog", "rest"},
    {"provision", "doctor", "session", "workload", "launch", "facts", "fetch", "supply", "load"}
    | {"perform", "visit", "inside", "nightly", "past", "consent", "freeze"},
    {"report", "cli", "pytest_plugin", "progress", "__main__", "serve"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def files() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if "_data" not in path.parts)


def module(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path, top_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_only else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "kit":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return {name for name in found if name in LEVEL}


def test_every_module_has_a_layer() -> None:
    assert {module(path) for path in files()} - {"__init__"} == set(LEVEL)


def test_modules_import_downwards_only() -> None:
    for path in files():
        name = module(path)
        for other in imports(path):
            assert LEVEL[other] <= LEVEL.get(name, 3), f"{path} imports {other}, a layer above"
            if LEVEL[other] == 3:
                assert LEVEL.get(name, 3) == 3, f"{path} imports the front {other}"


def test_words_are_pure_and_reports_know_words_alone() -> None:
    for path in files():
        outside = imports(path) - LAYERS[0] - {module(path)}
        if module(path) in LAYERS[0] or module(path) == "report":
            assert not outside, f"{path} imports {outside}"


def test_no_cycles_between_modules() -> None:
    graph: dict[str, set[str]] = {}
    for path in files():
        graph.setdefault(module(path), set()).update(imports(path, top_only=True) - {module(path)})
    done: list[str] = []
    while graph:
        free = [name for name, needs in graph.items() if not needs - set(done)]
        assert free, f"cycle among {sorted(graph)}"
        done += free
        graph = {name: needs for name, needs in graph.items() if name not in free}


def test_sizes() -> None:
    lengths = sorted(len(path.read_text().splitlines()) for path in files())
    assert lengths[len(lengths) // 2] < 150
    assert lengths[-1] <= 400
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{path}: {node.name} is too long"
