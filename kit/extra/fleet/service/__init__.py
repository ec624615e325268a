"""Processes of a fleet that wait for work: the scheduler, the worker, and the share that it runs."""
