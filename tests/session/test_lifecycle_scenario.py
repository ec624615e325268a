"""scenarios/lifecycle: what its client makes of an engine's answers."""

from types import ModuleType

import pytest

from kit.arms.engines.docker_server import requested_name
from tests.scenario_scripts import load_script


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_script("lifecycle/engine", monkeypatch)


@pytest.mark.parametrize("runtime", ["", "runc", "runsc"])
def test_its_containers_have_the_arms_runtime_but_no_plain_directory(engine: ModuleType, runtime: str) -> None:
    expected = requested_name(runtime, plain=False)
    assert engine.direct_runtime(requested_name(runtime, plain=True)) == expected
    assert engine.direct_runtime(expected) == expected


def test_a_runtime_of_the_users_own_is_kept(engine: ModuleType) -> None:
    assert engine.direct_runtime("runc") == "runc"


FRAME = "\x01\x00\x00\x00\x00\x00\x00\x1c"
DIGEST = "0123456789abcdef0123456789abcdef  /large\n"


def test_the_page_cache_grows_between_the_two_looks_of_a_container(engine: ModuleType) -> None:
    log = f"{FRAME}Cached:          1000 kB\n{FRAME}{DIGEST}{FRAME}Cached:          17384 kB\n"
    assert engine.cached_between(log) == 16384


@pytest.mark.parametrize(
    "log",
    [
        "",
        f"Cached: 1000 kB\n{DIGEST}",
        f"{DIGEST}Cached: 1000 kB\n",
        f"Cached: 1000 kB\n{DIGEST}Cached: 17",
        "Cached: 1000 kB\nmd5sum: can't open '/large'\nCached: 1000 kB\n",
        f"Cached: 1000 kB\n{DIGEST}Cached: 1000 kB\nCached: 1000 kB\n",
    ],
)
def test_a_log_that_is_not_complete_is_no_figure(engine: ModuleType, log: str) -> None:
    with pytest.raises(SystemExit, match="reads /large printed"):
        engine.cached_between(log)
