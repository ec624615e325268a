"""``kit config``: the settings that hold here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click

from kit.cli.options import json_option, write_json

_EPILOG = """\b
Examples:
  kit config
  kit config --all             also defaults
  kit config --json - | jq .settings.store

\b
By precedence, the first that has a setting counts:
  1. options of the command line
  2. environment variables, such as KIT_STORE
  3. kit.toml in this directory, or in the nearest one above that has a file with settings
  4. [tool.kit] of pyproject.toml there
  5. the user's config.toml, in ~/.config/storage-driver-test-kit, or in KIT_HOME

\b
A file, kit.toml:
  arms = ["bare", "layer:overlay2"]
  rounds = 5
  [labels]
  team = "builds"

Nightly files use the store's URL alone; pytest's own settings come before 3."""


@click.command(epilog=_EPILOG)
@click.option("--all", "every", is_flag=True, help="Also show defaults.")
@json_option
def config(every: bool, json_file: str) -> None:
    """Show current settings with their files."""
    from tabulate import tabulate

    from kit.core.paths import config_file
    from kit.core.redact import redact
    from kit.host.settings_files import settings_files

    rows = [(key, redact(value) if isinstance(value, str) else value, where) for key, value, where in _settings()]
    files = [str(path) for path, _ in settings_files()]
    if json_file:
        origins = {key: {"value": value, "from": where} for key, value, where in rows}
        write_json(json_file, {"schema": 1, "files": files, "settings": origins})
    if json_file == "-":
        return
    listed = [(key, _shown(value), where) for key, value, where in rows if every or where != _DEFAULT]
    if listed:
        click.echo(tabulate(listed, ["setting", "value", "from"], disable_numparse=True))
    else:
        click.echo(f"no settings; make kit.toml here, or {config_file()}: see kit config --help")


_DEFAULT = "default"


def _settings() -> Iterator[tuple[str, Any, str]]:
    """Yield each setting with its value and its origin."""
    from kit.host.settings_files import find_settings
    from kit.model.options import OPTIONS
    from kit.model.settings import KEYS

    entries = find_settings()
    for key in KEYS:
        if key == "store" and os.environ.get("KIT_STORE"):
            yield key, os.environ["KIT_STORE"], "KIT_STORE"
        elif key in entries:
            yield key, entries[key].value, entries[key].where
        else:
            default = OPTIONS[key].default if key in OPTIONS else ""
            yield key, default, _DEFAULT


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)
