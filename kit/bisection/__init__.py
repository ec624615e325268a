"""``kit bisect``: the candidates of a bisection, and its steps as sessions, which the store keeps for a later start.

Imports session, the store and words; the search itself is in kit.analysis.bisection.search."""
