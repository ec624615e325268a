"""``kit serve``: the store as pages of this machine, read alone. Imports report, fleet, the store and words."""
