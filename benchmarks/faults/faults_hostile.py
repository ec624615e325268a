"""Run a session as root with a source tree, an image, an export, a suite and a store of another user, who races.

The user may write to the directory in which root works, to the sources and to the reports' directory, and exchanges
files there for links all the time. What would harm only leaves a mark: a file that root's process made, a changed file
of root's, or the content of a secret file in a place of the kit's.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from faults_kill import SEQUENTIAL
from faults_other_user import FORK, USER, become_user, beside, reached, said
from faults_trial import Bench, Outcome, Running, check_said, finish_session

import kit
from kit.core.sanitize import visible
from kit.host.machine import read_host
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.session import DONE, INTERRUPTED, Request, Session
from kit.store import open_store
from kit.store.exchange import dump_lines
from tests.hostile import CONTROL, spoiled
from tests.nights import night

WHERE = ("hostile inputs beside a user who races",)
ARMS = "bare,layer:overlay2"
#: Sources, by number of the seed: a tree that stays, one that changes while it is read, root's clone of a repository.
SOURCES = (("tree",), ("tree",), ("project", "--source-rev", "HEAD"))
CHANGES = 1
#: A program, and a module of Python, that leave a mark.
PROGRAM = "#!/bin/sh\n: > {marks}/$(id -u)-$(basename $0)\n"
MODULE = "import os\nopen(f'{marks}/{{os.getuid()}}-{name}', 'w')\nraise SystemExit('foreign')\n"
MODULES = ("pip", "platform", "json", "kit", "runpy", "site")
SUITE = '[[tasks]]\ncommand = ["true"]\narms = ["bare"]\nrounds = 1\n'


def trials(bench: Bench, where: str, seeds: Iterable[int]) -> Iterator[Outcome]:
    bench.home.chmod(0o755)
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="kit-faults-", dir="/var/tmp") as directory:
            yield _trial(bench, seed, Path(directory))


@dataclass(frozen=True)
class Place:
    """Directories of a trial: root's alone, the other user's, one for marks, and what the other user finds."""

    top: Path

    @property
    def victim(self) -> Path:
        return self.top / "victim"

    @property
    def theirs(self) -> Path:
        return self.top / "theirs"

    @property
    def marks(self) -> Path:
        return self.top / "marks"

    @property
    def found(self) -> Path:
        return self.top / "found"

    def state(self) -> list[tuple[str, int, int, bytes]]:
        """Return the names, modes, owners and contents of root's files."""
        paths = sorted(self.victim.rglob("*"))
        infos = [path.lstat() for path in paths]
        return [
            (str(path), info.st_mode, info.st_uid, path.read_bytes() if stat.S_ISREG(info.st_mode) else b"")
            for path, info in zip(paths, infos, strict=True)
        ]


def _trial(bench: Bench, seed: int, top: Path) -> Outcome:
    dice = random.Random(f"{seed}/hostile")
    place, secret = Place(top), f"secret-{dice.getrandbits(128):032x}"
    top.chmod(0o755)
    place.victim.mkdir(mode=0o700)
    (place.victim / "sub").mkdir()
    for path in (place.victim / "secret", place.victim / "sub/file"):
        path.write_text(secret)
    place.marks.mkdir()
    place.marks.chmod(0o1777)
    place.theirs.mkdir()
    os.chown(place.theirs, USER, USER)
    _as_user(lambda: _make_theirs(place))
    subprocess.run(["chown", "-hR", "root:root", place.theirs / "project"], check=True)
    before, image, sources = place.state(), _image(bench, place, dice), SOURCES[seed % len(SOURCES)]
    with _marked_race(bench, place, dice, seed % len(SOURCES) == CHANGES):
        wrong = [
            *_settings(bench, place), *_session(bench, place, image, sources, dice), *_export(bench, place),
            *_planted(bench, place), *bench.left(),
        ]  # fmt: skip
    let_in = said(place.found)[:5]
    let_in += [f"root made {path.name}" for path in place.marks.iterdir() if path.lstat().st_uid == 0]
    let_in += [] if place.state() == before else ["files of root's have changed"]
    let_in += [f"the secret is in {path}" for path in _holding(secret, (bench.home, place.theirs))][:5]
    return Outcome(WHERE[0], seed, " ".join(sources), tuple(wrong), tuple(let_in))


def _as_user(work: object) -> None:
    def run() -> None:
        become_user()
        work()  # type: ignore[operator]

    process = FORK.Process(target=run)
    process.start()
    process.join()
    assert process.exitcode == 0


