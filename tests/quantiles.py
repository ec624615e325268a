"""Simulated quantiles of intervals, shared by the workers of pytest and by their forks: what one of them has simulated,
no other simulates again. Most of an analysis is this simulation."""

import hashlib
import json
import os
from collections.abc import Hashable, Iterator
from contextlib import suppress
from functools import lru_cache, wraps

import pytest

from kit.analysis.stats import variance_pooling
from tests.beside import is_worker


@pytest.fixture(scope="session", autouse=True)
def _shared_quantiles(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if is_worker(request.config) else base) / "quantiles"
    directory.mkdir(exist_ok=True)
    simulated = variance_pooling._find_quantiles

    @wraps(simulated)
    @lru_cache(maxsize=4096)
    def find(*key: Hashable) -> variance_pooling._Quantiles:
        path = directory / hashlib.sha256(repr(key).encode()).hexdigest()
        with suppress(OSError):
            return variance_pooling._Quantiles(**json.loads(path.read_text()))
        quantiles = simulated(*key)
        with suppress(OSError):  # a fork may be another user
            new = path.with_suffix(f".{os.getpid()}")
            new.write_text(json.dumps(vars(quantiles)))
            new.rename(path)
        return quantiles

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variance_pooling, "_find_quantiles", find)
        yield


@pytest.fixture
def own_quantiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate them in this test, whoever has done so before."""
    monkeypatch.setattr(variance_pooling, "_find_quantiles", variance_pooling._find_quantiles.__wrapped__)
