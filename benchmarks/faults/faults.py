"""Faults: kits that are killed, whose disks are full, whose clocks jump, whose users set limits or are hostile, which
start together, which run for hours.

    sudo PYTHONPATH=. python benchmarks/faults/faults.py kill [--where docker,bare] [--count 10] [--seed 1]
    sudo PYTHONPATH=. python benchmarks/faults/faults.py full|time|machine|hostile|two|soak [--where …] [--count …]
    sudo PYTHONPATH=. python benchmarks/faults/faults.py campaign [--minutes 60]
        [--workers 2]  all of them beside each other
    PYTHONPATH=. python benchmarks/faults/faults.py inputs [--cases N] [NAME...]  odd input for every parser and message

Each trial prints what it did, its seed, and what should hold and does not. Its ``--where`` and ``--seed`` with
``--count 1`` repeat it. The last lines are rows of the table in benchmarks/faults/RESULTS.md. Exit status 1:
something does not hold. Sessions keep their files in ``--home``.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import faults_campaign
import faults_full
import faults_hostile
import faults_inputs
import faults_kill
import faults_machine
import faults_soak
import faults_time
import faults_two
from faults_trial import make_bench, print_table

from tests.tiny import make_tiny

PARTS = {
    "kill": faults_kill,
    "full": faults_full,
    "time": faults_time,
    "machine": faults_machine,
    "hostile": faults_hostile,
    "two": faults_two,
    "soak": faults_soak,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="part", required=True)
    for name, part in PARTS.items():
        command = commands.add_parser(name, help=(part.__doc__ or "").splitlines()[0])
        command.add_argument("--where", default=",".join(part.WHERE), help="which of them: %(default)s")
        command.add_argument("--count", type=int, default=1, help="trials of each")
        command.add_argument("--seed", type=int, default=1, help="of the first trial; the next has the next")
        command.add_argument("--home", type=Path, default=Path("/var/tmp/kit-faults/home"))
        command.add_argument("--image", type=Path, help="a small root filesystem with busybox; made where not given")
    campaign = commands.add_parser("campaign", help=(faults_campaign.__doc__ or "").splitlines()[0])
    campaign.add_argument("--minutes", type=float, default=60, help="how long trials are begun: %(default)s")
    campaign.add_argument("--workers", type=int, default=2, help="trials beside each other: %(default)s")
    campaign.add_argument("--seed", type=int, default=1, help="of the first trials")
    campaign.add_argument("--home", type=Path, default=Path("/var/lib/kit-faults"))
    campaign.add_argument("--image", type=Path, help="a small root filesystem, as of the others")
    campaign.add_argument("--cache", type=Path, help="the cache of a kit that has built smoke, guest and uml; copied")
    inputs = commands.add_parser("inputs", help=(faults_inputs.__doc__ or "").splitlines()[0])
    inputs.add_argument("names", nargs="*", metavar="NAME", help="these inputs alone")
    inputs.add_argument("--cases", type=int, default=1_000, help="cases of each: %(default)s")
    inputs.add_argument("--first", type=int, default=0, help="number of the first case")
    inputs.add_argument("--jobs", type=int, default=1, help="inputs beside each other: %(default)s")
    arguments = parser.parse_args()
    if arguments.part == "inputs":
        sys.exit(0 if faults_inputs.run(arguments.cases, arguments.names, arguments.jobs, arguments.first) else 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what a trial has mounted or started is undone
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        if not arguments.image:
            Path(scratch).chmod(0o755)  # apt's own user writes there
        home, image = arguments.home.absolute(), (arguments.image or make_tiny(Path(scratch))).absolute()
        if arguments.part == "campaign":
            chosen = arguments.minutes, arguments.workers, arguments.seed
            sys.exit(faults_campaign.run(home, image, arguments.cache, *chosen))
        part = PARTS[arguments.part]
        names = arguments.where.split(",")
        if unknown := sorted(set(names) - set(part.WHERE)):
            parser.error(f"unknown: {', '.join(unknown)}; use: {', '.join(part.WHERE)}")
        bench = make_bench(home, image)
        seeds = range(arguments.seed, arguments.seed + arguments.count)
        sys.exit(print_table(outcome for where in names for outcome in part.trials(bench, where, seeds)))


if __name__ == "__main__":
    main()
