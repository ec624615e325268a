"""How long the pages of ``kit serve`` take over a large store: 100,000 samples, as 990 nightly sessions of 100 and one
session of 1,000.

    python benchmarks/performance/serve.py [--samples 100000]

Prints, for each page, the first answer (nothing in memory) and the second, in seconds, and the size of the answer; then
how long kit site takes for all pages.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from functools import partial
from pathlib import Path

from kit.extra.web.app import make_app
from kit.extra.web.site import usable_processes, write_site
from kit.model.sample import Phase, Sample
from kit.model.session import DONE, Request, Session
from kit.store import Store, open_store

ARMS = ("bare", "bind:overlay2", "layer:overlay2", "layer:btrfs")
PHASES = ("unpack", "configure", "build", "clean")


def make_session(number: int, samples: int) -> Session:
    dice = random.Random(number)
    listed = []
    for i in range(samples):
        arm = ARMS[i % len(ARMS)]
        scale = (1 + 0.05 * ARMS.index(arm)) * dice.gauss(1, 0.02)
        phases = tuple(
            Phase(name, "ok", real=scale, user=scale / 2, sys=scale / 4, cgroup_user=scale / 2, cgroup_sys=scale / 4,
                  outside=0.01, flush=0.1, exit_code=0)
            for name in PHASES
        )  # fmt: skip
        listed.append(
            Sample(arm, 1 + i // len(ARMS), "measured", "ok", 0.0, phases, 0.04, 0.04, 0.05, 0.05, 1.0,
                   digests=(("scenario", "s"),))
        )  # fmt: skip
    return Session(
        id=f"2026{number:04}-000000-aaaa", created=1.7e9 + 86400 * number, kit_version="0", title="kernel",
        status=DONE, request=Request(scenario="kernel"), arms=ARMS, baselines=tuple((arm, "bare") for arm in ARMS[1:]),
        seed=1, facts={"kernel": "6.1" if number < 500 else "6.12", "machine": "aa", "cpu": "one"},
        samples=tuple(listed),
    )  # fmt: skip


def fill(store: Store, samples: int) -> None:
    large = min(1000, samples // 10)
    count = (samples - large) // 100
    for number in range(count):
        store.add(make_session(number, 100))
    store.add(make_session(count, large))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    samples = parser.parse_args().samples
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kit.db"
        store = open_store("", path)
        start = time.monotonic()
        fill(store, samples)
        print(f"{samples} samples stored in {time.monotonic() - start:.1f} s, {path.stat().st_size / 2**20:.0f} MiB")
        listed = [item.id for item in store.list()]
        newest, (one, other) = listed[0], listed[1:3]
        store.close()
        client = make_app(open_store("", path, read_only=True), "token").test_client()
        pages = ("/", "/?arm=layer:btrfs&page=5", f"/session/{newest}", f"/session/{one}",
                 "/history?scenario=kernel&arm=layer:overlay2", f"/compare?a={other}&b={one}",
                 f"/session/{newest}.csv")  # fmt: skip
        for page in pages:
            took = []
            for _ in range(2):
                start = time.monotonic()
                answer = client.get(page, headers={"Authorization": "Bearer token"})
                took.append(time.monotonic() - start)
                assert answer.status_code == 200, (page, answer.status_code)
            print(f"{page:60} {took[0]:7.2f} s {took[1]:7.2f} s {len(answer.data) / 1024:8.0f} KiB")
        start = time.monotonic()
        site = write_site(partial(open_store, "", path, read_only=True), Path(directory) / "site", usable_processes())
        print(f"kit site: {site.files} files in {time.monotonic() - start:.1f} s by {usable_processes()} processes")


if __name__ == "__main__":
    main()
