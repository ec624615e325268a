"""The kit's words: arms, scenarios, sweeps, plans, samples, sessions. Frozen, and pure but for reading scenario files.

Imports core and parsers (the figures that a workload reports of itself)."""
