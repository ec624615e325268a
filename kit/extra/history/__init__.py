"""``kit nightly`` and ``kit history``: arms over many sessions, changes of a penalty, limits, messages about both.

Imports session, the store, and words."""
