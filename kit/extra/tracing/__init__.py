"""Traced rounds: tracers around their phases, as bpftrace programs for calls and perf for stacks, and what they show.

Tests show what works on this machine. Imports session, host, report, analysis, model and core."""
