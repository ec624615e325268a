"""Each door of CONTRIBUTING.md is one function, and no other place does what it does: a new one fails here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from tests.sources import Tree, parsed

ROOT = Path(kit.__file__).parent
CONTRIBUTING = ROOT.parent / "CONTRIBUTING.md"

#: Doors for files: they open what others may have written, or put something else in the place of.
_FILES = ("core/regular.py", "core/trusted.py", "core/private.py", "host/durable.py", "host/output_file.py",
          "host/safe_fs/")  # fmt: skip
#: Modules that read and write files of the kernel alone: /proc, /sys, /dev.
_KERNEL = [
    "cli/streams.py", "arms/engines/account.py", "arms/engines/fuse_daemon.py", "arms/engines/user_namespace.py",
    "arms/filesystem/block.py", "arms/filesystem/device.py", "arms/filesystem/mounted.py", "arms/filesystem/nfs.py",
    "arms/filesystem/nfs_server.py", "host/assumptions.py", "host/cgroup/",
    "host/kernel_part.py", "host/lock.py", "host/machine.py", "host/mounts.py", "host/namespace.py",
    "host/recovery/journal.py", "host/setting.py", "host/user_namespace.py",
    "extra/guest/agent.py", "extra/guest/host.py", "extra/guest/qemu.py", "session/setup/caches.py",
    "extra/tracing/copy_ups.py", "extra/tracing/functions.py", "extra/tracing/perf.py",
    "session/measure/background.py",
]  # fmt: skip
#: Modules that read files of the kit's own package: recipes, programs, pages.
_SHIPPED = [
    "arms/filesystem/profile.py", "extra/guest/python.py", "extra/guest/recipe.py",
    "arms/image/recipe.py", "arms/probe/binary.py", "extra/guest/disks.py", "extra/tracing/bpftrace.py",
]  # fmt: skip
#: Modules that open files in directories of the kit's own, which find_paths has checked and nobody else enters, or in
#: the session's. They may not open what a user names, nor what lies in a directory of another user's.
_OWN = [
    "extra/builds/building.py", "extra/builds/buildkitd.py", "extra/builds/probe.py", "arms/engines/container.py",
    "arms/engines/containerd_daemon.py", "arms/engines/containerd_program.py", "arms/engines/installed.py",
    "arms/engines/docker_server.py", "arms/engines/oci_runtime.py", "arms/engines/plain_runtime.py",
    "arms/engines/podman.py", "arms/engines/registry.py", "arms/engines/root.py", "arms/engines/supervisor.py",
    "extra/fleet/certificates.py", "extra/guest/disk.py", "extra/guest/kernel.py", "extra/guest/kernel_cache.py",
    "extra/guest/qemu.py", "extra/guest/tree.py", "arms/filesystem/backing.py", "host/git.py",
    "host/recovery/cleanup.py", "host/recovery/journal.py", "host/remote_cache.py", "arms/image/decompress.py",
    "arms/image/image.py", "arms/image/image_file.py", "arms/image/image_files.py", "arms/image/recipe.py",
    "arms/image/oci_store.py", "arms/probe/client.py", "session/execute/materials.py", "session/inputs/repack.py",
    "session/measure/phase_log.py", "session/measure/workload.py", "session/setup/resumable.py",
    "store/database.py", "store/outbox/outbox.py",
]  # fmt: skip
#: Modules that print themselves: the door of commands, progress, and programs of their own that import no kit.
_PRINT = [
    "cli/streams.py", "report/text/progress.py", "arms/engines/ctr_server.py", "arms/filesystem/nfs_server.py",
    "arms/filesystem/write_back.py",
]  # fmt: skip


_STARTS = {"host/command.py": r"ProcessPoolExecutor|get_context", "core/private.py": r"os\.umask"}


def sources() -> Iterator[tuple[str, Tree]]:
    for path in sorted(ROOT.rglob("*.py")):
        if "_data" not in path.parts:
            yield str(path.relative_to(ROOT)), parsed(path)


def opened(tree: Tree) -> list[str]:
    """Return the calls that open, read or write a file by its path."""
    found = []
    for call in tree.nodes(ast.Call):
        text = ast.unparse(call)
        by_method = isinstance(call.func, ast.Attribute) and (
            call.func.attr in ("read_text", "read_bytes", "write_text", "write_bytes")
            or (call.func.attr == "open" and re.search(r"\.open\((|(mode=)?'[rwabx+]+'.*)\)$", text))
        )
        if by_method or re.match(r"(os\.|io\.)?open\(", text):
            found.append(f"line {call.lineno}: {text}")
    return found


def listed(name: str, *groups: list[str] | tuple[str, ...]) -> bool:
    return any(name == entry or (entry.endswith("/") and name.startswith(entry)) for group in groups for entry in group)


def test_files_are_opened_by_doors_or_are_the_kits_own() -> None:
    """What a user names, what root believes and what is written for a user is opened by a door. A module that opens
    files of the kernel, of the package or of the kit's own directories says so in the lists above."""
    calls = {name: [text for text in opened(tree) if not _of_no_file(text)] for name, tree in sources()}
    unlisted = {
        name: texts for name, texts in calls.items() if texts and not listed(name, _FILES, _KERNEL, _SHIPPED, _OWN)
    }
    assert unlisted == {}, "use a door of CONTRIBUTING.md"


