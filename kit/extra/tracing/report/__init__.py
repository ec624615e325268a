"""Traced runs in words, tables, flame graphs, and stacks for other programs."""
