"""Sizes, and what one module alone may do. Layers and cycles: import-linter, by pyproject.toml."""

import ast
from pathlib import Path

import pytest

import kit

ROOT = Path(kit.__file__).parent


def files() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if "_data" not in path.parts)


def packages() -> list[Path]:
    return sorted(path.parent for path in ROOT.rglob("__init__.py") if "_data" not in path.parts)


def test_each_package_says_what_it_owns_and_the_document_draws_it() -> None:
    drawn = (ROOT.parent / "docs/architecture.md").read_text() if (ROOT.parent / "docs").is_dir() else None
    for path in packages():
        said = ast.get_docstring(ast.parse((path / "__init__.py").read_text())) or ""
        assert len(said) > 60, path
        if drawn and path.parent == ROOT:
            assert f"`{path.name}`" in drawn, f"docs/architecture.md lacks {path.name}"


def test_nothing_lies_beside_the_packages() -> None:
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_one_word_one_thing() -> None:
    """A public class's name says what it is, wherever it is met."""
    where: dict[str, list[str]] = {}
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in where.items() if len(found) > 1} == {}


def test_no_test_module_imports_another() -> None:
    """What several need lies beside conftest: a test that is imported runs twice, and its fixtures with it."""
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(part.startswith("test_") for name in names for part in name.split(".")), path


def deletions_and_unpackings(tree: ast.Module) -> list[str]:
    """What removes a directory with what is below it, unpacks an archive, or moves over filesystems by doing so."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("shutil", "os", "tarfile", "zipfile")
        for alias in node.names
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            of = node.value.id if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""
            whole = name in ("rmtree", "TemporaryDirectory", "extractall", "unpack_archive", "removedirs", "fwalk")
            if whole or ((of == "shutil" or name in imported) and name == "move"):
                found.append(f"line {node.lineno}: {name}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "extract":
            found.append(f"line {node.lineno}: extract")
        elif isinstance(node, ast.List | ast.Tuple | ast.Call):
            words = node.args if isinstance(node, ast.Call) else node.elts
            said = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            if said and _unpacks_or_deletes(said):
                found.append(f"line {node.lineno}: {' '.join(said)}")
        elif isinstance(node, ast.For) and _walks_and_deletes(node):
            found.append(f"line {node.lineno}: a walk with deletions")
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
    """What is below a directory may have been written by a workload: kit.host.beneath goes there by descriptors."""
    for path in files():
        if path.parent.name != "beneath" and path.name != _WALKS_CONTROL_GROUPS:
            assert not deletions_and_unpackings(ast.parse(path.read_text())), path


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("shutil.rmtree(path)", True),
        ("with tempfile.TemporaryDirectory(dir=cache) as scratch: build(scratch)", True),
        ("from shutil import rmtree\nstack.callback(rmtree, path)", True),
        ("tar.extractall(path)", True),
        ("tar.extract(member, path)", True),
        ("run(['tar', '-xpf', archive, '-C', path])", True),
        ("words = ['tar', *options, '--extract']", True),
        ("run(['rm', '-rf', path])", True),
        ("shutil.move(a, b)", True),
        ("for top, _, names in os.walk(path):\n  for name in names: os.unlink(top + name)", True),
        ("for item in path.rglob('*'): item.unlink()", True),
        ("run(['tar', '-xOf', rootfs, name])", False),
        ("run(['tar', '-C', path, '-cf', '-', '.'])", False),
        ("reader.extractfile(member)", False),
        ("for top, _, names in os.walk(path): read(top)", False),
        ("path.unlink(missing_ok=True)", False),
        ("shutil.copy(a, b)", False),
    ],
)
def test_what_removes_and_unpacks_is_seen(code: str, caught: bool) -> None:
    assert bool(deletions_and_unpackings(ast.parse(code))) == caught


def test_sizes() -> None:
    lengths = sorted(len(path.read_text().splitlines()) for path in files())
    assert lengths[len(lengths) // 2] < 150
    assert lengths[-1] <= 400
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{path}: {node.name} is too long"
