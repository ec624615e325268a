"""Plots of a session and of a history, as SVG: in a page, which sets the colours, or as separate files."""

from __future__ import annotations

from kit.report.plot.attribution import plot_attribution
from kit.report.plot.intervals import plot_intervals
from kit.report.plot.picture import Picture
from kit.report.plot.runs import plot_runs
from kit.report.plot.tasks import plot_tasks

__all__ = ["Picture", "plot_attribution", "plot_intervals", "plot_runs", "plot_tasks"]