def _of_no_file(text: str) -> bool:
    """Methods of engines, archives and formatters that have these names."""
    return bool(re.search(r"(engine|self|file|files|formatter|_installed\(\))\.(open|write_text|read_text)\(", text))


def test_the_lists_name_modules_that_exist_and_open_files() -> None:
    names = {name: bool(opened(tree)) for name, tree in sources()}
    for entry in (*_FILES, *_KERNEL, *_SHIPPED, *_OWN):
        assert any(opens for name, opens in names.items() if listed(name, [entry])), entry


def test_a_stored_session_does_nothing_before_its_door() -> None:
    """What turns a stored session into commands and files, or compares it with them, asks whether it began here."""
    acting = set()
    for name, tree in sources():
        for function in tree.nodes(ast.FunctionDef):
            calls = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
            if "prepare_begun" in calls and "check_begun" not in calls:
                acting.add(f"{name}:{function.name}")
    assert acting == {
        "session/start.py:_plan_assigned",  # a session that the holder of a client's certificate sends
    }


def starts(tree: Tree) -> list[str]:
    """Return what starts a Python that looks for modules in the current directory, or changes the umask."""
    found = []
    commands: list[ast.List | ast.Tuple] = [*tree.nodes(ast.List), *tree.nodes(ast.Tuple)]
    for command in commands:
        words = [ast.unparse(word) for word in command.elts]
        for number, word in enumerate(words):
            if word in ("sys.executable", "executable") and words[number + 1 : number + 2] not in (["'-I'"], ["'-P'"]):
                found.append(f"line {command.lineno}: {', '.join(words)}")
    for call in tree.nodes(ast.Call):
        text = ast.unparse(call)
        if re.match(r"(os\.umask|(\w+\.)*ProcessPoolExecutor|(\w+\.)*get_context)\(", text):
            found.append(f"line {call.lineno}: {text}")
    return found


def test_one_module_starts_pythons_and_one_sets_the_umask() -> None:
    for name, tree in sources():
        allowed = {"host/command.py": r"ProcessPoolExecutor|get_context", "core/private.py": r"os\.umask"}.get(
            name, "$^"
        )
        assert not [text for text in starts(tree) if not re.search(allowed, text)], name


def gives(tree: Tree) -> list[str]:
    """Return what gives a file to another user, or runs a program as one."""
    calls = [(call.lineno, ast.unparse(call)) for call in tree.nodes(ast.Call)]
    found = [f"line {line}: {text}" for line, text in calls if re.match(r"(os|shutil)\.[lf]?chown\(", text)]
    words = [(word.lineno, word.value) for word in tree.nodes(ast.Constant) if isinstance(word.value, str)]
    return found + [f"line {line}: {text}" for line, text in words if text.startswith(("--reuid", "--regid"))]