def _make_theirs(place: Place) -> None:
    """All that the other user has laid out: modules, settings, a suite, sources in a Git repository of its own."""
    os.chdir(place.theirs)
    for name in MODULES:
        Path(name).mkdir()
        Path(name, "__init__.py").write_text(MODULE.format(marks=place.marks, name=name))
    program = place.theirs / "program"
    program.write_text(PROGRAM.format(marks=place.marks))
    program.chmod(0o755)
    Path("settings").write_text(f'docker = "{program}"\narms = ["bare"]\n')
    Path("mine.toml").write_text(SUITE)
    Path("out").mkdir()
    for name in ("tree", "tree/sub", "tree/-rf", "tree/--help", "tree/a\nb"):
        Path(name).mkdir()
    for name in ("tree/sub/file", "tree/-rf/file", "tree/--checkpoint-action=exec=program", "tree/plain"):
        Path(name).write_text("of the tree\n")
    for name, target in ((".kit-changed", "secret"), ("directory", ""), ("link", "secret"), ("up", "sub")):
        Path("tree", name).symlink_to(place.victim / target)
    _make_repository(program)


def _make_repository(program: Path) -> None:
    """A Git repository whose configuration and attributes name a program."""
    Path("project").mkdir()
    for name, text in ((".gitattributes", "* filter=mark export-subst\n"), ("file", "$Format:%H$\n")):
        Path("project", name).write_text(text)
    for words in (("init", "-q"), ("add", "."), ("-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "x")):
        subprocess.run(["git", "-C", "project", *words], env={**os.environ, "HOME": str(Path.cwd())}, check=True)
    with Path("project/.git/config").open("a", encoding="utf-8") as config:
        config.write(f'[core]\nfsmonitor = {program}\npager = {program}\n[filter "mark"]\nsmudge = {program}\n')
    for hook in ("post-checkout", "reference-transaction"):
        Path("project/.git/hooks", hook).symlink_to(program)


def _image(bench: Bench, place: Place, dice: random.Random) -> Path:
    """The small image with links of its directories to root's files, a setuid program and a device node."""
    path = place.top / "image.tar"
    shutil.copy(bench.image, path)
    with tarfile.open(path, "a") as tar:
        for name in dice.sample(("root", "var", "opt/away", "srv", "home/x"), 3):
            member = tarfile.TarInfo(f"./{name}")
            member.type, member.linkname = tarfile.SYMTYPE, str(place.victim)
            tar.addfile(member)
        setuid = tarfile.TarInfo("./bin/setuid")
        setuid.mode, setuid.size = 0o4755, 2
        tar.addfile(setuid, io.BytesIO(b"#!"))
        device = tarfile.TarInfo("./dev/mem-of-image")
        device.type, device.devmajor, device.devminor, device.mode = tarfile.CHRTYPE, 1, 1, 0o666
        tar.addfile(device)
    return path


@contextmanager
def _marked_race(bench: Bench, place: Place, dice: random.Random, changes: bool) -> Iterator[None]:
    """The other user exchanges directories and reports for links, and tries what may be written or read."""
    chosen = random.Random(dice.random())
    exchanged = [("out/report.json", "secret"), ("out", "")]
    exchanged += [("tree/sub", "sub"), ("tree/plain", "secret")] if changes else []

    def work() -> Iterable[str]:
        for _ in range(50):
            target, new = chosen.choice(exchanged)
            path, aside = place.theirs / target, place.theirs / f"{target}-aside"
            with suppress(OSError):
                path.rename(aside)
                path.symlink_to(place.victim / new)
            time.sleep(0.002 * chosen.random())
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                aside.rename(path)
        yield from reached((bench.home / "state", bench.home / "cache", Path("/run/kit")))
        yield from reached((bench.home / "data",), readable=True)

    with beside(place.found, work):
        yield


def _kit(bench: Bench, place: Place, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the kit in the other user's directory, as the installed program does."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "kit", *words], cwd=place.theirs, env={**_environment(bench), **env},
        capture_output=True, text=True, errors="replace", timeout=300, check=False,
    )  # fmt: skip


def _environment(bench: Bench) -> dict[str, str]:
    return {**os.environ, **bench.env, "PYTHONPATH": str(Path(kit.__file__).parent.parent), "PYTHONSAFEPATH": "1"}


def _settings(bench: Bench, place: Place) -> list[str]:
    """Settings of the other user's in the current directory are refused."""
    path = place.theirs / "kit.toml"
    _as_user(lambda: shutil.copy(place.theirs / "settings", path))
    done = _kit(bench, place, "compare", "smoke", "--dry-run")
    path.unlink()
    refused = done.returncode == 2 and "is not obeyed" in done.stderr
    return [*check_said(done.stderr), *([] if refused else [f"kit.toml was not refused: {done.stderr[-200:]}"])]


def _session(bench: Bench, place: Place, image: Path, sources: Sequence[str], dice: random.Random) -> list[str]:
    """A session whose image, sources and place of reports are the other user's."""
    words = replace(bench, image=image).words(
        ARMS, *SEQUENTIAL, "--source", *sources, "--json", "out/report.json", "--copies", dice.choice("12")
    )
    running = Running(words, ("env", "-C", str(place.theirs)), **_environment(bench))
    status = running.end()
    if status not in (0, 1, 2):
        return [f"it ended with {status}: {running.said[-300:]}"]
    wrong = check_said(running.said)
    if status and "fix: " not in running.said and "FAILED" not in running.said:
        wrong.append(f"it ended with {status} and said no fix: {running.said[-300:]}")
    if running.session and bench.get(running.session).status not in (DONE, INTERRUPTED):
        return wrong  # it has failed, and said so
    return [
        *wrong,
        *(finish_session(bench, bench.get(running.session), running, may_fail=True) if running.session else []),
    ]


def _export(bench: Bench, place: Place) -> list[str]:
    """An export whose every text acts where it is shown as it is."""
    session = replace(spoiled(night(1, 0.1), f"{CONTROL}$(: > {place.marks}/0-export)", arms_too=True), id="hostile-1")
    path = place.theirs / "export.kit.json"
    with suppress(UnicodeEncodeError):  # a surrogate is no text of a file
        path.write_text("".join(dump_lines([session])), encoding="utf-8", errors="replace")
    home = place.top / "home"
    wrong = []
    completion = {"_KIT_COMPLETE": "bash_complete", "COMP_WORDS": "kit history smoke ", "COMP_CWORD": "3"}
    calls: Sequence[tuple[tuple[str, ...], dict[str, str]]] = (
        (("import", str(path)), {}), (("sessions",), {}), (("show", "hostile-1"), {}), (("export", "hostile-1"), {}),
        (("report", "hostile-1", "-o", str(place.top / "report.html")), {}), ((), completion),
    )  # fmt: skip
    for words, env in calls:
        done = _kit(bench, place, *words, KIT_HOME=str(home), **env)
        shown = visible(done.stdout) == done.stdout and visible(done.stderr) == done.stderr
        shown = shown and not (env and "$(" in done.stdout)
        wrong += [*check_said(done.stderr), *([] if shown else [f"kit {' '.join(words[:1])} shows what acts"])]
    return wrong


def _planted(bench: Bench, place: Place) -> list[str]:
    """Sessions that another writer has put into the store: one to resume, one of a suite."""
    mark = str(place.marks / f"{os.getuid()}-planted")
    request = Request(command=("true",), prepare=f"touch {mark}", arms=("host@dir",), rounds=1, suite="mine x 1")
    plan = make_plan(parse_arms("host@dir"), SessionOptions(rounds=1, seed=1, cache="cold", control=False))
    facts = {"machine": read_host().machine}
    wrong = []
    with tempfile.TemporaryDirectory(dir=place.top) as directory:
        store = open_store(f"sqlite:///{directory}/kit.db", Path(directory))
        for status in (INTERRUPTED, DONE):
            name = f"planted-{status}"
            now = time.time()
            store.add(Session(name, now, "0", "true", status, request, ("host@dir",), (), 1, plan=plan, facts=facts))
            for words in (("--resume", name, "--json", "out/report.json"), ("suite:mine.toml", "--resume", "last")):
                done = _kit(bench, place, "compare", *words, "--store", f"sqlite:///{directory}/kit.db")
                wrong += check_said(done.stderr)
                if done.returncode == 0:
                    wrong.append(f"kit compare {' '.join(words)} took a session of another writer, {status}")
        store.close()
    return wrong


def _holding(secret: str, places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        for path in place.rglob("*"):
            with suppress(OSError):
                if stat.S_ISREG(path.lstat().st_mode) and secret.encode() in path.read_bytes():
                    yield path
