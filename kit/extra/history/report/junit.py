"""A night as JUnit XML: a suite for each task, a case for each arm and each threshold, for any CI to show.

With the standard library: junitparser checks no more than that, leaves characters that XML has none for, and makes a
suite's time the sum of its cases', where ours is the task's with all that was made ready.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from kit.analysis.session.analyse import whole_real
from kit.analysis.session.timing import arm_seconds
from kit.core.sanitize import printable
from kit.extra.history.analysis.night import Night, Part
from kit.extra.history.analysis.regression import MISSING, Finding
from kit.model.session import Session
from kit.report.format.interval import percent_interval
from kit.report.format.verdict import sentence


def render_junit(night: Night) -> str:
    """Return the XML that Jenkins, GitLab and others read. A regression is a failure; an item that could not run is an
    error. An arm that this machine can't run is skipped."""
    root = Element("testsuites", name=printable(night.name))
    for part in night.parts:
        suite = SubElement(root, "testsuite", name=printable(part.name), time=f"{part.seconds:.3f}")
        suite.set("timestamp", time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(night.started)))
        properties = SubElement(suite, "properties")
        for key, value in part.session.facts.items() if part.session else ():
            SubElement(properties, "property", name=printable(key), value=printable(value))
        for case in _cases(part):
            suite.append(case)
        if not len(properties):
            suite.remove(properties)
        _count(suite)
    _count(root)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _cases(part: Part) -> Iterator[Element]:
    if part.session is None:
        yield _with(_case(part, "session"), "error", part.error)
        return
    for arm in part.session.arms:
        yield _arm(part, part.session, arm)
    for finding in part.findings:
        yield _threshold(part, finding)


def _arm(part: Part, session: Session, arm: str) -> Element:
    runs = [sample for sample in session.samples if sample.arm == arm and sample.kind == "measured"]
    case = _case(part, arm, arm_seconds(session, arm))
    blocked = next((entry for entry in session.not_run if entry.arm == arm), None)
    failed = [sample for sample in session.failed if sample.arm == arm]
    if blocked:
        return _with(case, "skipped", f"not run: {blocked.reason}; fix: {blocked.fix}")
    if failed:
        return _with(case, "error", "\n".join(f"round {sample.round}: {sample.error}" for sample in failed))
    if not runs:
        return _with(case, "error", part.error or "the session ended before this arm ran")
    if part.analysis:
        lines = [
            f"{comparison.arm} / {comparison.baseline}: {percent_interval(comparison.estimate)}, "
            f"{sentence(comparison, part.analysis.margin)}"
            for comparison in whole_real(part.analysis.comparisons)
            if comparison.arm == arm
        ]
        SubElement(case, "system-out").text = printable("\n".join(lines) or "a baseline")
    return case


def _threshold(part: Part, finding: Finding) -> Element:
    comparison = finding.comparison
    at = f" at {comparison.point}" if comparison and comparison.point else ""
    case = _case(part, f"{finding.threshold}{at}")
    change = f"{percent_interval(comparison.estimate)}: " if comparison else ""
    text = f"{finding.status}: {change}{finding.why}"
    if finding.fails:
        return _with(case, "failure", text)
    if finding.status == MISSING:
        return _with(case, "error", text)
    SubElement(case, "system-out").text = printable(text)
    return case


def _case(part: Part, name: str, seconds: float = 0.0) -> Element:
    return Element("testcase", classname=printable(f"kit.{part.name}"), name=printable(name), time=f"{seconds:.3f}")


def _with(case: Element, kind: str, message: str) -> Element:
    SubElement(case, kind, message=printable(message.split("\n")[0])).text = printable(message)
    return case


def _count(element: Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        element.set(name, str(len(element.findall(f".//{kind}"))))
