import json
from typing import Any

import pytest

from kit.core.errors import RunError
from kit.parsers import PARSERS, parse_report
from kit.parsers.figure import MORE, Reported


def values(name: str, text: str) -> dict[str, float | None]:
    return {item.name: item.value for item in parse_report(name, text).figures}


def test_lines_of_the_kits_own_form() -> None:
    text = "noise\nkit: cycles = 12.5 per s, more is better\nkit: latency p99 = 3e-3 ms\nkit: fragments = 7\n"
    assert parse_report("lines", text).figures == (
        Reported("cycles", 12.5, "per s", MORE),
        Reported("latency p99", 0.003, "ms"),
        Reported("fragments", 7.0, ""),
    )


@pytest.mark.parametrize("text", ["kit: cycles 12", "kit: cycles = many", "kit: cycles = nan s"])
def test_a_line_that_begins_like_one_and_is_none_is_an_error(text: str) -> None:
    with pytest.raises(RunError, match=r"kit: cycles|could not convert"):
        parse_report("lines", text)


@pytest.mark.parametrize("name", PARSERS)
def test_no_figures_are_an_error(name: str) -> None:
    with pytest.raises(RunError, match=r"no figures|no JSON|no CSV line"):
        parse_report(name, "nothing here\n")


def fio_job(**changes: Any) -> dict[str, Any]:
    side = {
        "total_ios": 100, "bw_bytes": 2_000_000, "iops": 500.0, "lat_ns": {"mean": 4000.0},
        "clat_ns": {"percentile": {"50.000000": 3000, "99.000000": 9000}},
    }  # fmt: skip
    idle = {"total_ios": 0, "bw_bytes": 0, "iops": 0.0, "lat_ns": {"mean": 0.0}, "clat_ns": {}}
    return {"jobname": "j", "error": 0, "read": side, "write": idle, "trim": idle, **changes}


def test_fio_sums_over_jobs_and_leaves_out_what_was_not_done() -> None:
    text = "kit: O_DIRECT = 1\nnote: something\n" + json.dumps({"jobs": [fio_job(), fio_job()]}, indent=2) + "\nend"
    assert values("fio", text) == {
        "read bandwidth": 4.0,
        "read IOPS": 1000.0,
        "read latency": 4.0,
        "read latency p50": 3.0,
        "read latency p99": 9.0,
        "O_DIRECT": 1.0,
    }


def test_a_job_of_fio_that_failed_is_an_error() -> None:
    with pytest.raises(RunError, match="fio's job j failed"):
        parse_report("fio", json.dumps({"jobs": [fio_job(error=22)]}, indent=2))


#: As bonnie++ 2.00a of Debian 12 printed it.
BONNIE = (
    "1.98,2.00a,vm,1,1795258002,64M,,8192,5,1332,98,+++++,+++,+++++,+++,2076,97,+++++,+++,5000,+++,1,,,,,+++++,+++,"
    "+++++,+++,810,+++,+++++,+++,+++++,+++,+++++,+++,9689us,308us,169us,7730us,69us,9914us,364us,62us,222us,879us,33us,2s\n"
)


def test_bonnie_reads_figures_and_latencies_and_too_fast_is_not_zero() -> None:
    found = values("bonnie", f"Using uid:0\n{BONNIE}")
    assert found["write, per character"] == pytest.approx(1332 * 1024 / 1e6)
    assert found["rewrite"] is None and found["create, sequential"] is None
    assert found["seeks"] == 5000.0
    assert found["delete, sequential"] == 810.0
    assert found["write, block: worst latency"] == 308.0
    assert found["delete, random: worst latency"] == 2e6


def test_bonnie_leaves_out_what_was_not_run() -> None:
    figures = "9,+++,+++++,+++,8,+++,7,+++,6,+++,5,+++"
    found = values("bonnie", f"1.98,2.00a,vm,1,1{',' * 17}1,,,,,{figures},,,,,,,3803us,55us,1us,1us,5us,1us")
    assert "rewrite" not in found and "seeks: worst latency" not in found
    assert found["create, sequential"] == 9.0 and found["stat, sequential"] is None
    assert found["create, sequential: worst latency"] == 3803.0


def test_what_is_said_of_a_wrong_report_has_a_bound() -> None:
    document = json.dumps({"jobs": [{"jobname": "x" * 1_000_000, "error": 1}]}, indent=2)
    for name, text in (("fio", document), ("lines", "kit: " + "x" * 1_000_000)):
        with pytest.raises(RunError) as failure:
            parse_report(name, text)
        assert len(failure.value.message) < 400
