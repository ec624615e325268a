"""Outputs of real builds: Docker 20.10's classic builder and its BuildKit, buildah 1.28."""

import pytest

from kit.core.errors import RunError
from kit.parsers import parse_report

CLASSIC = """\
100.000000 kit-build began
100.300000 Sending build context to Docker daemon  3.631kB
100.500000 Step 1/4 : FROM localhost/kit-base
100.500001 ---> f48db69cb9a3
100.600000 Step 2/4 : ENV PATH="/bin"
100.650000 ---> Running in f801032f9159
100.900000 Step 3/4 : COPY . /
101.500000 ---> 0d2d469e0d56
101.500001 Step 4/4 : RUN ["/kit-control/kit-probe", "step", "/build", "make"]
101.600000 ---> Running in 3f6f4a308652
102.400000 kit-step began 102.300000000
112.400000 kit-step ended 112.300000000
112.800000 Removing intermediate container 3f6f4a308652
112.800001 ---> 6cf8090e4646
112.800002 Successfully built 6cf8090e4646
112.900000 Successfully tagged localhost/kit-step-bs2:1
113.000000 kit-build ended
kit-build size 2779015
"""
CACHED = """\
100.000000 kit-build began
100.200000 Step 1/2 : FROM localhost/kit-step-bs2:1
100.200000 ---> 6cf8090e4646
100.250000 Step 2/2 : RUN ["/kit-control/kit-probe", "step", "/build", "make"]
100.300000 ---> Using cache
100.300000 ---> ff4cf1a7a83d
100.350000 Successfully built ff4cf1a7a83d
100.400000 kit-build ended
kit-build size 2779015
"""
BUILDAH = """\
100.000000 kit-build began
100.100000 STEP 1/4: FROM localhost/kit-base
100.300000 STEP 2/4: ENV PATH="/bin"
100.500000 --> 7c249f32001
100.600000 STEP 3/4: COPY . /
101.200000 --> 70f8e35ff9b
101.300000 STEP 4/4: RUN ["/kit-control/kit-probe", "step", "/build", "make"]
101.800000 kit-step began 101.700000000
102.400000 kit-step ended 102.300000000
102.500000 COMMIT localhost/kit-step-bbs2:1
102.800000 --> 58af4148510
102.900000 Successfully tagged localhost/kit-step-bbs2:1
103.000000 kit-build ended
kit-build size 3225306
"""
BUILDKIT = """\
100.000000 kit-build began
100.400000 #1 [internal] load build definition from Dockerfile.1
100.400001 #1 DONE 0.1s
100.500000 #3 [internal] load metadata for localhost/kit-base:latest
100.600000 #4 [stage-0 1/3] FROM localhost/kit-base
100.700000 #5 [internal] load build context
100.700001 #5 transferring context: 103B 0.0s done
100.900000 #6 [stage-0 2/3] COPY . /
100.900001 #6 DONE 0.1s
101.300000 #7 [stage-0 3/3] RUN ["/kit-control/kit-probe", "step", "/build", "make"]
101.500000 kit-step began 101.200000000
102.500000 kit-step ended 102.400000000
102.500001 #7 DONE 1.4s
102.700000 #8 exporting to image
102.700001 #8 exporting layers 0.1s done
102.900000 #8 DONE 0.2s
103.000000 kit-build ended
kit-build size 2779015
"""
BUILDKIT_CACHED = """\
100.000000 kit-build began
100.400000 #4 [1/2] FROM localhost/kit-base
100.500000 #7 [2/2] RUN ["/kit-control/kit-probe", "step", "/build", "make"]
100.500001 #7 CACHED
100.600000 #8 exporting to image
100.800000 kit-build ended
"""


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


def test_time_that_an_arm_was_frozen_is_in_no_part() -> None:
    """From 105 to 110 the build was frozen."""
    clock = lambda at: at - 100 - min(5.0, max(0.0, at - 105))  # noqa: E731
    report = parse_report("build-steps", CLASSIC).on_clock(clock).summed()
    assert {figure.name: figure.value for figure in report.figures}["build: run"] == pytest.approx(5.0)


def test_an_output_without_an_end_is_an_error() -> None:
    with pytest.raises(RunError, match="no end"):
        parse_report("build-steps", CLASSIC.partition("kit-build ended")[0])
