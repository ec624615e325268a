"""Sessions on many machines: scheduler, workers and client of dask.distributed, which provides the queue, the
heartbeats and the detection of lost machines. A worker runs each share of a session as a process of its own
(``agent``), as a single machine would.

Imports session and what lies below it: no front, no report."""
