"""The commit of a repository, read as ``git`` itself reads it, and that of a CI job."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.host.git import CI_VARIABLES, ci_commit, find_commit
from tests.needs import needs
from tests.ordinary_user import ordinary_user
from tests.repository import git

pytestmark = needs("git")
A, B = "a" * 40, "b" * 40


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    (made / "src/deep").mkdir(parents=True)
    git(made, "init", "-q", "-b", "main/trunk")
    git(made, "commit", "-q", "--allow-empty", "-m", "one")
    return made


def test_a_directory_has_the_commit_of_its_repository(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert find_commit(repository) == find_commit(repository / "src/deep") == head
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    assert find_commit(repository) == git(repository, "rev-parse", "HEAD") != head


def test_packed_branches_and_detached_heads_are_read(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main/trunk").exists() and find_commit(repository) == head
    git(repository, "checkout", "-q", "--detach")
    assert find_commit(repository) == head


def test_work_trees_and_submodules_are_read(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "two")
    head = git(tmp_path / "tree", "rev-parse", "HEAD")
    assert find_commit(tmp_path / "tree") == head != find_commit(repository)
    git(repository, "pack-refs", "--all")
    assert find_commit(tmp_path / "tree") == head
    whole = tmp_path / "whole"
    whole.mkdir()
    git(whole, "init", "-q")
    git(whole, "submodule", "--quiet", "add", str(repository), "part")
    assert find_commit(whole / "part") == find_commit(repository)
    assert find_commit(whole) == ""  # nothing is committed yet


def test_what_is_no_repository_has_no_commit(tmp_path: Path) -> None:
    assert find_commit(None) == find_commit(tmp_path / "missing") == ""
    for text in ("", "gitdir: /missing", "ref: refs/../../../etc/passwd", "ref: refs/heads/x", "f" * 39):
        (tmp_path / ".git").mkdir(exist_ok=True)
        (tmp_path / ".git/HEAD").write_text(text)
        assert find_commit(tmp_path) == "", text


def test_an_unreadable_or_deleted_directory_has_no_commit(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.chmod(0)
    with ordinary_user():
        assert find_commit(repository / "src") == ""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert find_commit(Path()) == ""


def test_the_commit_of_a_ci_job_is_in_its_variables() -> None:
    assert ci_commit({}) == ci_commit({"BUILDKITE_COMMIT": "HEAD", "GIT_COMMIT": ""}) == ""
    for name in CI_VARIABLES:
        assert ci_commit({name: A.upper()}) == A
    assert ci_commit({"GITHUB_SHA": A, "GIT_COMMIT": B}) == A
