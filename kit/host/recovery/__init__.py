"""Journals of what sessions acquire on the host: written before the act, and undone whatever ends the kit."""
