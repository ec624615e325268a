"""Sizes, and what one module alone may do. Layers, cycles and banned functions: pyproject.toml."""

import ast
import re
from pathlib import Path

import pytest

import kit
from tests.sources import Tree, parsed

ROOT = Path(kit.__file__).parent


def files() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if "_data" not in path.parts)


def packages() -> list[Path]:
    return sorted(path.parent for path in ROOT.rglob("__init__.py") if "_data" not in path.parts)


def test_each_package_says_what_it_owns_and_the_document_draws_it() -> None:
    drawn = (ROOT.parent / "docs/explanation/architecture.md").read_text() if (ROOT.parent / "docs").is_dir() else None
    for path in packages():
        said = ast.get_docstring(parsed(path / "__init__.py").module) or ""
        assert len(said) > 60, path
        if drawn and path.parent == ROOT:
            assert f"`{path.name}`" in drawn, f"docs/explanation/architecture.md lacks {path.name}"


def test_each_package_says_what_it_may_import() -> None:
    for path in packages():
        if path.parent == ROOT:
            said = ast.get_docstring(parsed(path / "__init__.py").module) or ""
            assert re.search(r"\bImports ", said), path
            assert len(said.splitlines()) <= 7, path


def test_what_the_document_names_exists() -> None:
    """Modules as `package/module`, in the ways of an arm and of a sample above all."""
    if (ROOT.parent / "docs").is_dir():
        text = (ROOT.parent / "docs/explanation/architecture.md").read_text()
        named = re.findall(r"`([a-z_]+/[a-z_/]+)(?:\.([a-z_]+))?`", text)
        assert len(named) > 30
        for module, function in named:
            path = ROOT / module if (ROOT / module).is_dir() else ROOT / f"{module}.py"
            assert path.exists(), module
            made = [node.name for node in parsed(path).nodes(ast.FunctionDef)] if function else []
            assert function in made or not function, f"{module}.{function}"


def test_nothing_lies_beside_the_packages() -> None:
    """But the table by which the core knows of extras."""
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py", "extensions.py"}


def test_one_word_one_thing() -> None:
    """A public class's name says what it is, wherever it is met."""
    where: dict[str, list[str]] = {}
    for path in files():
        for node in parsed(path).nodes(ast.ClassDef):
            if not node.name.startswith("_"):
                where.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in where.items() if len(found) > 1} == {}


def test_no_test_module_imports_another() -> None:
    """What several need lies beside conftest: a test that is imported runs twice, and its fixtures with it."""
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        text = path.read_text()
        if re.search(r"^\s*(from|import)\s.*\btest_", text, re.MULTILINE):
            tree = Tree(text)
            names = [alias.name for node in tree.nodes(ast.Import) for alias in node.names]
            names += [node.module or "" for node in tree.nodes(ast.ImportFrom)]
            assert not any(part.startswith("test_") for name in names for part in name.split(".")), path


def deletions_and_unpackings(tree: Tree) -> list[str]:
    """Return what unpacks an archive, or removes a directory with what is below it, and is no name that ruff bans."""
    found = []
    for call in tree.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("extract", "extractall"):
            found.append(f"line {call.lineno}: {call.func.attr}")
    lists: list[ast.List | ast.Tuple | ast.Call] = [
        *tree.nodes(ast.List),
        *tree.nodes(ast.Tuple),
        *tree.nodes(ast.Call),
    ]
    for listed in lists:
        items = listed.args if isinstance(listed, ast.Call) else listed.elts
        said = [word.value for word in items if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        if said and _unpacks_or_deletes(said):
            found.append(f"line {listed.lineno}: {' '.join(said)}")
    found += [f"line {node.lineno}: a walk with deletions" for node in tree.nodes(ast.For) if _walks_and_deletes(node)]
    return found


def _unpacks_or_deletes(words: list[str]) -> bool:
    """A command line: tar that writes files (-O writes to its output), rm of directories, find with deletions."""
    options = [word for word in words[1:] if word.startswith("-")]
    if words[0] in ("tar", "bsdtar", "cpio", "unzip"):
        single = [word for word in options if not word.startswith("--")]
        return "--extract" in options or any("x" in word and "O" not in word for word in single)
    return words[0] == "rm" and any(set(word) & {"r", "R"} for word in options)


def _walks_and_deletes(loop: ast.For) -> bool:
    def called(node: ast.AST) -> set[str]:
        calls = (item.func for item in ast.walk(node) if isinstance(item, ast.Call))
        return {func.attr for func in calls if isinstance(func, ast.Attribute)}

    return bool(called(loop.iter) & {"walk", "rglob"}) and any(
        called(part) & {"unlink", "remove", "rmdir", "rename"} for part in loop.body
    )


#: Control groups are no files: a removal of theirs is asked of the kernel, and takes nothing with it.
_WALKS_CONTROL_GROUPS = "cgroup.py"


def test_one_module_removes_and_unpacks_below_a_directory() -> None:
    """What is below a directory may have been written by a workload: kit.host.safe_fs goes there by descriptors."""
    for path in files():
        if path.parent.name != "safe_fs" and path.name != _WALKS_CONTROL_GROUPS:
            assert not deletions_and_unpackings(parsed(path)), path


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("tar.extractall(path)", True),
        ("tar.extract(member, path)", True),
        ("run(['tar', '-xpf', archive, '-C', path])", True),
        ("words = ['tar', *options, '--extract']", True),
        ("run(['rm', '-rf', path])", True),
        ("for top, _, names in os.walk(path):\n  for name in names: os.unlink(top + name)", True),
        ("for item in path.rglob('*'): item.unlink()", True),
        ("run(['tar', '-xOf', rootfs, name])", False),
        ("run(['tar', '-C', path, '-cf', '-', '.'])", False),
        ("reader.extractfile(member)", False),
        ("for top, _, names in os.walk(path): read(top)", False),
        ("path.unlink(missing_ok=True)", False),
    ],
)
def test_what_removes_and_unpacks_is_seen(code: str, caught: bool) -> None:
    assert bool(deletions_and_unpackings(Tree(code))) == caught


