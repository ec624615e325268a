"""A session on this machine: its materials, its loop, its traced rounds."""
