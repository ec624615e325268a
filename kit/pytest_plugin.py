"""pytest: scenario files collected as benchmarks, one test per scenario and arm; a fixture for tests of one's own.

Inactive unless --kit-arms is given or the fixture is used. The process enters a private mount namespace when it
measures as root, so what it mounts is not seen outside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.errors import KitError

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from kit.compare import Comparison
    from kit.record import Request, Session

_DEFAULT_ARMS = "bare,layer:overlay2"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kit", "storage driver test kit")
    group.addoption(
        "--kit-arms", metavar="A,B,…", help="collect scenario files and run them on these arms; 'default': all"
    )
    group.addoption("--kit-rounds", type=int, default=3, metavar="N", help="runs of every arm (default 3)")
    group.addoption("--kit-cache", choices=("warm", "cold"), default="warm", help="state of the caches (default warm)")
    group.addoption("--kit-seed", type=int, default=0, metavar="S", help="order of the runs (default random, recorded)")
    group.addoption("--kit-param", action="append", default=[], metavar="K=V", help="a parameter of the scenarios")
    group.addoption("--kit-fs", default="", metavar="FS,FS", help="put arms that name no filesystem on each of these")
    group.addoption("--kit-load", default="", metavar="SCENARIO", help="run this beside every run, niced")
    group.addoption(
        "--kit-guest", choices=("auto", "qemu", "uml"), default="", help="boot a guest kernel and run them in it"
    )
    group.addoption("--kit-variant", default="", metavar="NAME", help="variant of the scenarios, for example short")
    group.addoption(
        "--kit-engine", choices=("docker", "system"), default="docker", help="private daemons or the running"
    )
    group.addoption("--kit-store", default="", metavar="URL", help="database of results")
    group.addoption("--kit-json", metavar="FILE", help="write sessions, samples and comparisons")


@dataclass
class Bench:
    """What this pytest session has measured."""

    config: pytest.Config
    sessions: list[Session] = field(default_factory=list)
    by_scenario: dict[Path, Session] = field(default_factory=dict)

    def run(self, request: Request) -> Session:
        from kit.launch import Patience, launch
        from kit.paths import find_paths
        from kit.store import open_store

        refuse_xdist(self.config)
        paths = find_paths()
        store = open_store(self.config.getoption("kit_store"), paths.data / "kit.db")
        session = launch(request, paths, store, _observer(self.config), Patience())
        self.sessions.append(session)
        return session


_BENCH = pytest.StashKey[Bench]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BENCH] = Bench(config)
    if config.getoption("kit_arms"):
        refuse_xdist(config)


def refuse_xdist(config: pytest.Config) -> None:
    """Benchmarks must not share a machine. Raises pytest.UsageError under xdist."""
    if hasattr(config, "workerinput") or config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError("kit: benchmarks must not share a machine with other tests: run without -n / xdist")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not parent.config.getoption("kit_arms") or file_path.suffix != ".toml":
        return None
    if "[[phases]]" not in file_path.read_text(encoding="utf-8", errors="replace"):
        return None  # some other TOML file
    collector: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collector


class ScenarioFile(pytest.File):
    """One scenario file; its tests are the arms, baselines that had to be added included."""

    def collect(self) -> Iterator[pytest.Item]:
        from kit.launch import find_scenario
        from kit.perform import plan_of

        try:
            find_scenario(self.scenario)
            arms = plan_of(self.request(())).arms
        except KitError as error:
            raise self.CollectError(str(error)) from None
        for arm in arms:
            item: pytest.Item = ScenarioItem.from_parent(self, name=str(arm))
            yield item

    @property
    def scenario(self) -> str:
        variant = self.config.getoption("kit_variant")
        return f"{self.path}:{variant}" if variant else str(self.path)

    def request(self, arms: tuple[str, ...]) -> Request:
        from kit.arm import parse_arms
        from kit.quantity import pairs
        from kit.record import Request

        option = self.config.getoption
        if not arms and option("kit_arms") != "default":
            filesystems = tuple(name.strip() for name in option("kit_fs").split(",") if name.strip())
            arms = tuple(map(str, parse_arms(option("kit_arms"), option("kit_engine"), filesystems)))
        return Request(
            scenario=self.scenario,
            params=pairs(tuple(option("kit_param")), "--kit-param"),
            arms=arms,
            engine=option("kit_engine"),
            rounds=option("kit_rounds"),
            seed=option("kit_seed"),
            cache=option("kit_cache"),
            load=option("kit_load"),
            guest=option("kit_guest"),
        )


class ScenarioItem(pytest.Item):
    """One arm of one scenario. The first to run has the whole session run, all arms interleaved."""

    parent: ScenarioFile

    def runtest(self) -> None:
        bench = self.config.stash[_BENCH]
        path = self.parent.path
        if path not in bench.by_scenario:
            chosen = [item.name for item in self.session.items if isinstance(item, ScenarioItem) and item.path == path]
            bench.by_scenario[path] = bench.run(self.parent.request(tuple(chosen)))
        session = bench.by_scenario[path]
        for blocked in session.not_run:
            if blocked.arm == self.name:
                pytest.skip(f"not run: {blocked.reason}; fix: {blocked.fix}")
        failed = [sample for sample in session.samples if sample.arm == self.name and sample.status != "ok"]
        if failed:
            raise ArmFailedError(
                "\n".join(f"round {sample.block}: {sample.error}\n  {sample.log}" for sample in failed)
            )
        if not any(sample.arm == self.name for sample in session.samples):
            raise ArmFailedError("the session ended before this arm ran")

    def repr_failure(self, excinfo: ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        if isinstance(excinfo.value, ArmFailedError | KitError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.path.stem}[{self.name}]"


class ArmFailedError(Exception):
    """A run of the arm failed; its last lines are the message."""


@dataclass(frozen=True)
class Result:
    """What ``kit_compare`` returns: the session and its comparisons."""

    session: Session
    comparisons: tuple[Comparison, ...]

    def of(self, arm: str, metric: str = "real", phase: str = "run") -> Comparison:
        """The comparison of one arm with its baseline. Raises KeyError if there is none, and says what there is."""
        for item in self.comparisons:
            if (item.arm, item.metric, item.phase) == (arm, metric, phase):
                return item
        known = sorted({f"{item.arm} {item.metric} {item.phase}" for item in self.comparisons})
        raise KeyError(f"no comparison {arm} {metric} {phase}; there are: {', '.join(known)}")


@pytest.fixture
def kit_compare(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Run a command on arms: ``kit_compare(["make"], arms="bare,layer:overlay2", source=path, rounds=3)``.

    Keywords are those of kit.record.Request. Fails the test if a run fails or an arm can't run here.
    """

    def compare(command: list[str] | tuple[str, ...], arms: str = _DEFAULT_ARMS, **keywords: Any) -> Result:
        from kit.arm import parse_arms
        from kit.compare import compare as compare_samples
        from kit.record import Request

        engine = keywords.get("engine", "docker")
        names = tuple(str(arm) for arm in parse_arms(arms, engine))
        texts: dict[str, Any] = {
            key: str(value) if isinstance(value, Path) else value for key, value in keywords.items()
        }
        session = request.config.stash[_BENCH].run(Request(command=tuple(command), arms=names, **texts))
        if session.not_run:
            pytest.fail(
                "\n".join(f"{item.arm} not run: {item.reason}; fix: {item.fix}" for item in session.not_run), False
            )
        failed = [sample for sample in session.samples if sample.status != "ok"]
        if failed:
            pytest.fail("\n".join(f"{sample.arm}, round {sample.block}: {sample.error}" for sample in failed), False)
        return Result(session, compare_samples(session.samples, session.baselines))

    return compare


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    from kit.report import render

    for session in config.stash[_BENCH].sessions:
        terminalreporter.section(f"kit {session.title}")
        terminalreporter.write_line(render("table", session))


def pytest_sessionfinish(session: pytest.Session) -> None:
    from kit.report import render

    name = session.config.getoption("kit_json")
    sessions = session.config.stash[_BENCH].sessions
    if not name or not sessions:
        return
    documents = [json.loads(render("json", item)) for item in sessions]
    whole = documents[0] if len(documents) == 1 else {"schema": documents[0]["schema"], "sessions": documents}
    Path(name).write_text(json.dumps(whole, indent=1), encoding="utf-8")


def _observer(config: pytest.Config) -> Any:
    """Progress through pytest's own terminal, past its capture."""
    from kit.progress import Lines

    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    class Observer(Lines):
        def tell(self, text: str) -> None:
            if reporter is None or config.get_verbosity() < 0:
                return
            with capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(text)

    return Observer()
