"""README and docs say nothing that is not so: every command block is run, every link leads somewhere.

tests/pages.py shortens commands that take minutes. test_cli.py and test_examples.py beside it run such for real."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kit.arms.filesystem import read_profiles
from kit.arms.image import ImageCache
from kit.cli import COMMANDS, cli
from kit.core.paths import APP, find_paths
from kit.extra.history.nightly.file import parse_nightly
from kit.model.options import OPTIONS, SHARED
from kit.model.scenariofile import parse_scenario
from kit.model.settings import read_settings
from tests.command_line import Kit
from tests.nights import night
from tests.ordinary_user import Account, made_up_user
from tests.pages import NEEDS_ROOT, ROOT, ROOTS, USERS_PAGES, blocks, commands, fill_sandbox, write_shims
from tests.sources import parsed
from tests.stores import new_store

DOCS = sorted(
    [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("RESULTS.md"),
        ROOT / "examples/pytest-project/README.md",
    ]
)
#: Pages that resume the last session come before those that import one, which can't be resumed.
COMMANDS_OF = sorted(DOCS, key=lambda path: "--resume last" not in path.read_text())


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[dict[str, str]]:
    """A checkout with everything that the documents name, and a store with earlier sessions."""
    directory = tmp_path_factory.mktemp("docs")
    shims = fill_sandbox(directory, tiny, Path(sys.executable))
    env = {**os.environ, "PATH": f"{shims}:{os.environ['PATH']}", "HOME": str(directory),
           "KIT_STORE": f"sqlite:///{directory}/kit.db", "XDG_CONFIG_HOME": str(directory),
           "PYTHONPATH": str(ROOT)}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "kit", "compare", "--image", tiny, "--arms", "bare,union:overlay", "--cache", "cold",
         "-q", "--", "busybox", "true"],
        env=env, cwd=directory, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    yield env


@pytest.fixture(scope="module")
def done_before() -> set[str]:
    return set()


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.images("kernel", "smoke")
@pytest.mark.parametrize("path", COMMANDS_OF, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_block_runs(path: Path, sandbox: dict[str, str], done_before: set[str]) -> None:
    """What several pages say, or one in two places, is run once."""
    ran = 0
    for command in commands(path):
        ran += 1
        if command in done_before:
            continue
        done = subprocess.run(
            ["bash", "-c", command], env=sandbox, cwd=sandbox["HOME"], capture_output=True, text=True, check=False,
            timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{path.name}: {command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        done_before.add(command)
    without = ("glossary.md", "index.md", "SECURITY.md", "RESULTS.md")
    assert ran or path.parent.name in ("explanation", "reference") or path.name in without


@pytest.fixture(scope="module")
def users_sandbox(sandbox: dict[str, str]) -> Iterator[tuple[Account, dict[str, str]]]:
    with made_up_user() as account:
        yield account, copy_sandbox(Path(sandbox["HOME"]), account)


@pytest.fixture(scope="module")
def done_by_user() -> set[str]:
    return set()


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.maps_users
@pytest.mark.images("kernel", "smoke")
@pytest.mark.parametrize("path", USERS_PAGES, ids=lambda path: path.stem)
def test_each_command_runs_as_an_ordinary_user_or_says_that_it_needs_root(
    path: Path, users_sandbox: tuple[Account, dict[str, str]], done_by_user: set[str]
) -> None:
    """A user's images are built as root's are: they are copied here."""
    account, environment = users_sandbox
    for command in commands(path):
        if ROOTS.search(command) or command in done_by_user:
            continue
        done = account.run("bash", "-c", command, env=environment)
        text = done.stdout + done.stderr
        assert "Traceback" not in text and (not done.returncode or NEEDS_ROOT.search(text)), (
            f"{command}\n{text[-2000:]}"
        )
        done_by_user.add(command)


def copy_sandbox(directory: Path, account: Account) -> dict[str, str]:
    """Give the user a copy of the sandbox as home, with the images and a last session; return the environment."""
    # An environment of root's Python is root's.
    shutil.copytree(directory, account.home, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".venv"))
    images = account.home / ".cache" / APP / "images"
    cache = find_paths().cache
    for name in ("kernel", "smoke"):
        ImageCache(cache).from_recipe(name)  # it may be built right now
    shutil.copytree(cache / "images", images, symlinks=True, ignore=shutil.ignore_patterns(".*"))
    images.parent.chmod(0o700)
    shims = write_shims(account.home, account.python)
    account.give(account.home)
    environment = {
        "PATH": f"{shims}:{account.environment['PATH']}",
        "KIT_STORE": f"sqlite:///{account.home}/kit.db",
        "XDG_CONFIG_HOME": str(account.home),
    }
    words = ("compare", "--image", "rootfs.tar", "--arms", "host@dir", "--rounds", "1", "-q", "--", "true")
    done = account.run(account.python, "-m", "kit", *words, env=environment)
    assert done.returncode == 0, done.stderr
    return environment


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_other_blocks_are_what_they_claim(path: Path, tmp_path: Path) -> None:
    for text in blocks(path, "toml"):
        data = tomllib.loads(text)
        if "phases" in data:
            parse_scenario(text, "app.toml", "").bind({}, 2)
        elif "tasks" in data:
            assert parse_nightly(text, path.name, "x").tasks
        elif path.name == "configuration.md":
            assert read_settings(text, path.name)
        else:
            (tmp_path / "profiles.toml").write_text(text)
            assert read_profiles(tmp_path / "profiles.toml")
    for text in blocks(path, "python"):
        compile(text, str(path), "exec")


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", path.read_text()):
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, target


def inline_commands(path: Path) -> list[list[str]]:
    """``kit …`` in the midst of a text, in words."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.M | re.S)
    return [shlex.split(found)[1:] for found in re.findall(r"`(kit [^`]+)`", text)]


