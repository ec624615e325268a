"""What the fixture ``kit_compare`` does: benchmarks as tests of users' own projects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.core.errors import KitError
from kit.extra.pytest_plugin.check import WARN, check
from kit.extra.pytest_plugin.runner import NOT_MEASURED, RUNNER
from kit.model.options import in_words_of_pytest

if TYPE_CHECKING:
    from kit.analysis.runs.compare import Comparison
    from kit.model.session import Request, Session

DEFAULT_ARMS = ("bare", "layer:overlay2")


@dataclass(frozen=True)
class Result:
    """What ``kit_compare`` returns: the session and its comparisons."""

    session: Session
    comparisons: tuple[Comparison, ...]

    def of(self, arm: str, metric: str = "real", phase: str = "") -> Comparison:
        """Return the comparison of one arm with its baseline, by default of the whole run. Raises KeyError with the
        existing ones if it is missing."""
        of_arm = [comparison for comparison in self.comparisons if (comparison.arm, comparison.metric) == (arm, metric)]
        # The whole run comes last.
        matching = [comparison for comparison in of_arm if comparison.phase == phase] if phase else of_arm[-1:]
        if matching:
            return matching[0]
        names = sorted({f"{comparison.arm} {comparison.metric} {comparison.phase}" for comparison in self.comparisons})
        raise KeyError(f"no comparison {arm} {metric} {phase}; there are: {', '.join(names)}")

    def check(self, threshold: str, undecided: str = WARN) -> None:
        """``check("layer:overlay2 build < 10 %")``: raises an AssertionError that prints the comparison, interval
        included, where the whole interval lies above the limit. ``undecided="fail"``: also where the limit lies in it.
        """
        from kit.analysis.session.threshold import parse_threshold

        request = self.session.request
        check(parse_threshold(threshold, request.engine), self.comparisons, undecided, request.margin)


def comparing(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Return the function that the fixture gives to a test."""

    def compare(command: Sequence[str] = (), **keywords: Any) -> Result:
        from kit.analysis.session.analyse import analyse
        from kit.analysis.session.threshold import parse_threshold
        from kit.session.plan.check import check_request, limits_note

        __tracebackhide__ = True
        try:
            measured_request = _request(request, command, keywords)
            thresholds = [
                (parse_threshold(marker.args[0], measured_request.engine), marker.kwargs.get("undecided", WARN))
                for marker in request.node.iter_markers("kit_threshold")
            ]
            limits = [threshold for threshold, _ in thresholds]
            plan = check_request(measured_request, limits, here=not request.config.getoption("kit_fleet")).plan
            session = request.config.stash[RUNNER].run(measured_request, limits_note(limits, plan))
        except KitError as error:
            raise _not_measured(request, in_words_of_pytest(error)) from None
        except pytest.UsageError as error:
            raise _not_measured(request, str(error)) from None
        if session.not_run:
            reasons = [f"{blocked.arm} not run: {blocked.reason}; fix: {blocked.fix}" for blocked in session.not_run]
            raise _not_measured(request, "\n".join(reasons))
        _fail_unless_whole(session)
        result = Result(session, analyse(session).comparisons)
        _record(request, result)
        for threshold, undecided in thresholds:
            check(threshold, result.comparisons, undecided, measured_request.margin)
        return result

    return compare


def _request(request: pytest.FixtureRequest, command: Sequence[str], keywords: dict[str, Any]) -> Request:
    from kit.model.arm import arm_names
    from kit.model.session import Request

    settings: dict[str, Any] = request.config.stash[RUNNER].settings()
    settings |= {key: str(value) if isinstance(value, Path) else value for key, value in keywords.items()}
    marker = request.node.get_closest_marker("kit_scenario")
    if not command and marker and "scenario" not in settings:
        settings["scenario"] = marker.args[0]
        settings["params"] = tuple((key, str(value)) for key, value in marker.kwargs.items())
    if bool(command) == bool(settings.get("scenario")):
        pytest.fail("kit_compare: give a command, or a scenario, for example @pytest.mark.kit_scenario('smoke')", False)
    arms = settings.pop("arms", None)
    if arms is None:
        marker = request.node.get_closest_marker("kit_arms")
        arms = marker.args if marker else DEFAULT_ARMS
    listed = arms if isinstance(arms, str) else ",".join(arms)
    return Request(command=tuple(command), arms=arm_names(listed), **settings)


def _fail_unless_whole(session: Session) -> None:
    if session.failed:
        pytest.fail("\n".join(f"{run.arm}, round {run.round}: {run.error}" for run in session.failed), False)


def _not_measured(request: pytest.FixtureRequest, reason: str) -> BaseException:
    """Return the error of a test whose arms could not be compared."""
    error: BaseException = pytest.fail.Exception(reason, pytrace=False)
    request.node.stash[NOT_MEASURED] = error
    return error


def _record(request: pytest.FixtureRequest, result: Result) -> None:
    """Record properties of the test, for junitxml and other readers."""
    from kit.analysis.session.analyse import whole_real
    from kit.report.format.interval import percent_interval

    request.node.user_properties.append(("kit session", result.session.id))
    for comparison in whole_real(result.comparisons):
        at = f" at {comparison.point}" if comparison.point else ""
        text = f"{percent_interval(comparison.estimate)} of {comparison.baseline}"
        request.node.user_properties.append((f"kit {comparison.arm}{at}", text))
