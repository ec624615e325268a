"""Numbers, intervals, lines and texts in the one form that every report uses."""
