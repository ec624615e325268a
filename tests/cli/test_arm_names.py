"""What ``kit import`` calls an arm is an arm of ``kit history``, and both read a name of the grammar alike."""

from __future__ import annotations

import pytest

from tests.command_line import in_fork as kit

TIME = "real\t0m{seconds}s\nuser\t0m1.0s\nsys\t0m0.1s\n"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with one imported session of four runs of each label."""
    directory = tmp_path_factory.mktemp("imported")
    words = []
    for label, cost in (("bare@ext4", 1.0), ("aufs", 1.4), ("layer:docker/overlay2", 1.2)):
        for number in range(4):
            path = directory / f"{cost}-{number}.txt"
            path.write_text(TIME.format(seconds=f"{10 * cost + number / 10:.3f}"))
            words.append(f"{label}={path}")
    store = f"sqlite:///{directory}/kit.db"
    done = kit("import", *words, "--store", store)
    assert done.returncode == 0, done.stderr
    return store


@pytest.mark.parametrize("arm", ["aufs", " aufs", "layer:overlay2", "layer:docker/overlay2@ext4"])
@pytest.mark.parametrize("baseline", ["", "bare", "bare@ext4"])
def test_history_accepts_the_names_that_import_accepts(url: str, arm: str, baseline: str) -> None:
    done = kit("history", "imported", arm, *(["--baseline", baseline] if baseline else []), "--store", url)
    assert done.returncode == 0, done.stderr
    assert f"imported: {'aufs' if 'aufs' in arm else 'layer:overlay2'}" in done.stdout


def test_a_name_that_is_neither_is_explained(url: str) -> None:
    for arm, says in (("layer:overlay3", "unknown driver 'overlay3'"), ("bind:overlay2", "no finished session")):
        done = kit("history", "imported", arm, "--store", url)
        assert done.returncode == 2 and says in done.stderr
