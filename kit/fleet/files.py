"""Open files: a connection is one, and a thousand machines are more than a login or a service is given at first."""

from __future__ import annotations

import resource


def allow_many_files() -> None:
    """As many as this process may ask for; what it starts afterwards is given as many."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
