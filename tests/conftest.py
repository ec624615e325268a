import gc
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from kit.arms.image import ImageCache
from kit.core.errors import RunError
from kit.core.paths import find_paths
from tests.beside import apart, group, held_for, leave_caches
from tests.builder import Builder, building, images_of, order, stage, unit_tests
from tests.command_line import Kit, in_fork, in_new_process
from tests.tiny import make_tiny

pytest_plugins = [
    "pytester",
    "tests.bitbake",
    "tests.browser",
    "tests.fake_engine",
    "tests.postgresql",
    "tests.quantiles",
    "tests.receiver",
    *(["tests.extra.fleet.processes"] if (Path(__file__).parent / "extra/fleet").is_dir() else []),
]

#: The same cases every time and on every machine, so that a test fails only where the code has changed. ``long`` looks
#: for new ones, by hand; ``quick`` is for the loop of seconds.
settings.register_profile("same", max_examples=200, deadline=None, derandomize=True, database=None)
settings.register_profile("quick", max_examples=10, deadline=None, derandomize=True, database=None)
settings.register_profile("long", max_examples=10_000, deadline=None, database=None)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def kit_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Everything the kit keeps is in one new directory; nothing that a clean machine lacks is there before."""
    home = tmp_path_factory.mktemp("home")
    before = os.environ.get("KIT_HOME")
    os.environ["KIT_HOME"] = str(home)
    yield home
    if before is None:
        del os.environ["KIT_HOME"]
    else:
        os.environ["KIT_HOME"] = before
    shutil.rmtree(home)


def machine_lacks() -> str:
    """Why tests of the real machine can't be run here, or ''."""
    if os.geteuid() != 0:
        return "needs root: real mounts, daemons and cgroups"
    for tool in ("dockerd", "mmdebstrap", "mkfs.xfs", "mkfs.btrfs", "fuse-overlayfs"):
        if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            return f"needs {tool}: make system installs it"
    return ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of machine tests: one by one in their order, but for groups."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = group
    return scheduler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=order)


def pytest_collection_finish() -> None:
    """What has been collected stays to the end: no collection of garbage looks at it again, in no fork either."""
    gc.collect()
    gc.freeze()


BUILDER = pytest.StashKey[Builder]()


@pytest.fixture(scope="session", autouse=True)
def builder(kit_home: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Images are built while tests run that need none."""
    names = [] if machine_lacks() else images_of(request.session.items)
    with ExitStack() as stack:
        if not any(map(stage, request.session.items)):
            stack.enter_context(unit_tests())
        elif not machine_lacks():
            stack.enter_context(apart(request.config))
        started = stack.enter_context(building(names, tmp_path_factory.mktemp("builder")))
        request.config.stash[BUILDER] = started
        started.wait(stage(request.session.items[0]))
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with held_for(item):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("machine") is None:
        return
    if reason := machine_lacks():
        pytest.skip(reason)
    if BUILDER in item.config.stash:
        item.config.stash[BUILDER].wait(stage(item))


@pytest.fixture(autouse=True)
def _caches(builder: None, request: pytest.FixtureRequest) -> None:
    leave_caches(request.node)


@pytest.fixture(autouse=True)
def _declared(builder: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """An image that nobody has declared would be built while others wait, and measure a busy machine."""
    yield
    if request.node.get_closest_marker("machine") and not machine_lacks():
        missing = request.config.stash[BUILDER].undeclared()
        assert not missing, f"built for a test without @pytest.mark.images: {sorted(missing)}"


@pytest.fixture
def kit(request: pytest.FixtureRequest) -> Kit:
    """Run the real command line in a process of its own: ``kit("compare", …).returncode``, ``.stdout``, ``.stderr``."""
    return in_new_process if request.node.get_closest_marker("machine") else in_fork


@pytest.fixture
def which() -> Callable[[str], Path]:
    """Where a program is, also for a user without the system's directories in PATH."""

    def find(name: str) -> Path:
        found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        assert found, name
        return Path(found)

    return find


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root filesystem of one program (tests/tiny.py)."""
    directory = tmp_path_factory.mktemp("tiny")
    directory.chmod(0o755)  # apt's own user writes there
    return make_tiny(directory)


@pytest.fixture(scope="session")
def uml(kit_home: Path) -> None:
    """It is of a suite that changes by the day: where that can't be had today, nothing of ours is broken."""
    try:
        ImageCache(find_paths().cache).from_recipe("uml")
    except RunError as error:
        pytest.skip(f"needs user-mode-linux of Debian unstable: {error.message}")
