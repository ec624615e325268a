"""``kit nightly``: the file that says what runs every night, and the running and judging of it.

Imports session, the store and words; what came of a night is kit.analysis.night."""
