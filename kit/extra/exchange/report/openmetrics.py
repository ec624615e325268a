"""Penalties as OpenMetrics text, for GitLab's metrics report and the textfile collector of Prometheus' node exporter.

No sample has a timestamp, since that collector refuses them. No label changes from session to session, since GitLab
compares a merge request with its target by name and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kit.extra.exchange.report.penalty import Newest, Penalty, newest
from kit.model.metric import SECONDS
from kit.model.session import Session

Labels = Mapping[str, str]
#: Families: name, unit ('' if it has none; else the name's last word), help.
_FAMILIES = (
    ("kit_penalty_ratio", "ratio", "Arm divided by its baseline: 1.056 is 5.6 % more."),
    ("kit_penalty_low_ratio", "ratio", "Lower end of the 95 % interval of kit_penalty_ratio."),
    ("kit_penalty_high_ratio", "ratio", "Upper end of the 95 % interval of kit_penalty_ratio."),
    ("kit_penalty_rounds", "", "Rounds that the penalty rests on."),
    ("kit_run_seconds", "seconds", "Mean of an arm's runs, by metric."),
    ("kit_arm_measured", "", "1 if the arm was measured, 0 if it could not run or has failed."),
    ("kit_session_start_time_seconds", "seconds", "Unix time at which the session began."),
)
_RATIO, _LOW, _HIGH, _ROUNDS, _SECONDS, _MEASURED, _START = (name for name, _, _ in _FAMILIES)
#: GitLab's parser takes what follows a number sign for a comment, also in a label, and refuses the file then: the
#: full-width sign (U+FF03) takes its place.
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "#": "\uff03"})

#: Digits of a value, which hold a Unix time.
_DIGITS = 10


def render_openmetrics(sessions: Sequence[Session]) -> str:
    """Return all families; a family without a sample is left out."""
    figures: dict[str, dict[str, float]] = {name: {} for name, _, _ in _FAMILIES}
    for newest_session in newest(sessions):
        for name, labels, value in _samples(newest_session):
            figures[name][_labels(labels)] = value
    lines = []
    for name, unit, words in _FAMILIES:
        if figures[name]:
            lines += [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {words}"]
            lines += [f"{name}{labels} {value:.{_DIGITS}g}" for labels, value in figures[name].items()]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _samples(newest_session: Newest) -> Iterator[tuple[str, Labels, float]]:
    common = _common(newest_session)
    yield _START, common, newest_session.session.created
    ran = {runs.arm for runs in newest_session.analysis.arms}
    for arm in newest_session.session.arms:
        yield _MEASURED, {**common, "arm": arm}, float(arm in ran)
    for penalty in newest_session.penalties():
        yield from _penalty(penalty, common)


def _common(newest_session: Newest) -> Labels:
    """Return the labels that tell sessions apart, and the marks of figures that were not measured here."""
    session = newest_session.session
    imported = "yes" if newest_session.imported else ""
    return {
        "scenario": session.title,
        "machine": newest_session.machine,
        "guest": newest_session.guest,
        "imported": imported,
    }


def _penalty(penalty: Penalty, common: Labels) -> Iterator[tuple[str, Labels, float]]:
    comparison = penalty.comparison
    figure = {"point": comparison.point, "phase": comparison.phase, "metric": comparison.metric}
    labels = {**common, "arm": comparison.arm, "baseline": comparison.baseline, **figure}
    yield _RATIO, labels, penalty.ratio
    if penalty.low is not None and penalty.high is not None:
        yield _LOW, labels, penalty.low
        yield _HIGH, labels, penalty.high
    yield _ROUNDS, labels, float(comparison.n)
    if comparison.unit == SECONDS:
        for arm, mean in ((comparison.arm, penalty.outcome.mean), (comparison.baseline, penalty.outcome.base_mean)):
            if mean is not None:
                yield _SECONDS, {**common, "arm": arm, **figure}, mean


def _labels(labels: Labels) -> str:
    """Return the labels that have a value: an empty one is the same as none."""
    return "{" + ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels.items() if value) + "}"
