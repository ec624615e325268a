"""Stores that many machines and programs share: roles and what they may add, views, late delivery.

Imports the store, the command line and core."""
