"""What a scheduler of a thousand machines needs."""

import resource

import pytest

from kit.extra.fleet.address import parse_address
from kit.extra.fleet.service import scheduler

pytest.importorskip("distributed", reason="the package distributed is not installed: the extra fleet")


def test_it_may_have_more_connections_than_a_service_has_files_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand machines are a thousand of them, and 1,024 is what systemd gives."""
    seen = []
    monkeypatch.setattr(scheduler, "serve", lambda *_: seen.append(resource.getrlimit(resource.RLIMIT_NOFILE)))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        scheduler.run_scheduler(parse_address("127.0.0.1:0", ""), print)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert seen == [(before[1], before[1])]
