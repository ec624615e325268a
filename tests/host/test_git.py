"""A user's repository is read without its configuration, and all that a commit contains is measured."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.errors import UsageError
from kit.host.git import left_out, opened
from kit.host.machine import read_host
from kit.model.scenario import Input
from kit.model.session import Request
from kit.session.inputs.sources import prepare_input
from kit.session.plan.planning import prepare
from kit.session.start import new_session
from tests.needs import needs
from tests.repository import git, make_repository

pytestmark = needs("git")
ATTRIBUTES = """\
docs/ export-ignore
vendor export-ignore
version export-subst
*.bin filter=kit
"""
FILES = ("docs/page", "vendor/deep/file", "version", "sub/x.bin", "sub/plain")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With attributes by which git archive leaves out and changes files."""
    top = make_repository(tmp_path / "project")
    (top / ".gitattributes").write_text(ATTRIBUTES)
    for name in FILES:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("$Format:%H$")
    git(top, "add", ".gitattributes", *FILES)
    git(top, "commit", "-q", "-m", "attributes")
    return top


def measured(source: Path, cache: Path) -> dict[str, str]:
    found = prepare_input(Input("src", source=f"git:{source}#{git(source, 'rev-parse', 'HEAD')}"), cache)
    with tarfile.open(found.path) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isreg()}
        return {name: file.read().decode() for name, file in files.items() if file}


@pytest.mark.promise("what others wrote", "A user's repository runs no program, and leaves no file out of a commit.")
def test_no_attribute_leaves_out_or_changes_a_file(repository: Path, tmp_path: Path) -> None:
    (repository / ".git/info").mkdir(exist_ok=True)
    (repository / ".git/info/attributes").write_text("number export-ignore\n")
    found = measured(repository, tmp_path / "cache")
    assert found == {**dict.fromkeys(FILES, "$Format:%H$"), ".gitattributes": ATTRIBUTES, "number": "2"}
    assert set(measured(repository / "sub", tmp_path / "cache")) == {"x.bin", "plain"}


@pytest.mark.promise("what others wrote", "A user's repository runs no program, and leaves no file out of a commit.")
def test_no_program_of_a_repositorys_configuration_runs(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    program.chmod(0o755)
    programs = ("core.fsmonitor", "core.pager", "core.sshCommand", "gpg.program", "uploadpack.packObjectsHook")
    for key in ("filter.kit.smudge", "tar.tar.command", *programs):
        git(repository, "config", key, str(program))
    git(repository, "config", "log.showSignature", "true")
    with opened(str(repository), "--good") as view:
        commits = [view.find_revision(text, "--good") for text in ("v1", "HEAD", "main~1")]
    measured(repository, tmp_path / "cache")
    assert left_out(str(repository), commits[1])
    assert not marker.exists()


def test_a_commit_is_what_its_hash_says_whatever_replaces_it(repository: Path, tmp_path: Path) -> None:
    git(repository, "replace", "HEAD", "v1")
    assert "version" in measured(repository, tmp_path / "cache")


@pytest.mark.parametrize("kind", ["subdirectory", "worktree", "bare", "detached", "remote branch"])
def test_revisions_are_found_as_in_the_repository_itself(repository: Path, tmp_path: Path, kind: str) -> None:
    place, name = repository, "HEAD"
    if kind == "subdirectory":
        place = repository / "sub"
    elif kind == "worktree":
        git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"), "v1")
        place = tmp_path / "other"
    elif kind == "bare":
        git(repository, "clone", "-q", "--bare", ".", str(tmp_path / "bare"))
        place = tmp_path / "bare"
    elif kind == "detached":
        git(repository, "checkout", "-q", "-f", "--detach", "v1")
    else:
        git(repository, "update-ref", "refs/remotes/origin/next", "v1")
        name = "origin/next"
    with opened(str(place), "--good") as view:
        assert view.find_revision(name, "--good") == git(place, "rev-parse", name)


def test_what_git_leaves_out_of_a_commit_is_said(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},sub/module")
    git(repository, "commit", "-q", "-m", "submodule")
    commit = git(repository, "rev-parse", "HEAD")
    said = "submodule sub/module; what a filter (LFS) makes of sub/x.bin"
    assert left_out(str(repository), commit) == said
    assert left_out(str(repository / "sub"), commit) == "submodule module; what a filter (LFS) makes of sub/x.bin"
    assert left_out(str(repository), git(repository, "rev-parse", "v1")) == ""
    request = Request(
        command=("true",), source=str(repository), revisions=(("old", "v1"), ("new", "HEAD")), arms=("bare",), seed=1
    )
    session = new_session(prepare(request, replace(read_host(), root=True)))
    assert session.facts["left out of new"] == said and "left out of old" not in session.facts


def test_a_directory_without_a_repository_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--good: .* not a git repository"), opened(str(tmp_path), "--good"):
        pass
