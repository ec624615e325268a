"""Tracers of an arm's processes: bpftrace programs, each a short file, around the phases of traced runs."""
