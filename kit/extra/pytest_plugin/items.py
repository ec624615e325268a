"""Scenario files as test files, their arms as tests: a plugin of its own, registered where --kit-arms is given."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.core.errors import KitError, UsageError
from kit.core.regular import read_text
from kit.extra.pytest_plugin.check import PenaltyError, check
from kit.extra.pytest_plugin.runner import RUNNER
from kit.model.options import SessionOptions, in_words_of_pytest

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from kit.analysis.session.threshold import Threshold
    from kit.model.session import Request, Session


class ArmFailedError(Exception):
    """A run of the arm failed; its last lines are the message."""


class ScenarioFile(pytest.File):
    """One scenario file; its tests are the arms, including added baselines."""

    thresholds: Sequence[Threshold] = ()  # known once it is collected, as is the next
    note = ""  # the warning of too few rounds for them

    def collect(self) -> Iterator[pytest.Item]:
        from kit.session.plan.check import check_request, limits_note

        try:
            self.thresholds = self._thresholds()
            here = not self.config.getoption("kit_fleet")
            plan = check_request(self.request(()), self.thresholds, here=here).plan
        except KitError as error:
            raise self.CollectError(in_words_of_pytest(error)) from None
        self.note = limits_note(self.thresholds, plan)
        for arm in plan.arms:
            item: pytest.Item = ScenarioItem.from_parent(self, name=str(arm))
            yield item

    def _thresholds(self) -> list[Threshold]:
        """Return the thresholds of the command line. Raises UsageError."""
        from kit.analysis.session.threshold import parse_threshold

        engine = SessionOptions(**self.config.stash[RUNNER].settings()).engine
        return [parse_threshold(text, engine) for text in self.config.getoption("kit_threshold")]

    @property
    def scenario(self) -> str:
        variant = self.config.getoption("kit_variant")
        return f"{self.path}:{variant}" if variant else str(self.path)

    def request(self, arms: tuple[str, ...]) -> Request:
        """Return the request with these arms, by default those of the command line. Raises UsageError."""
        from kit.core.quantity import pairs
        from kit.model.arm import arm_names
        from kit.model.session import Request

        option = self.config.getoption
        if not arms and option("kit_arms") != "default":
            filesystems = tuple(name.strip() for name in option("kit_fs").split(",") if name.strip())
            arms = arm_names(option("kit_arms"), filesystems)
        params = pairs(tuple(option("kit_param")), "--kit-param")
        return Request(scenario=self.scenario, params=params, arms=arms, **self.config.stash[RUNNER].settings())


class ScenarioItem(pytest.Item):
    """One arm of one scenario. The first to run starts the whole session, with all arms interleaved."""

    parent: ScenarioFile
    seconds: float | None = None  # that this arm's own runs took

    def runtest(self) -> None:
        runner = self.config.stash[RUNNER]
        path = self.parent.path
        if path not in runner.by_scenario:
            chosen = [item.name for item in self.session.items if isinstance(item, ScenarioItem) and item.path == path]
            runner.by_scenario[path] = runner.run(self.parent.request(tuple(chosen)), self.parent.note)
        session = runner.by_scenario[path]
        samples = [sample for sample in session.samples if sample.arm == self.name]
        self.seconds = sum(
            (sample.engine_seconds or 0.0) + sum(phase.real or 0.0 for phase in sample.phases) for sample in samples
        )
        for blocked in session.not_run:
            if blocked.arm == self.name:
                pytest.skip(f"not run: {blocked.reason}; fix: {blocked.fix}")
        failed = [sample for sample in session.failed if sample.arm == self.name]
        if failed:
            raise ArmFailedError(
                "\n".join(f"round {sample.round}: {sample.error}\n  {sample.log}" for sample in failed)
            )
        if not samples:
            raise ArmFailedError("the session ended before this arm ran")
        self._judge(session)

    def _judge(self, session: Session) -> None:
        from kit.analysis.session.analyse import analyse, whole_real
        from kit.report.format.interval import percent_interval

        comparisons = analyse(session).comparisons
        self.user_properties.append(("kit session", session.id))
        for comparison in whole_real(comparisons):
            if comparison.arm == self.name:
                text = f"{percent_interval(comparison.estimate)} of {comparison.baseline}"
                self.user_properties.append((f"kit real{' ' if comparison.point else ''}{comparison.point}", text))
        for threshold in self.parent.thresholds:
            if threshold.arm == self.name:
                check(threshold, comparisons, margin=session.request.margin)

    def repr_failure(self, excinfo: ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        if isinstance(excinfo.value, ArmFailedError | KitError | PenaltyError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.path.stem}[{self.name}]"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".toml" or not file_path.is_file():
        return None
    try:
        text = read_text(file_path, "name a scenario file")
    except UsageError:
        return None
    if "[[phases]]" not in text:
        return None  # some other TOML file
    collector: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collector


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Set the duration of each arm's own runs: the first arm runs all arms, interleaved."""
    report = yield
    if isinstance(item, ScenarioItem) and call.when == "call" and item.seconds is not None:
        report.duration = item.seconds
    return report
