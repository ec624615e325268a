"""What a session must not change on a machine: printed by ``python3 machine_state.py`` as JSON, and compared.

It needs nothing but Python and looks at the machine on which it runs, so a guest of the tests runs it too."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: Commands whose output is a part of the state. One that is not installed has no output.
_COMMANDS = {
    "link": ["ip", "-brief", "link"],
    "address": ["ip", "-oneline", "address"],
    "route": ["ip", "route", "show", "table", "all"],
    "rule": ["ip", "rule"],
    "iptables": ["iptables-save"],
    "ip6tables": ["ip6tables-save"],
    "iptables-legacy": ["iptables-legacy-save"],
    "nftables": ["nft", "list", "ruleset"],
    "container": ["docker", "ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.Names}} {{.State}} {{.Ports}}"],
    "image": ["docker", "images", "--all", "--no-trunc", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}"],
    "docker network": ["docker", "network", "ls", "--no-trunc", "--format", "{{.ID}} {{.Name}} {{.Driver}}"],
    "volume": ["docker", "volume", "ls", "--format", "{{.Name}}"],
}
#: What iptables-save prints of the time, and of packets.
_VOLATILE_WORDS = re.compile(r"^# (Generated|Completed).*$|\[\d+:\d+\]|counter packets \d+ bytes \d+", re.MULTILINE)
#: The kernel gives an interface such an address, and its routes, a second after the interface's start.
_LINK_LOCAL = re.compile(r"fe80::|ff00::/8")
#: Settings that the kernel changes by itself, and the caches that every session drops.
_VOLATILE_SETTINGS = re.compile(
    r"/(random/.*|.*_nr|.*-nr|.*-state|ns_last_pid|nf_conntrack_count|nr|drop_caches|base_reachable_time.*|stat_refresh"
    r"|tcp_fastopen_key|stable_secret|flush|cad_pid|perf_event_max_sample_rate|sched_domain/.*|tcp_mem|udp_mem|quota/.*)$"
)
#: Directories whose files are listed; of /etc the contents too.
_DIRECTORIES = ("/etc", "/run", "/dev", "/dev/shm", "/var/lib", "/opt", "/tmp", "/var/tmp", "/sys/fs/cgroup")
#: How deep they are listed: below these are files that other programs change at any time.
_DEPTH = {"/etc": 4, "/run": 3, "/var/lib": 2, "/sys/fs/cgroup": 4}
#: Files of the programs that look, of systemd's units that come and go, of logins, and of the kit itself.
_VOLATILE_FILES = re.compile(
    r"^(/dev/(pts|fd|char|block|disk|bus|ptmx)|/run/(systemd|user|udev|log|lock|utmp|sudo|blkid|mount|kit$|xtables.lock)"
    r"|/etc/(mtab|\.pwd\.lock)|/var/lib/(systemd|dpkg|apt|logrotate/status|kit$|docker/|containerd/|private)|/tmp/(systemd-|pytest|tmp)"
    r"|/var/tmp/systemd-|/sys/fs/cgroup/(.*\.(scope|service|slice)|[^/]*/kit-|kit-))"
)


def state() -> dict[str, list[str]]:
    """Return the lines of each kind of thing, sorted."""
    lines = {name: _printed(words) for name, words in _COMMANDS.items()}
    lines["setting"] = list(_settings(Path("/proc/sys")))
    lines["module"] = _words("/proc/modules", 0)
    lines["mount"] = [" ".join(line.split()[3:6]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    lines["swap"] = _words("/proc/swaps", 0)
    lines["loop device"] = [
        f"{path.parts[3]} {path.read_text().strip()}" for path in Path("/sys/block").glob("loop*/loop/backing_file")
    ]
    for top in _DIRECTORIES:
        lines[f"file in {top}"] = list(_files(Path(top), _DEPTH.get(top, 1)))
    return {name: sorted(values) for name, values in lines.items()}


def difference(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """Return what was removed (-) and what is new (+)."""
    changes = []
    for name in before:
        old, new = set(before[name]), set(after[name])
        changes += [f"- {name}: {line}" for line in sorted(old - new)]
        changes += [f"+ {name}: {line}" for line in sorted(new - old)]
    return changes


def _printed(words: list[str]) -> list[str]:
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    except FileNotFoundError:
        return []
    lines = _VOLATILE_WORDS.sub("", done.stdout).splitlines()
    return [line for line in lines if line.strip() and not _LINK_LOCAL.search(line)]


def _words(path: str, number: int) -> list[str]:
    if not Path(path).exists():  # a kernel without modules, or without swap
        return []
    return [line.split()[number] for line in Path(path).read_text().splitlines()]


def _settings(top: Path) -> Iterator[str]:
    for path in top.rglob("*"):
        if path.is_dir() or _VOLATILE_SETTINGS.search(str(path)) or not os.access(path, os.R_OK):
            continue
        try:
            value = path.read_text(errors="replace").strip()
        except OSError:
            continue
        yield f"{path.relative_to(top)} = {value}"


def _files(top: Path, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(top), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if _VOLATILE_FILES.match(entry.path):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
            digest = ""
            if stat.S_ISREG(status.st_mode) and entry.path.startswith("/etc/"):
                digest = hashlib.sha256(Path(entry.path).read_bytes()).hexdigest()[:12]
        except OSError:
            continue
        yield f"{entry.path} {stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid} {digest}".strip()
        if stat.S_ISDIR(status.st_mode) and depth > 1:
            yield from _files(Path(entry.path), depth - 1)


if __name__ == "__main__":
    json.dump(state(), sys.stdout, indent=1)
