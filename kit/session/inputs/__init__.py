"""Inputs of a scenario: found where the user has them, repacked, cached by content."""
