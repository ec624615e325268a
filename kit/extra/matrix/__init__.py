"""``kit matrix`` and ``kit compare suite:NAME``: which driver to take, from scenarios and arms in one table.

Imports history, the store, fleet's pooling, and words."""
