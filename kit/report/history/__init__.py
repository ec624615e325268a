"""Sessions over time for people: an arm's history, a night, two sessions side by side."""
