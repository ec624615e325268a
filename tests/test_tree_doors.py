"""The doors to what others have packed or made: what goes around one is found here (CONTRIBUTING, Doors)."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import kit
from tests.sources import Tree, parsed

ROOT = Path(kit.__file__).parent
#: Packages that work in trees of others: of workloads, images, sources.
_IN_TREES = ("arms/engines", "arms/image", "extra/builds", "extra/guest", "session")
#: Modules that write by path, how often, and why no other user or workload could have put a symlink there.
_OWN_PLACES = {
    "arms/engines/account.py": (2, "the session's run directory"),
    "extra/builds/building.py": (3, "the base's context; this one's, before the sources are in it"),
    "extra/builds/buildkitd.py": (1, "the daemon's directory"),
    "extra/builds/dockerfile.py": (1, "runs in the build"),
    "extra/builds/probe.py": (2, "a pipe; the directory of Dockerfiles"),
    "arms/engines/container.py": (1, "/dev/null"),
    "arms/engines/containerd_daemon.py": (1, "the daemon's directory"),
    "arms/engines/containerd_program.py": (1, "the daemon's directory"),
    "arms/engines/control.py": (1, "the arm's control directory, new"),
    "arms/engines/docker.py": (1, "the arm's control directory"),
    "arms/engines/docker_server.py": (2, "the daemon's directory"),
    "arms/engines/oci_runtime.py": (2, "the daemon's directory"),
    "arms/engines/plain_runtime.py": (1, "the bundle, of the engine that calls it"),
    "arms/engines/podman.py": (2, "the daemon's directory"),
    "arms/engines/registry.py": (2, "the registry's directory"),
    "arms/engines/supervisor.py": (1, "the daemon's directory"),
    "extra/guest/disk.py": (1, "a scratch directory of the cache"),
    "extra/guest/kernel_cache.py": (1, "a scratch directory of the cache"),
    "extra/guest/python.py": (3, "a scratch directory of the cache"),
    "extra/guest/qemu.py": (2, "the session's log; a directory of the cache"),
    "extra/guest/tree.py": (1, "a scratch directory of the cache"),
    "extra/guest/uml.py": (1, "the guest's run directory"),
    "arms/image/decompress.py": (1, "a scratch directory of the cache"),
    "arms/image/go_programs.py": (2, "a scratch directory of the cache"),
    "arms/image/image.py": (1, "the lock of a cached image"),
    "arms/image/image_file.py": (1, "a scratch directory of the cache"),
    "arms/image/image_files.py": (1, "a scratch directory of the cache"),
    "arms/image/oci_store.py": (5, "a scratch directory"),
    "arms/image/recipe.py": (4, "the log of a recipe, in the cache; a scratch directory of the cache"),
    "session/execute/materials.py": (5, "a scratch directory of the cache; logs; one runs in the sandbox"),
    "extra/guest/host.py": (1, "the session's logs"),
    "extra/guest/disks.py": (3, "the session's state; a scratch directory of the cache"),
    "session/inputs/repack.py": (1, "a scratch directory of the cache"),
    "session/measure/background.py": (2, "/proc; the session's logs"),
    "session/measure/phase_log.py": (2, "the session's logs"),
    "session/measure/workload.py": (1, "the session's logs"),
    "session/setup/caches.py": (1, "/proc"),
}
_WRITES = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"}
_OF_MODULES = {
    "shutil": {"copy", "copy2", "copyfile", "copytree"}, "os": {"link", "symlink", "mkfifo", "mknod"},
}  # fmt: skip
_PROGRAMS = {"cp", "mv", "ln", "install"}


def _called(call: ast.Call) -> tuple[str, str]:
    """Return the module or object, and the name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return ast.unparse(call.func.value), call.func.attr
    return "", getattr(call.func, "id", "")


