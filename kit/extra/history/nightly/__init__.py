"""``kit nightly``: the file of nightly tasks, their execution and checks, and messages about what changed.

Imports session, the store and words; a night's results are in kit.extra.history.analysis.night."""
