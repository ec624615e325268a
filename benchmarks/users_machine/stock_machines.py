"""README's two commands on stock Debian machines, as a new user runs them: an ordinary user with sudo.

    PYTHONPATH=. python benchmarks/users_machine/stock_machines.py bookworm trixie unstable --record

As root, with mmdebstrap, qemu-system-x86 and qemu-utils; hours a machine, since QEMU emulates it: --compare, --test
and --only shorten. --uml boots the same disk under User-Mode Linux, with slirp4netns and in an hour: the kernel is the
one of tests/users_machine, in place of the distribution's. Each release is a disk with Debian's standard system, its
kernel and initramfs, Docker and nothing of the kit. The guest gets this checkout's last commit as a clone, and the
mirrors and certificates that this machine uses. Then ``make compare``, ``kit doctor`` and ``make test`` run in it, and
links, mounts, packet filters and Docker's networks are compared before and after. Prints the table; --record writes it
into machines.json (then: docs/generate.py). ``here`` as a release is this machine.
``--table`` prints what is recorded. Exit code 1: something failed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import machine_table
import uml_guest
from machine_settings import write_settings
from machine_table import PASSED, Machine, Run, machines_table, read_table
from qemu_guest import Shell, booted, make_key, write_network_files

import kit
from tests.users_machine.kernel import make_kernel
from tests.users_machine.machine import write_files
from tests.users_machine.root import make_root, say

ROOT = Path(__file__).parents[2]
HERE = "here"
RELEASES = ("bookworm", "trixie", "unstable", HERE)
COMMANDS = ("compare", "doctor", "test")
#: More than Debian's standard system: what a cloud image has, and what somebody has who cloned the kit. The standard
#: system of unstable has no mount(8); an installer adds it, and without it systemd mounts no /tmp.
PACKAGES = (
    "linux-image-amd64", "initramfs-tools", "mount", "unattended-upgrades", "curl", "git", "make", "python3",
)  # fmt: skip
#: Prints one line of JSON: what the machine is.
FACTS = """
sudo=$([ "$(id -u)" = 0 ] || echo sudo)
. /etc/os-release
cat <<END | python3 -c 'import json, sys; print(json.dumps(sys.stdin.read().splitlines()))'
$NAME $(cat /etc/debian_version)
$(uname -r)
$([ -d /run/systemd/system ] && systemctl --version | head -n 1 | cut -d " " -f 1,2 || echo none)
$(stat -f -c %T /sys/fs/cgroup)
$(PATH=$PATH:/usr/sbin dockerd --version | cut -d ' ' -f 3 | tr -d ,)
$(id -u | grep -qx 0 && echo root || echo ordinary, with sudo), umask $(umask)
END
"""
#: Prints what must be the same afterwards. The user's own daemon makes directories in /run/docker for a container that
#: doctor starts there.
STATE = """
sudo=$([ "$(id -u)" = 0 ] || echo sudo)
ip -brief link | cut -d ' ' -f 1
findmnt --raw --noheadings --output TARGET,FSTYPE | grep -v -e ^/run/user/ -e ^/run/credentials/ -e binfmt_misc | sort
$sudo iptables-save | grep -v -e '^#' -e '^:'
/usr/sbin/sysctl net.ipv4.ip_forward
$sudo docker network ls --format '{{.Name}} {{.Driver}}'
$sudo docker ps --all --quiet
$sudo sh -c 'ls /run/docker /var/lib/docker' | grep -v -x -e containerd -e netns -e runtime-runc
true
"""
_WITHOUT_SUDO = '[ "$(id -u)" != 0 ] || sudo() { "$@"; }; '
_CGROUPS = {"cgroup2fs": "v2", "tmpfs": "v1 or hybrid"}


def main() -> int:
    options = _options()
    if options.table:
        print(machines_table(read_table()))
        return 0
    machines = []
    for release in options.releases:
        machine = try_here(options) if release == HERE else try_machine(release, options)
        machines.append(machine)
        if options.record:
            machine_table.record(machine)
    print(machines_table(machines))
    return 0 if all(machine.passed for machine in machines) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", choices=RELEASES, default="trixie")
    parser.add_argument("--compare", default="", help="ARGS of make compare", metavar="ARGS")
    parser.add_argument("--test", default="-e unit", help="ARGS of make test", metavar="ARGS")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=COMMANDS, help="which commands")
    parser.add_argument("--installed", default="", help="packages that the disk has already", metavar="NAME …")
    parser.add_argument("--memory", default="5G", help="memory of the machine")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/users_machine", help="where disks are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "build/machines", help="where logs are written")
    parser.add_argument("--uml", action="store_true", help="User-Mode Linux instead of QEMU")
    parser.add_argument("--record", action="store_true", help="write the table into machines.json")
    parser.add_argument("--table", action="store_true", help="print the recorded table")
    options = parser.parse_args()
    options.releases = [options.releases] if isinstance(options.releases, str) else options.releases
    return options


def try_machine(release: str, options: argparse.Namespace) -> Machine:
    """Boot a stock machine of that release and run README's commands; return its row of the table."""
    out: Path = options.out / release
    out.mkdir(parents=True, exist_ok=True)
    options.cache.mkdir(parents=True, exist_ok=True)
    key = make_key(options.cache)
    kernel = make_kernel(options.cache, say) if options.uml else None
    with tempfile.TemporaryDirectory() as files:
        write_network_files(Path(files), key)
        write_settings(Path(files), release)
        if kernel:
            write_files(kernel, Path(files))
        packages = (*PACKAGES, *options.installed.split())
        disk = make_root(release, options.cache, packages, files=Path(files), tools=())
    with tempfile.TemporaryDirectory(dir=options.out) as name, ExitStack() as stack:
        directory = Path(name)
        if kernel:
            guest = stack.enter_context(uml_guest.booted(kernel, disk, key, directory))
        else:
            guest = stack.enter_context(booted(disk, key, directory, options.memory))
        guest.read("sudo update-ca-certificates")
        return _try(guest, "User-Mode Linux" if kernel else "QEMU, emulated", out, options)


