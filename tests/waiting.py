"""Waiting for what another process or thread does."""

import subprocess
import time
from collections.abc import Callable
from typing import Any


def wait_until(
    condition: Callable[[], object], seconds: float = 60.0, process: subprocess.Popen[Any] | None = None
) -> None:
    """Wait until ``condition`` holds. Raises AssertionError where it does not within ``seconds``, or where
    ``process``, which is to bring it about, has ended."""
    end = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, f"ended with {process.returncode}"
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.01)
