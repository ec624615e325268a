"""Tracers around the phases of traced runs: bpftrace programs, each a short file, for calls, and perf for stacks.

What of it this machine gives is tried, not guessed. Imports host, model and core.
"""