def try_here(options: argparse.Namespace) -> Machine:
    """Run README's commands on this machine, in a clone; return its row of the table."""
    out: Path = options.out / "here"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        return _try(Shell(("env", "-C", directory, "bash", "-c")), "virtual machine", out, options)


def _try(guest: Shell, how: str, out: Path, options: argparse.Namespace) -> Machine:
    build = _kit()
    _clone(guest)
    state = guest.read(STATE)
    runs = [_run(guest, command, out / f"{name}.log") for name, command in _commands(options).items()]
    state_after = guest.read(STATE)
    (out / "state.json").write_text(json.dumps({"before": state, "after": state_after}, indent=1))
    result = PASSED if state == state_after else "they differ"
    runs.append(Run("links, mounts, packet filters and Docker are as before", result, 0))
    name, kernel, init, cgroups, docker, user = json.loads(guest.read(FACTS))
    cgroups, day = _CGROUPS.get(cgroups, cgroups), f"{datetime.now(UTC):%Y-%m-%d}"
    return Machine(name, how, kernel, init, cgroups, docker, user, day, build, tuple(runs))


def _commands(options: argparse.Namespace) -> dict[str, str]:
    """Return README's commands, by the name of their log."""
    commands = {
        "compare": f"make compare{_args(options.compare)}",
        "doctor": 'sudo env PATH="$PATH" kit doctor',
        "test": f"make test{_args(options.test)}",
    }
    return {name: commands[name] for name in options.only}


def _kit() -> str:
    words = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return f"{kit.__version__}, {commit}"


def _args(words: str) -> str:
    return f' ARGS="{words}"' if words else ""


def _clone(guest: Shell) -> None:
    """Clone this checkout's last commit into the directory ``kit``."""
    words = ["git", "bundle", "create", "--quiet", "-", "HEAD"]
    bundle = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tempfile.TemporaryFile() as stream:
        stream.write(bundle)
        stream.seek(0)
        code = guest.run("cat >kit.bundle && git clone --quiet kit.bundle kit", subprocess.DEVNULL, stream)
    assert code == 0, f"the clone failed: {code}"


def _run(guest: Shell, command: str, log: Path) -> Run:
    """Run a command of README in the clone. Root needs no sudo, and may not have it."""
    start = time.monotonic()
    print(f"{datetime.now(UTC):%H:%M} {command} (log: {log})", file=sys.stderr, flush=True)
    with log.open("wb") as output:
        code = guest.run(f"cd kit && export PATH=$PWD/.venv/bin:$PATH && {_WITHOUT_SUDO}{command}", output)
    minutes = round((time.monotonic() - start) / 60)
    return Run(f"`{command}`", PASSED if code == 0 else _reason(log) or f"exit code {code}", minutes)


def _reason(log: Path) -> str:
    """Return pytest's count of a log, else its last line that is neither make's nor tox's."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    counts = [line.strip("= ") for line in lines if re.search(r" failed,.* in [0-9.]+s", line)]
    lines = [line for line in lines if not re.match(r"make|\s+(evaluation|\w+:) ", line)]
    return (counts or lines or [""])[-1][:200]


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
