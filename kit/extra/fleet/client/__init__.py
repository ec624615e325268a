"""The user's side of a fleet: gives shares to machines, and receives their results."""
