"""A block that runs as an ordinary user, where the tests are root's."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

NOBODY = 65534


@contextmanager
def ordinary_user() -> Iterator[None]:
    """The real user too: os.access and skopeo ask for that one."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
