"""The candidates of a bisection: commits of a real repository, and versions with an engine root."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.bisection.candidates import arms_of_step, check_arm, find_range, named_revisions
from kit.core.errors import UsageError
from kit.model.arm import parse_arm
from tests.needs import needs
from tests.repository import git, make_repository

needs_git = needs("git")


def commit(repository: Path, subject: str) -> str:
    git(repository, "commit", "-q", "--allow-empty", "-m", subject)
    return git(repository, "rev-parse", "HEAD")


@needs_git
def test_commits_are_those_after_the_good_one_oldest_first(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "re po")
    made = [commit(repository, text) for text in ("three\x0bof it", "four\n\nWith a body.")]
    found = find_range("v1", "main", str(repository))
    assert found.good.id == git(repository, "rev-parse", "v1") and found.revisions
    assert [item.id for item in found.candidates[1:]] == made
    last = found.candidates[-1]
    assert (last.subject, last.author, last.merge) == ("four", "n", False)
    assert made[-1].startswith(last.name) and last.created and last.created > 1.6e9


@needs_git
def test_of_a_merge_the_first_parent_s_line_counts(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    git(repository, "checkout", "-q", "-f", "-b", "side")
    inner = commit(repository, "inner")
    git(repository, "checkout", "-q", "main")
    outer = commit(repository, "outer")
    git(repository, "merge", "-q", "--no-ff", "-m", "merge", "side")
    found = find_range("HEAD~2", "HEAD", str(repository))
    assert [item.subject for item in found.candidates] == ["outer", "merge"]
    assert [item.merge for item in found.candidates] == [False, True]
    assert [item.id for item in find_range("main~1^", f"{inner}", str(repository)).candidates] == [inner]
    with pytest.raises(UsageError, match="not an ancestor"):
        find_range(outer, inner, str(repository))
    fork = git(repository, "rev-parse", "main~2")
    with pytest.raises(UsageError, match="was merged into the line of --bad main") as raised:
        find_range(inner, "main", str(repository))
    assert raised.value.hint.endswith(f"--good {fork[:12]}")


@needs_git
@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("nosuch", "main", "--good nosuch: no such revision"),
        ("v1", "--all", "--bad --all: no such revision"),
        ("main", "HEAD", "are the same commit"),
        ("main", "v1", "--good main is not an ancestor of --bad v1"),
        ("docker@28", "main", "a version and a revision"),
        ("docker@28", "podman@5", "two engines"),
        ("docker@28", "docker@7", "unknown version docker@7"),
        ("docker@29", "docker@28", "is not the later one"),
    ],
)
def test_ends_that_no_search_has(tmp_path: Path, good: str, bad: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        find_range(good, bad, str(make_repository(tmp_path / "repo")))


def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--good: "):
        find_range("v1", "main", str(tmp_path))


def test_versions_are_those_with_a_root_by_their_numbers() -> None:
    found = find_range("docker@20.10", "docker@29", "")
    assert found.good.name == "docker@20.10" and not found.revisions
    assert [item.id for item in found.candidates] == ["docker@26.1", "docker@28", "docker@29"]
    arms, base = arms_of_step(parse_arm("layer:overlay2@xfs"), found, found.candidates[0])
    assert [str(arm) for arm in arms] == ["layer:docker@20.10/overlay2@xfs", "layer:docker@26.1/overlay2@xfs"]
    assert base == arms[0] and not named_revisions(found, found.candidates[0])


@needs_git
def test_both_revisions_run_on_one_arm(tmp_path: Path) -> None:
    found = find_range("v1", "main", str(make_repository(tmp_path / "repo")))
    arms, base = arms_of_step(parse_arm("layer:overlay2+nosync"), found, found.candidates[0])
    assert [str(arm) for arm in arms] == ["layer:overlay2+nosync"] and str(base) == "layer:overlay2+nosync+rev=good"
    assert named_revisions(found, found.candidates[0]) == (
        ("good", found.good.id), (found.candidates[0].name, found.candidates[0].id),
    )  # fmt: skip


def test_arms_that_can_not_differ_by_candidate() -> None:
    found = find_range("docker@26.1", "docker@29", "")
    check_arm(parse_arm("layer:overlay2"), found)
    for name, says in (
        ("bare", "docker does not run it"),
        ("layer:podman/overlay", "docker does not run it"),
        ("layer:overlay2+rev=x", "chooses its own revisions"),
        ("layer:overlay2+control", "chooses its own revisions"),
    ):
        with pytest.raises(UsageError, match=says):
            check_arm(parse_arm(name), found)
