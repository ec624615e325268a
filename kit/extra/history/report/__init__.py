"""Sessions over time for people: an arm's history, a night, the message about it."""
