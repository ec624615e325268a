"""Control groups: CPU time, freezer, tasks' states, and what the machine spends by itself."""