def _words(nodes: list[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _first_words(tree: Tree) -> list[tuple[int, list[str]]]:
    """Return the constant words of each list, which may be a command line."""
    lists: list[ast.List | ast.Tuple] = [*tree.nodes(ast.List), *tree.nodes(ast.Tuple)]
    return [(node.lineno, _words(node.elts)) for node in lists if node.elts and isinstance(node.elts[0], ast.Constant)]


def writes_by_path(tree: Tree) -> list[str]:
    found = []
    for call in tree.nodes(ast.Call):
        of, name = _called(call)
        mode = any(set(word) & set("wax+") and len(word) <= 3 for word in _words(call.args))
        if name in _WRITES or name in _OF_MODULES.get(of, ()) or (name == "open" and of != "os" and mode):
            found.append(f"line {call.lineno}: {name}")
    found += [f"line {line}: {words[0]}" for line, words in _first_words(tree) if words and words[0] in _PROGRAMS]
    return found


def opens_archives(tree: Tree) -> list[str]:
    """Archives, and decompression without a bound."""
    found = []
    for call in tree.nodes(ast.Call):
        of, name = _called(call)
        opened = of.split(".")[0] in ("tarfile", "TarFile") and name in ("open", "TarFile", "fromtarfile", "is_tarfile")
        if opened or (of in ("gzip", "bz2", "lzma", "zlib") and name in ("decompress", "open")):
            found.append(f"line {call.lineno}: {of}.{name}")
    found += [f"line {line}: {words[0]}" for line, words in _first_words(tree) if "-dc" in words[1:2]]
    return found


def identifies_by_time(tree: Tree) -> list[str]:
    """A size and a time that any program sets: neither shows that a content is the same."""
    return [f"line {node.lineno}" for node in tree.nodes(ast.Attribute) if node.attr in ("st_mtime_ns", "st_mtime")]


def reads_repositories(tree: Tree) -> list[str]:
    return [f"line {line}: {' '.join(words)}" for line, words in _first_words(tree) if words and words[0] == "git"]


#: What is looked for, where it may be, and why there.
_DOORS: dict[str, tuple[Callable[[Tree], list[str]], dict[str, str]]] = {
    "reading an archive": (
        opens_archives,
        {
            "host/tarball.py": "the door",
            "arms/image/decompress.py": "the door to compressed ones",
        },
    ),
    "what identifies inputs": (
        identifies_by_time,
        {
            "session/prune.py": "an age", "host/cache_use.py": "an age",
            "extra/guest/disk.py": "an age", "host/assumptions.py": "an age",
            "extra/exchange/timed_runs.py": "when a file was written, for people",
            "host/safe_fs/dir_walker.py": "the time itself is restored",
            "arms/engines/installed.py": "within one process",
            "arms/image/image.py": "whether a directory is new",
            "session/setup/caches.py": "cached pages, within one session",
            "host/page_cache.py": "whether a store moves it", "extra/tracing/copy_ups.py": "copies are given the time",
        },
    ),
    "reading a repository": (
        reads_repositories,
        {"host/git.py": "the door", "session/inputs/sources.py": "git ls-remote and git clone, by git upload-pack"},
    ),
}  # fmt: skip


def modules() -> list[tuple[str, Tree]]:
    paths = sorted(path for path in ROOT.rglob("*.py") if "_data" not in path.parts)
    return [(str(path.relative_to(ROOT)), parsed(path)) for path in paths]


@pytest.mark.parametrize("door", _DOORS)
def test_nothing_goes_around_a_door(door: str) -> None:
    look, permitted = _DOORS[door]
    found = {name: places for name, tree in modules() if (places := look(tree))}
    assert {name: places for name, places in found.items() if name not in permitted} == {}, f"{door}: use it"
    assert permitted.keys() - found.keys() == set(), "no longer needed here"


def test_what_is_written_by_path_is_in_a_place_of_the_kits_own() -> None:
    """A new place writes by kit.host.safe_fs (new_file, copy_directory), or is counted above with the reason."""
    found = {
        name: writes for name, tree in modules() if name.startswith(_IN_TREES) and (writes := writes_by_path(tree))
    }
    counts = {name: len(writes) for name, writes in found.items()}
    known = {name: number for name, (number, _) in _OWN_PLACES.items()}
    assert counts == known, {name: found.get(name) for name in counts if counts[name] != known.get(name)}


@pytest.mark.parametrize(
    ("look", "code", "caught"),
    [
        (writes_by_path, "(tree / name).write_text(text)", True),
        (writes_by_path, "shutil.copytree(top, tree)", True),
        (writes_by_path, "open(path, 'wb')", True),
        (writes_by_path, "path.open('xb')", True),
        (writes_by_path, "run(['cp', '-a', source, tree])", True),
        (writes_by_path, "os.symlink(a, b)", True),
        (writes_by_path, "path.open('rb')", False),
        (writes_by_path, "new_file(tree, 'wax', data)", False),
        (opens_archives, "tarfile.open(path)", True),
        (opens_archives, "tarfile.TarFile.open(path)", True),
        (opens_archives, "gzip.decompress(data)", True),
        (opens_archives, "reading(['zstd', '-dc', path])", True),
        (opens_archives, "read_tarball(path)", False),
        (opens_archives, "zlib.crc32(data)", False),
        (identifies_by_time, "path.stat().st_mtime_ns", True),
        (identifies_by_time, "identity(path)", False),
        (reads_repositories, "run(['git', '-C', directory, 'log'])", True),
        (reads_repositories, "git(directory, 'log')", False),
    ],
)
def test_what_goes_around_is_seen(look: Callable[[Tree], list[str]], code: str, caught: bool) -> None:
    assert bool(look(Tree(code))) == caught
