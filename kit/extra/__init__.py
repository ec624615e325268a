"""Extras: each folder is a feature that the core does without, with its statistics, words, command and page.

Rooms: ``analysis`` is pure, ``report`` knows words alone, as those of the core; modules beside them join them to the
store, the command line and the web. ``kit.extensions`` has a row for each extra. Imports the core, and extras of the
rows above."""
