"""The machine the kit runs on: commands, control groups, counters, mounts, the lock and the journal that undoes.

Knows nothing of drivers or sessions. Imports core and model."""
