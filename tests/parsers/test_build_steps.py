"""The parts of an image build, from the outputs of real builds."""

import pytest

from kit.core.errors import RunError
from kit.parsers import parse_report
from tests.build_output import BUILDAH, BUILDKIT, BUILDKIT_CACHED, CACHED, CLASSIC


def figures(name: str, text: str) -> dict[str, object]:
    summed = parse_report(name, text).summed()
    assert not summed.tasks
    return {figure.name: pytest.approx(figure.value, abs=1e-4) for figure in summed.figures}


@pytest.mark.parametrize(
    ("name", "text", "expected", "whole"),
    [
        (
            "build-steps", CLASSIC,
            {"context": 0.5, "metadata": 0.4, "copy": 0.6, "start": 0.8, "run": 10.0, "commit": 0.5, "finish": 0.2}, 13,
        ),
        ("build-steps", CACHED, {"context": 0.2, "metadata": 0.05, "lookup": 0.1, "finish": 0.05}, 0.4),
        (
            "build-steps", BUILDAH,
            {"context": 0.1, "metadata": 0.5, "copy": 0.7, "start": 0.4, "run": 0.6, "commit": 0.6, "finish": 0.1}, 3,
        ),
        (
            "buildkit", BUILDKIT,
            {"context": 0.9, "copy": 0.3, "start": 0.0, "run": 1.2, "commit": 0.3, "export": 0.3}, 3,
        ),
        ("buildkit", BUILDKIT_CACHED, {"context": 0.5, "lookup": 0.1, "export": 0.2}, 0.8),
    ],
)  # fmt: skip
def test_the_parts_of_a_build_add_up_to_it(name: str, text: str, expected: dict[str, float], whole: float) -> None:
    """A line arrives late, never early: BuildKit's RUN line comes after its command has begun."""
    found = figures(name, text)
    found.pop("image size", None)
    assert {f"build: {kind}": value for kind, value in expected.items()} == found
    assert sum(expected.values()) == pytest.approx(whole, abs=1e-3)


def test_the_image_has_a_size() -> None:
    assert figures("build-steps", CLASSIC)["image size"] == 2.779015
    compressed = CLASSIC.replace("kit-build size 2779015", "kit-build size 2779015 compressed")
    assert figures("build-steps", compressed)["image size, compressed"] == 2.779015


def test_time_that_an_arm_was_frozen_is_in_no_part() -> None:
    """From 105 to 110 the build was frozen."""
    clock = lambda at: at - 100 - min(5.0, max(0.0, at - 105))  # noqa: E731
    report = parse_report("build-steps", CLASSIC).on_clock(clock).summed()
    assert {figure.name: figure.value for figure in report.figures}["build: run"] == pytest.approx(5.0)


def test_an_output_without_an_end_is_an_error() -> None:
    with pytest.raises(RunError, match="no end"):
        parse_report("build-steps", CLASSIC.partition("kit-build ended")[0])