def parse_command(words: list[str], group: click.Group = cli) -> None:
    """As the command line reads them, as far as it goes without doing anything. Raises click.UsageError."""
    command = group.get_command(click.Context(group), words[0])
    if command is None and words[0].startswith("-"):
        group.make_context("kit", words)
    elif command is None:
        raise click.UsageError(f"no such command: {words[0]}")
    elif len(words) == 1:  # it is spoken of, not called
        return
    elif isinstance(command, click.Group):
        parse_command(words[1:], command)
    else:
        command.make_context(words[0], words[1:])


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_in_a_text_are_understood(path: Path) -> None:
    for words in inline_commands(path):
        try:
            parse_command(words)
        except click.exceptions.Exit as done:  # --help
            assert done.exit_code == 0
        except click.UsageError as error:
            pytest.fail(f"{path.name}: kit {shlex.join(words)}: {error.message}")


def test_a_command_that_does_not_exist_is_found() -> None:
    for words in (["image", "remove", "guest"], ["compare", "--images", "/big", "smoke"], ["imagine"]):
        with pytest.raises(click.UsageError):
            parse_command(words)


#: What an error's message and hint stand in.
ADVISING = re.compile(r"(Error|Blocker|NotRun|fail|not_installed)$")


def advice() -> Iterator[tuple[str, str]]:
    """Every text in which the kit tells its users what is wrong and what to do, and where it stands."""
    for path in sorted((ROOT / "kit").rglob("*.py")):
        for node in parsed(path).nodes(ast.Call):
            if ADVISING.search(getattr(node.func, "attr", getattr(node.func, "id", ""))):
                for word in ast.walk(node):
                    if isinstance(word, ast.Constant) and isinstance(word.value, str):
                        yield f"{path.relative_to(ROOT)}:{word.lineno}", word.value


def test_what_errors_advise_exists() -> None:
    names = "|".join(COMMANDS)
    known = known_options() | THEIRS
    for where, text in advice():
        words = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
        assert words <= known, f"{where}: {sorted(words - known)}"
        for command in re.findall(rf"(?:^|[,;:] |see |use )kit ({names}|image [a-z]+)\b", text):
            parse_command(command.split()[:2])


def known_options() -> set[str]:
    context = click.Context(cli)
    plugin = re.findall(r'add\(\s*"(--kit-[a-z-]+)"', (ROOT / "kit/extra/pytest_plugin/__init__.py").read_text())
    shared = (OPTIONS[name].words.replace("--", "--kit-", 1) for name in SHARED)
    known = {"--help", "--version", *plugin, *shared}
    for name in COMMANDS:
        command = cli.get_command(context, name)
        below = command.list_commands(context) if isinstance(command, click.Group) else ()
        found = [command, *(command.get_command(context, name) for name in below if isinstance(command, click.Group))]
        for item in found:
            assert item is not None
            for parameter in item.params:
                known |= {*parameter.opts, *parameter.secondary_opts}
    return known


