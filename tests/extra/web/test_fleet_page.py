"""The page of a fleet: a real scheduler and real workers, by a browser, and with certificates."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="the package distributed is not installed: the extra fleet")

from playwright.sync_api import Page, expect

from kit.extra.fleet.address import Address
from kit.extra.fleet.certificates import make_certificates
from kit.extra.fleet.client.client import fleet_at
from kit.extra.fleet.client.status_cache import StatusCache
from kit.extra.fleet.share import Share
from kit.extra.web.app import make_app
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.session import RUNNING, Request, Session
from kit.store import open_store
from tests.command_line import Kit
from tests.extra.fleet.processes import Processes

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]


def session() -> Session:
    arms = ("bare", "layer:overlay2")
    request = Request(command=("true",), arms=arms, rounds=30)
    plan = make_plan(parse_arms(",".join(arms)), SessionOptions(rounds=30, seed=1, control=False))
    return Session("20260101-000000-aaaa", 1e9, "0", "true", RUNNING, request, arms, plan.baselines, 1, plan=plan)


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    """The thread of tests with a browser has a loop of events of its own, to its end."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


@contextmanager
def working(processes: Processes) -> Iterator[None]:
    """The one machine has a share of 60 runs."""
    with fleet_at(processes.address) as fleet:
        (address,) = fleet.members()
        fleet.give("true 1 a", Share(session(), tuple(range(1, 31))), address)
        yield


def test_a_browser_sees_machines_work_come_and_go(
    page: Page, beside: ThreadPoolExecutor, processes: Processes, tmp_path: Path
) -> None:
    words = ("--port", "0", "--fleet", f"127.0.0.1:{processes.port}", "--store", f"sqlite:///{tmp_path}/kit.db")
    served = subprocess.Popen([sys.executable, "-m", "kit", "serve", *words], stdout=subprocess.PIPE, text=True)
    try:
        assert served.stdout
        page.goto(served.stdout.readline().split()[0])
        page.get_by_role("link", name="Fleet", exact=True).click()
        said, table = page.locator("strong"), page.locator("table").first
        away = page.locator("p.bad")
        expect(away).to_contain_text(f"no scheduler at tcp://127.0.0.1:{processes.port}", timeout=30_000)
        assert "\n" not in away.inner_text() and page.locator("table").count() == 0
        processes.start_scheduler()
        processes.start_worker(0)
        expect(said).to_have_text("1 machine of 1 class, 0 at work", timeout=60_000)
        with ExitStack() as share:
            beside.submit(share.enter_context, working(processes)).result()  # nobody touches the page from here on
            expect(said).to_have_text("1 machine of 1 class, 1 at work", timeout=30_000)
            expect(table).to_contain_text(re.compile(r"true 1\s+\d+ of 60 runs, [\d.]+ s left"), timeout=30_000)
            beside.submit(share.close).result()
        processes.kill("scheduler")
        expect(away).to_contain_text(re.compile("the scheduler is gone|no scheduler at"), timeout=30_000)
        page.get_by_role("link", name="Hold").click()
        assert page.locator("meta[http-equiv=refresh]").count() == 0
    finally:
        served.terminate()
        assert served.wait(60) in (0, 130)


def seen(address: Address, default: Path) -> str:
    """The page."""
    with StatusCache(address) as status_cache:
        client = make_app(open_store("", default), "t", status_cache).test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = "Bearer t"
        return client.get("/fleet").text


def test_with_certificates_alone(kit: Kit, beside: ThreadPoolExecutor, processes: Processes, tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        make_certificates(tmp_path / name, 1)
    processes.tls = str(tmp_path / "ours")
    processes.start_scheduler()
    words = ("--home", tmp_path / "w0", "--name", "builder-0", "--tls", processes.tls)
    processes.start("w0", "-m", "kit", "fleet", "worker", processes.address.url, *words)
    beside.submit(processes.members, 1).result()
    ours, theirs = (
        beside.submit(seen, replace(processes.address, tls=tmp_path / name), tmp_path / "kit.db").result()
        for name in ("ours", "theirs")
    )
    assert "1 machine of 1 class, 0 at work" in ours and "builder-0" in ours
    assert "do not trust each other" in theirs and "builder-0" not in theirs
    done = kit("serve", "--fleet", processes.address.url, "--fleet-tls", tmp_path)
    assert done.returncode == 2 and "ca.pem is missing" in done.stderr
