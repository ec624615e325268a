"""Measure what Docker storage drivers cost: the same build on bare metal and in containers, with intervals."""

__version__ = "0.7.0"
