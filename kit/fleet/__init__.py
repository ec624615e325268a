"""Sessions on many machines: scheduler, workers and client of dask.distributed, which has the queue, the heartbeats and
the loss of machines. A worker runs each share of a session as a process of its own (``agent``), just as one machine
alone would.

Imports session and what lies below it: no front, no report.
"""
