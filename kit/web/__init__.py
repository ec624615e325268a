"""``kit serve`` and ``kit site``: the store as read-only pages of this machine, or as files.

Imports report, fleet, the store and words."""