def test_one_module_has_directories_of_another_user() -> None:
    """Beside it, a tree of a workload gets an owner: through the door to trees."""
    allowed = ["arms/engines/account.py", "arms/engines/user_namespace.py", "host/safe_fs/"]
    assert {name for name, tree in sources() if gives(tree) and not listed(name, allowed)} == set()


def printed(tree: Tree) -> list[str]:
    """Return what prints on stderr, or past the stream that makes text safe."""
    found = []
    for call in tree.nodes(ast.Call):
        text = ast.unparse(call)
        if re.match(r"print\(|click\.secho\(|sys\.(__)?std(err|out)(__)?\.(buffer|write)", text) or (
            re.match(r"click\.echo\(", text) and any(word.arg in ("err", "file") for word in call.keywords)
        ):
            found.append(f"line {call.lineno}: {text}")
    return found


def test_text_is_printed_by_one_module() -> None:
    """stdout is a stream that lets no character act; on stderr progress draws, so messages pass ``complain``."""
    for name, tree in sources():
        assert listed(name, _PRINT) or not printed(tree), name


def test_every_completion_passes_one_function() -> None:
    tree = parsed(ROOT / "cli/completion.py")
    completions = [node for node in tree.nodes(ast.FunctionDef) if node.name.startswith("complete_")]
    assert len(completions) > 8
    for function in completions:
        answers = [part.value for part in ast.walk(function) if isinstance(part, ast.Return) and part.value]
        safe = [text for text in map(ast.unparse, answers) if "_beginning(" in text or text == "[]"]
        images = function.name == "complete_images" and "_beginning(" in ast.unparse(function)
        assert images or len(safe) == len(answers), function.name
    for name, other in sources():
        for call in other.nodes(ast.Call):
            for word in call.keywords:
                if word.arg == "shell_complete":
                    assert ast.unparse(word.value) in {item.name for item in completions}, f"{name}:{call.lineno}"


@pytest.mark.parametrize(
    ("look", "code", "caught"),
    [
        (opened, "Path(name).read_text()", True),
        (opened, "path.write_bytes(data)", True),
        (opened, "path.open('ab')", True),
        (opened, "with open(name) as file: pass", True),
        (opened, "os.open(name, os.O_RDONLY)", True),
        (opened, "read_text(path, hint)", False),
        (opened, "tarfile.open(fileobj=stream)", False),
        (starts, "run([sys.executable, '-m', 'pip'])", True),
        (starts, "words = ('unshare', sys.executable, program)", True),
        (starts, "with ProcessPoolExecutor(2) as pool: pass", True),
        (starts, "os.umask(0)", True),
        (starts, "run([sys.executable, '-I', program])", False),
        (starts, "run(python_module('pip'))", False),
        (gives, "os.chown(path, user, user)", True),
        (gives, "words = ['setpriv', f'--reuid={user}']", True),
        (gives, "run(['chown', tree])", False),
        (printed, "click.echo(text, err=True)", True),
        (printed, "print(error)", True),
        (printed, "sys.stderr.write(text)", True),
        (printed, "click.echo(text)", False),
        (printed, "complain(text)", False),
    ],
)
def test_a_new_place_is_seen(look: object, code: str, caught: bool) -> None:
    assert callable(look) and bool(look(Tree(code))) == caught


@pytest.mark.skipif(not CONTRIBUTING.exists(), reason="the kit is tested without its documents")
def test_the_table_of_doors_names_functions_that_exist() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", CONTRIBUTING.read_text(encoding="utf-8"), re.MULTILINE)
    doors = [row for row in rows if row[0] not in ("what", "---")]
    assert len(doors) >= 7
    for what, functions, check in doors:
        for module, name in re.findall(r"`(kit/[\w/]+\.py):(\w+)`", functions):
            names = {node.name for node in parsed(ROOT.parent / module).nodes(ast.FunctionDef)}
            names |= {node.name for node in parsed(ROOT.parent / module).nodes(ast.ClassDef)}
            assert name in names, f"{what}: {module}:{name}"
        for path in re.findall(r"`(tests/[\w/]+\.py)`", check):
            assert (ROOT.parent / path).is_file(), f"{what}: {path}"
