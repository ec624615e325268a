"""A copy of the kit with a few lines more, run by itself: what it takes to add a metric, a renderer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import kit


class ChangedKit:
    """The copy lies below ``where``, and what it keeps beside it; ``touched`` are the files that were changed."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self.touched: set[str] = set()
        source = Path(kit.__file__).parent
        shutil.copytree(source, where / "kit", ignore=shutil.ignore_patterns("__pycache__", "_data"))

    def add_file(self, name: str, text: str) -> None:
        path = self._where / name
        assert not path.exists(), name
        path.write_text(text, encoding="utf-8")
        self.touched.add(name)

    def insert(self, name: str, before: str, line: str) -> None:
        """``line`` above that which holds ``before``, the only one that does."""
        path = self._where / name
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{name}: {before!r} is there {text.count(before)} times"
        at = text.rindex("\n", 0, text.index(before)) + 1
        path.write_text(f"{text[:at]}{line}\n{text[at:]}", encoding="utf-8")
        self.touched.add(name)

    def python(self, code: str, *words: str) -> str:
        """What the code prints, run with the copy as ``kit``; it must end well."""
        return self._run([sys.executable, "-c", code, *words])

    def command(self, *words: str) -> str:
        """What ``kit WORDS`` prints."""
        return self._run([sys.executable, "-m", "kit", *words])

    def refused(self, *words: str) -> str:
        """What ``kit WORDS`` says on stderr; it must fail."""
        done = self._done([sys.executable, "-m", "kit", *words])
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stderr

    def _run(self, words: list[str]) -> str:
        done = self._done(words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _done(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KIT_HOME": str(self._where / "home"), "PYTHONPATH": str(self._where)}
        return subprocess.run(words, cwd=self._where, env=environment, capture_output=True, text=True)