#: Options of other programs.
THEIRS = {
    "--token", "--looks", "--most", "--cases", "--count", "--jobs", "--workers",
    "--lf", "--durations", "--junitxml", "--reflink", "--no-download", "--no-index", "--offline", "--csum", "--man",
    "--variant", "--build", "--components", "--include", "--wildcards", "--hypothesis-profile", "--bind",
    "--add-subuids", "--add-subgids", "--detach", "--now",
    "--nthreads", "--no-nanny", "--resources", "--preload", "--dashboard", "--dashboard-address", "--host",
    "--tls-ca-file", "--tls-cert", "--tls-key",
    "--exclusive", "--config-file", "--what", "--branch", "--directory", "--sessions", "--stored", "--workloads",
    "--identical", "--minutes", "--no-container", "--repetitions", "--rm", "--scenario", "--tiny", "--tools",
    "--host-uds", "--overlay", "--userns", "--adapter", "--benchmark-json", "--export-json", "--file", "--table",
    "--unpaired", "--worlds", "--benchmark-autosave", "--benchmark", "--status-interval",
    "--preserve-env", "--privileged", "--pid", "--cgroupns", "--volume", "--input", "--from-file", "--filename",
    "--tag", "--build-arg", "--format", "--git-path", "--raw-output",
}  # fmt: skip


def test_options_in_the_documents_exist() -> None:
    known = known_options() | THEIRS
    for path in DOCS:
        words = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", path.read_text()))
        assert words <= known, f"{path.name}: {sorted(words - known)}"


def test_every_page_is_linked_from_the_index() -> None:
    docs, text = ROOT / "docs", (ROOT / "docs/index.md").read_text()
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"index.md"}
    assert pages <= set(re.findall(r"\]\(([^)#]+)\)", text)) and "docs/index.md" in (ROOT / "README.md").read_text()


@pytest.mark.machine
@pytest.mark.unmeasured
def test_completion_completes(kit: Kit, tmp_path: Path) -> None:
    script = kit("completion", "bash")
    assert script.returncode == 0 and kit("completion", "tcsh").returncode == 2
    assert "compdef" in kit("completion", "zsh").stdout and "complete" in kit("completion", "fish").stdout
    (tmp_path / "kit").write_text(f'#!/bin/sh\nexec {sys.executable} -m kit "$@"\n')
    (tmp_path / "kit").chmod(0o755)
    store = new_store(tmp_path / "kit.db")
    store.add(night(7, 0.1))

    def complete(line: str, breaks: str = ":=@") -> list[str]:
        """What replaces the last part of the line, as Bash splits it."""
        asked = f"COMP_WORDBREAKS=' {breaks}'; COMP_LINE='{line}'; COMP_POINT={len(line)}; _kit_completion kit"
        text = f'{script.stdout}\n{asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KIT_STORE": f"sqlite:///{tmp_path}/kit.db"}
        done = subprocess.run(["bash", "-c", text], env=env, capture_output=True, text=True, check=False)
        return done.stdout.split()

    assert complete("kit compare-") == ["compare-sessions"]
    assert complete("kit compare kernel:s") == ["short"] and complete("kit compare kernel:s", "") == ["kernel:short"]
    assert "loop" in complete("kit compare kernel:")
    assert complete("kit show 2026-") == complete("kit compare --resume 2026-") == ["2026-0007"]
    assert complete("kit history mine ") == ["bare", "layer:overlay2"]
    assert "--precision" in complete("kit compare --pre")
    assert complete("kit compare smoke --arms bare,layer:containerd/ov") == ["containerd/overlayfs"]
    assert complete("kit compare smoke --arms bare,layer:ove", "") == [
        f"bare,layer:{name}" for name in ("overlay2", "overlayfs")
    ]
    assert complete("kit compare smoke --arms layer:overlay2@xfs-s") == ["xfs-stripe"]
    assert "ext4,btrfs" in complete("kit compare smoke --fs ext4,btr")
    assert complete("kit history mine bare --metric cpu_t") == ["cpu_total"]
    assert "kernel" in complete("kit image build k")
