"""Tracers around the phases of traced runs: bpftrace programs, each a short file, for calls, and perf for stacks.

Tests show what works on this machine. Imports host, model and core."""
