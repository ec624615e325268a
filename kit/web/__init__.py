"""``kit serve``: the store as read-only pages of this machine. Imports report, fleet, the store and words."""