def test_one_module_reads_the_mount_table() -> None:
    """It unescapes paths, and knows where its optional fields end."""
    found = {path.name for path in files() if re.search(r"/mountinfo|/proc/\w+/mounts|findmnt", path.read_text())}
    assert found == {"mounts.py"}


#: It estimates from a clock, while a session runs, how long that still takes.
_HAS_A_CLOCK, _AVERAGE = "report/text/progress.py", "an average"


def computations(tree: Tree) -> list[str]:
    """Whatever makes a figure of samples: arrays and their functions, the table of runs, an average by hand."""
    found = []
    imports: list[ast.Import | ast.ImportFrom] = [*tree.nodes(ast.Import), *tree.nodes(ast.ImportFrom)]
    for node in imports:
        of = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        names = [alias.name for alias in node.names]
        if {name.partition(".")[0] for name in (of, *names)} & {"numpy", "statistics"}:
            found.append(f"line {node.lineno}: import")
        if of.startswith(("kit.analysis.runs", "kit.analysis.stats", "kit.extra.matrix.analysis.mean")):
            found += [f"line {node.lineno}: {name}" for name in names if name == "Runs" or name.islower()]
    for attribute in tree.nodes(ast.Attribute):
        words = ast.unparse(attribute).split(".")
        if "runs" in words[1:-1] or words[-2:] == ["analysis", "runs"]:
            found.append(f"line {attribute.lineno}: {'.'.join(words)}")
    for made in tree.nodes(ast.BinOp):
        if isinstance(made.op, ast.Div) and ast.unparse(made.left).startswith("sum("):
            found.append(f"line {made.lineno}: {_AVERAGE}")
    return found


def test_reports_compute_no_figure() -> None:
    """kit.analysis does, whose dataclasses a report is handed: there simulation can prove it."""
    paths = [path for path in files() if "report" in path.relative_to(ROOT).parts[:-1]]
    assert {path.relative_to(ROOT).parts[0] for path in paths} == {"report", "extra"}
    for path in paths:
        found = computations(parsed(path))
        assert not [line for line in found if path != ROOT / _HAS_A_CLOCK or _AVERAGE not in line], path


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("import numpy as np", True),
        ("def render():\n  from statistics import fmean", True),
        ("from kit.analysis.runs.run_table import Key, Runs", True),
        ("from kit.analysis.runs.compare import compare", True),
        ("from kit.analysis.stats import estimators", True),
        ("values = analysis.runs.values(key, phase, 'real')", True),
        ("runs = part.analysis.runs", True),
        ("item.runs.samples(key)", True),
        ("mean = sum(values) / len(values)", True),
        ("from kit.analysis.runs.compare import MORE, Comparison", False),
        ("from kit.analysis.stats.estimators import Interval", False),
        ("from kit.analysis.session.analyse import analyse, whole_real", False),
        ("sum(bool(machine.runs) for machine in found)", False),
        ("height = sum(row.height for row in rows)", False),
    ],
)
def test_what_computes_a_figure_is_seen(code: str, caught: bool) -> None:
    assert bool(computations(Tree(code))) == caught


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(modules: dict[str, Tree], name: str) -> tuple[set[str], set[str]]:
    """What a module imports, and what it names in strings to be imported on use."""
    tree = modules[name]
    direct = {alias.name for node in tree.nodes(ast.Import) for alias in node.names}
    for node in tree.nodes(ast.ImportFrom):
        if node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            direct |= whole & modules.keys() or {node.module}
    said = [node.value for node in tree.nodes(ast.Constant) if isinstance(node.value, str) and ":" in node.value]
    return direct & modules.keys(), {text.partition(":")[0] for text in said} & modules.keys()


def test_no_cycle_is_hidden_in_import_strings() -> None:
    """Import-linter sees statements alone; what a registry names in a string must not import the registry either."""
    modules = {module_of(path): parsed(path) for path in files()}
    needed = {name: imports(modules, name) for name in modules}
    assert any(named for _, named in needed.values())
    for name, (_, named) in needed.items():
        seen, pending = set(named), list(named)
        while pending:
            direct, further = needed[pending.pop()]
            pending += (direct | further) - seen
            seen |= direct | further
        assert name not in seen, f"{name} names in a string what imports it"


def levels(bases: dict[str, list[str]], name: str) -> int:
    """Return how many classes of the kit lie above a class, on its longest way up."""
    return max((1 + levels(bases, base) for base in bases[name] if base in bases), default=0)


def test_no_class_is_more_than_two_levels_below_its_protocol() -> None:
    """A daemon, its client and a storage driver are parts that an engine has, not classes that it descends from."""
    bases = {
        node.name: [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
        for path in files()
        for node in parsed(path).nodes(ast.ClassDef)
    }
    # What shows the progress of a session adds to what it shows.
    assert {name for name in bases if levels(bases, name) > 2} == {"Live", "TerminalLines"}
    engines = {"BareEngine", "UnionEngine", "PrivateEngine", "SystemEngine", "NestedEngine"}
    assert {name for name in bases if name.endswith("Engine")} == {"Engine", *engines}


def test_sizes() -> None:
    for path in files():
        assert len(path.read_text().splitlines()) <= 700, f"{path} is too long"
        for node in parsed(path).nodes(ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{path}: {node.name} is too long"
