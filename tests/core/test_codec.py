"""What a value is decoded with, in several threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: A new type each time: what is learned once is known. Sixty fields make the learning long enough to be met amid it.
THREADS = """
import sys, threading
from dataclasses import make_dataclass
from kit.core.codec import decode, decode_json

sys.setswitchinterval(1e-6)
for _ in range(40):
    inner = make_dataclass("Inner", [(f"x{n}", "int", n) for n in range(60)], frozen=True)
    kind = make_dataclass("Outer", [("inner", inner)], frozen=True)
    start = threading.Barrier(6)

    def work(number):
        start.wait()
        decode_json(kind, '{"inner": {}}') if number % 2 else decode(kind, {"inner": {}})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_a_type_may_be_met_first_by_several_threads_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
