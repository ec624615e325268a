"""bonnie++'s CSV line in its formats; tests/machine/test_peers.py has bonnie++ itself write it."""

import pytest

from kit.core.errors import RunError
from kit.parsers import parse_report


def values(text: str) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in parse_report("bonnie", text).figures}


#: As bonnie++ 2.00a of Debian 12 printed it.
BONNIE = (
    "1.98,2.00a,vm,1,1795258002,64M,,8192,5,1332,98,+++++,+++,+++++,+++,2076,97,+++++,+++,5000,+++,1,,,,,+++++,+++,"
    "+++++,+++,810,+++,+++++,+++,+++++,+++,+++++,+++,9689us,308us,169us,7730us,69us,9914us,364us,62us,222us,879us,33us,2s\n"
)
#: Of format 1.97, as its program prints it with -f: nothing by character.
FAST = (
    "1.97,1.97,vm,1,1795258002,2G,,,,90000,12,40000,8,,,120000,10,250.5,6,16,,,,,3000,20,5000,30,4000,22,3100,21,"
    "5100,31,4100,23,,300ms,400ms,,50ms,90ms,150us,80us,160us,151us,20us,161us\n"
)
#: Of 1.97 with -s 0: no test of throughput.
FILES = f"1.97,1.97,vm,1,1795258002{',' * 14},16,,,,,3000,20,5000,30,4000,22,3100,21,5100,31,4100,23{',1us' * 12}\n"


def test_figures_and_latencies_and_too_fast_is_not_zero() -> None:
    figures = values(f"Using uid:0\n{BONNIE}")
    assert figures["write, per character"] == pytest.approx(1332 * 1024 / 1e6)
    assert figures["rewrite"] is None and figures["create, sequential"] is None
    assert figures["seeks"] == 5000.0
    assert figures["delete, sequential"] == 810.0
    assert figures["write, block: worst latency"] == 308.0
    assert figures["delete, random: worst latency"] == 2e6


@pytest.mark.parametrize("prefix", ["  ", "2026-01-02T03:04:05.123Z ", "#12 3.456 ", "\x1b[0m"])
def test_a_line_behind_the_prefix_of_a_log_is_read(prefix: str) -> None:
    assert values(f"Using uid:0\n{prefix}{BONNIE}") == values(BONNIE)
    assert values(f"{BONNIE}{prefix}{FAST}") == values(f"{BONNIE}{FAST}")


def test_what_was_not_run_is_left_out() -> None:
    files = "9,+++,+++++,+++,8,+++,7,+++,6,+++,5,+++"
    figures = values(f"1.98,2.00a,vm,1,1{',' * 17}1,,,,,{files},,,,,,,3803us,55us,1us,1us,5us,1us")
    assert "rewrite" not in figures and "seeks: worst latency" not in figures
    assert figures["create, sequential"] == 9.0 and figures["stat, sequential"] is None
    assert figures["create, sequential: worst latency"] == 3803.0


@pytest.mark.parametrize("version", ["1.96", "1.97"])
def test_columns_are_those_of_the_format(version: str) -> None:
    figures = values(FAST.replace("1.97,1.97", f"{version},{version}"))
    by_block = ("write, block", "rewrite", "read, block", "seeks", "create, sequential", "delete, random")
    assert [figures[name] for name in by_block] == [92.16, 40.96, 122.88, 250.5, 3000.0, 4100.0]
    assert "write, per character" not in figures
    assert figures["write, block: worst latency"] == 300_000.0
    of_files = values(FILES.replace("1.97,1.97", f"{version},{version}"))
    assert of_files["create, sequential"] == 3000.0 and "seeks" not in of_files


def test_each_of_several_tests_is_reported() -> None:
    figures = values("format_version,bonnie_version,name\n" + BONNIE + BONNIE.replace(",810,", ",900,"))
    assert figures["test 1: delete, sequential"] == 810.0
    assert figures["test 2: delete, sequential"] == 900.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BONNIE.replace("1.98,", "1.99,", 1), "format 1.99 has unknown columns: use one of 1.96, 1.97, 1.98"),
        (FAST.replace("1.97,", "1.98,", 1), "has 48 columns; format 1.98 has 50"),
        (BONNIE.replace("1.98,", "1.97,", 1), "has 50 columns; format 1.97 has 48"),
        (BONNIE.replace(",810,", ",81x,"), "delete, sequential: not a number: '81x'"),
        ("vm,2G,700,99,90000,12,40000,8,1500,97,120000,10,250.5,6,16,3000,20,+++++,+++\n", "this one is older"),
        ("Version  1.03e      ------Sequential Output------\n", "this one is older"),
    ],
)
def test_what_can_not_be_read_is_named(text: str, says: str) -> None:
    with pytest.raises(RunError) as failure:
        parse_report("bonnie", text)
    assert says in failure.value.message
