"""Sessions in the forms of other programs."""

from __future__ import annotations

from kit.report.renderer import SESSIONS, Renderer

RENDERERS = (
    Renderer(
        "pytest-benchmark",
        SESSIONS,
        "kit.extra.exchange.report.pytest_benchmark:render_pytest_benchmark",
        "real times, for that tool",
        "json",
    ),
    Renderer(
        "openmetrics",
        SESSIONS,
        "kit.extra.exchange.report.openmetrics:render_openmetrics",
        "penalties for Prometheus and GitLab",
        "prom",
    ),
    Renderer(
        "benchmark-action",
        SESSIONS,
        "kit.extra.exchange.report.benchmark_action:render_benchmark_action",
        "penalties for github-action-benchmark",
        "json",
    ),
    Renderer("bencher", SESSIONS, "kit.extra.exchange.report.bencher:render_bencher", "penalties for Bencher", "json"),
    Renderer(
        "hyperfine",
        SESSIONS,
        "kit.extra.exchange.report.hyperfine:render_hyperfine",
        "times and penalties for its scripts",
        "json",
    ),
    Renderer(
        "hyperfine-1",
        SESSIONS,
        "kit.extra.exchange.report.hyperfine:render_hyperfine_1",
        "the same for those of 1.x",
        "json",
    ),
)
