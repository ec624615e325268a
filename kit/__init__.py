"""Measure what Docker storage drivers cost: the same build with and without a container, with intervals."""

__version__ = "0.7.0"
