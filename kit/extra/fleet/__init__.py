"""``kit fleet`` and ``--fleet``: sessions on many machines, and what an arm costs over machines.

Scheduler, workers and client are of dask.distributed, which provides the queue, the heartbeats and the detection of
lost machines. A worker runs each share of a session as a process of its own (``service.agent``), as a single machine
would. Imports session, the store, and words."""
