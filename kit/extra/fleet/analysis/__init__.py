"""What the sessions of many machines show together: one figure for each arm, and how many machines it needs."""
