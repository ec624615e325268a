"""The kit's words: arms, scenarios, sweeps, plans, samples, sessions and their facts. Frozen, and pure but for reading
scenario files.

Imports core and parsers (the figures that a workload reports of itself)."""
