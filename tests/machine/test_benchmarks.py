"""Every script in benchmarks/ starts, at its smallest size: its RESULTS.md files cite what they print.

What they find is not judged here: at this size nothing could be told.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = {path.stem: path for path in (ROOT / "benchmarks").rglob("*.py")}

#: What each takes, and a word of what it prints in the end.
SIMULATED = {
    "bursts": (("--sessions", "2"), "own CPU"),
    "coverage": (
        (
            "--sessions=2",
            "--worlds=CPU neighbours",
            "--rounds=3,auto",
            "--precisions=0.1",
            "--few",
            "--draws=2400",
            "--unpaired=2",
        ),
        "bounds: ",
    ),
    "matrix": (("--sessions", "4", "--scenarios", "3", "--worlds", "equal", "--rounds", "3"), "bounds: "),
    "equivalence": (("--sessions", "2", "--worlds", "normal 1 %;two machines, 1 %", "--rounds", "2,3"), "bounds: "),
    "fleet_cost": (("--fleets", "20", "--draws", "100", "--machines", "3,5"), "bounds: "),
    "fleet": (("--workers", "3", "--rounds", "1", "--seconds", "0.2"), "above it"),
    "growth": (("--sizes", "50,100,150"), "time per sample"),
    "nightly": (("--series", "3"), "nights 40 + 3"),
    "outlook": (("--sessions", "1", "--truths", "+4/-3 %", "--looks", "3"), "bounds: "),
    "parts": (("--sessions", "2", "--rounds", "3", "--parts", "growth"), "growth"),
    "pooling": (("--sessions", "3", "--rounds", "3", "--worlds", "equal"), "equal, 3"),
    "prediction": (("--machines", "3"), "its least"),
    "ranking": (("--sessions", "2", "--worlds", "equal", "--rounds", "3"), "bounds: "),
    "rounds": (("--sessions", "3"), "half the runs"),
    "serve": (("--samples", "300"), ".csv"),
    "interleaving": (("--sessions", "2", "--rounds", "3"), "bounds: "),
    "stopping": (("--sessions", "2", "--worlds", "equal 1 %", "--most", "4"), "bounds: "),
}
SCENARIO = "moment.toml"
MOMENT = 'name = "moment"\nsummary = "x"\nimage = "smoke"\n[[phases]]\nname = "run"\nrun = ["true"]\n'
TINY = "tiny.tar"
MEASURED = {
    "calls": (
        ("--what", "counts,daemon", "--rounds", "2", "--size", "1", "--requests", "MKDIR"),
        "counted otherwise by strace",
    ),
    "copies": (("--copies", "2", "--rounds", "1", "--compilations", "2"), "copies read anew"),
    "equal": (
        ("--workloads", "fsync", "--sessions", "1", "--rounds", "2", "--image", TINY, "--interleave", "0.1s"),
        "interleaved / sequential, 95 %",
    ),
    "peers": (
        ("--tiny", "--image", TINY, "--minutes", "0.1", "--repetitions", "1", "--identical", "0"),
        "half width",
    ),
    "spins": (("--compilations", "3", "--units", "1"), "like a compiler, mean"),
    "recovery": (("--rounds", "2", "--where", "container", "--largest", "--units", "2"), "intervals hold the truth"),
    "timer": (("1",), "daemon that leaves the tree"),
}
STORED = {"harness", "stock_machines"}
ON_A_SERVER = {"store"}
LIBRARIES = {"machine_settings", "machine_table", "noise", "qemu_guest", "reckoned", "speed", "uml_guest", "worlds"}
BY_TRIALS = "faults"  # with its parts: tests/machine/test_faults.py


def test_all_are_started() -> None:
    started = {name for name in SCRIPTS if not name.startswith(BY_TRIALS)}
    assert started == {*SIMULATED, *MEASURED, *STORED, *ON_A_SERVER, *LIBRARIES}


def start(name: str, words: tuple[str, ...], says: str, where: Path) -> None:
    (where / SCENARIO).write_text(MOMENT)
    done = subprocess.run(
        [sys.executable, SCRIPTS[name], *words], cwd=where,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
    assert says in done.stdout, done.stdout + done.stderr


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize("name", SIMULATED)
def test_simulations_start(name: str, tmp_path: Path) -> None:
    start(name, *SIMULATED[name], tmp_path)


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_store_is_filled_and_asked(database: str, tmp_path: Path) -> None:
    words = ("--store", database, "--machines", "2", "--nights", "3", "--writers", "4", "--repeats", "1")
    start("store", words, "sessions not whole: 0", tmp_path)


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.images("smoke", "kernel")
@pytest.mark.parametrize("name", MEASURED)
def test_measurements_start(name: str, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / TINY).symlink_to(tiny)
    start(name, *MEASURED[name], tmp_path)


@pytest.mark.machine
@pytest.mark.unmeasured
def test_the_harness_is_timed(tiny: Path, tmp_path: Path) -> None:
    words = (SCENARIO, "--image", str(tiny), "--rounds", "2", "--arms", "bare,runtime:overlay2")
    start("harness", words, "harness ", tmp_path)


@pytest.mark.machine
@pytest.mark.unmeasured
def test_the_table_of_machines_is_printed(tmp_path: Path) -> None:
    start("stock_machines", ("--table",), "| machine | what ran |", tmp_path)
