"""The console of a guest as a log: its beginning and end are kept, however much the guest writes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kit.session.measure.phase_log import HEAD, TAIL, cut_middle

_CHUNK = 1 << 16
#: Seconds in which the reader empties the pipe after the guest's death.
_REST = 10.0


@contextmanager
def console_log(path: Path) -> Iterator[IO[bytes]]:
    """Yield the file to which a guest writes its console. A thread reads it, so the log's size stays limited; no
    measurement waits for it. Close the file once the guest has it."""
    ours, theirs = os.pipe()
    reader = threading.Thread(target=_keep, args=(ours, path), daemon=True)
    reader.start()
    with os.fdopen(theirs, "wb", buffering=0) as console:
        try:
            yield console
        finally:
            console.close()
            reader.join(_REST)


def _keep(descriptor: int, path: Path) -> None:
    cut = 0
    with os.fdopen(descriptor, "rb", buffering=0) as source:
        with path.open("ab", buffering=0) as file:
            file.truncate(0)
            size = 0
            while data := source.read(_CHUNK):
                size += file.write(data)
                if size > HEAD + 2 * TAIL:
                    cut = cut_middle(path, cut)  # whose file is this one: it is appended to
                    size = path.stat().st_size
        cut_middle(path, cut)
