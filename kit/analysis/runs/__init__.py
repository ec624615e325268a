"""The runs of a session that count, as arrays: paired within rounds, compared, checked for disturbances."""
