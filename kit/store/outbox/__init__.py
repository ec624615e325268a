"""Changes that the store has not received yet, kept in a file beside it, and their delivery."""
