"""``kit nightly``: the file of nightly tasks, and their execution and checks.

Imports session, the store and words; a night's results are in kit.analysis.history.night."""
