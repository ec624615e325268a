"""fio's JSON as its versions write it; tests/machine/test_peers.py has fio itself write it."""

import json
from typing import Any

import pytest

from kit.core.errors import RunError
from kit.parsers import parse_report


def values(text: str) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in parse_report("fio", text).figures}


def side(ios: int = 100, mean: float = 4000.0, **changes: Any) -> dict[str, Any]:
    """One direction of a job, as fio 3.36 writes it."""
    return {
        "bw_bytes": 20_000 * ios, "bw": 20_000 * ios // 1024, "iops": 5.0 * ios, "total_ios": ios,
        "clat_ns": {"mean": mean, "N": ios, "percentile": {"50.000000": 3000, "99.000000": 9000}},
        "lat_ns": {"mean": mean, "N": ios},
        **changes,
    }  # fmt: skip


IDLE = side(0, 0.0, clat_ns={"mean": 0.0, "N": 0})


def job(**changes: Any) -> dict[str, Any]:
    return {"jobname": "j", "groupid": 0, "error": 0, "read": side(), "write": IDLE, "trim": IDLE, **changes}


def document(*jobs: dict[str, Any], version: str = "fio-3.36", indent: int | None = 2) -> str:
    return json.dumps({"fio version": version, "jobs": jobs}, indent=indent)


READ = {
    "read bandwidth": 2.0, "read IOPS": 500.0, "read latency": 4.0, "read latency p50": 3.0, "read latency p99": 9.0,
}  # fmt: skip


def test_bandwidths_of_jobs_are_summed_and_what_was_not_done_is_left_out() -> None:
    text = f"kit: O_DIRECT = 1\nnote: {{something}}\n{document(job(), job())}\nend {{\nkit: lines = 2\n"
    assert values(text) == {**READ, "read bandwidth": 4.0, "read IOPS": 1000.0, "O_DIRECT": 1.0, "lines": 2.0}


def test_json_on_one_line_with_sorted_keys() -> None:
    assert values(document(job(), indent=None)) == READ
    assert values(json.dumps({"disk_util": [], "jobs": [job()]})) == READ


def test_of_several_documents_the_last_counts() -> None:
    """--status-interval: their figures are cumulative."""
    documents = [document(job(read=side(ios))) for ios in (50, 100)]
    assert values("\n".join(documents)) == READ
    assert values(f"{documents[0]}{documents[1]}\n{{\n}}\n") == READ


@pytest.mark.parametrize("text", ['{"fio version": "fio-3.36", "jobs": [', document(job()) + document(job())[:-9]])
def test_a_document_that_is_cut_off_is_an_error(text: str) -> None:
    with pytest.raises(RunError, match=r"cut off or damaged in line \d"):
        parse_report("fio", text)


def test_braces_that_begin_no_json_have_a_bound() -> None:
    with pytest.raises(RunError, match="cut off or damaged in line 101"):
        parse_report("fio", '{"\n' * 1_000_000)


def test_groups_ran_one_after_the_other() -> None:
    """stonewall and new_group begin one."""
    seq, rand = job(jobname="seq"), job(jobname="rand", groupid=1, read=side(50))
    figures = values(document(seq, seq, rand))
    assert figures["seq: read bandwidth"] == 4.0 and figures["rand: read bandwidth"] == 1.0
    assert not any(name.startswith("read") for name in figures)
    named_alike = values(document(job(), job(groupid=1)))
    assert named_alike["j (group 0): read IOPS"] == named_alike["j (group 1): read IOPS"] == 500.0


def test_unified_directions() -> None:
    """unified_rw_reporting=1 writes ``mixed`` in the place of the others, =both beside them."""
    mixed = {"jobname": "j", "groupid": 0, "error": 0, "mixed": side(150)}
    assert values(document(mixed))["mixed bandwidth"] == 3.0
    both = values(document(job(mixed=side(150))))
    assert (both["read bandwidth"], both["mixed bandwidth"]) == (2.0, 3.0)


def test_a_mean_latency_is_weighted_by_ios() -> None:
    """As sum_stat() of fio's stat.c for group_reporting."""
    figures = values(document(job(read=side(9900, 1000.0)), job(read=side(100, 101_000.0))))
    assert figures["read latency"] == pytest.approx(2.0)
    no_count = [job(read=side(ios, lat_ns={"mean": mean})) for ios, mean in ((9900, 1000.0), (100, 101_000.0))]
    assert values(document(*no_count))["read latency"] == pytest.approx(2.0)


def test_a_latency_that_fio_did_not_take_is_no_zero() -> None:
    """disable_lat=1 and gtod_reduce=1."""
    none_taken = {"mean": 0.0, "N": 0}
    assert "read latency" not in values(document(job(read=side(lat_ns=none_taken))))
    one_took = values(document(job(), job(read=side(lat_ns=none_taken))))
    assert one_took["read latency"] == 4.0


def test_latencies_of_syncs() -> None:
    latency = {"mean": 800_000.0, "N": 100, "percentile": {"50.000000": 700_000, "99.000000": 2_000_000}}
    figures = values(document(job(sync={"total_ios": 100, "lat_ns": latency})))
    assert figures == {**READ, "sync latency": 800.0, "sync latency p50": 700.0, "sync latency p99": 2000.0}
    assert values(document(job(sync={"total_ios": 0, "lat_ns": {"mean": 0.0}}))) == READ
    assert values(document(job(sync={"total_ios": 0, "lat_ns": latency}))) == figures  # of fdatasync, by fio 3.33
    del latency["N"]
    assert values(document(job(sync={"total_ios": 0, "lat_ns": latency}))) == figures


def test_percentiles_of_the_whole_latency() -> None:
    """lat_percentiles=1: the table is that of lat_ns, and clat_ns has none."""
    latency = {"mean": 4000.0, "N": 100, "percentile": {"50.000000": 3000, "99.000000": 9000}}
    assert values(document(job(read=side(clat_ns={"mean": 3900.0, "N": 100}, lat_ns=latency)))) == READ


def old(key: str) -> dict[str, Any]:
    """A direction without ``bw_bytes``: before fio 3.2. ``key``: of latencies."""
    times = {"mean": 4000.0, "percentile": {"50.000000": 3000, "99.000000": 9000}}
    return {"bw": 1953, "iops": 500.0, "total_ios": 100, f"c{key}": times, key: {"mean": 4000.0}}


def test_old_versions_write_other_units() -> None:
    """Before 3.2 a bandwidth is in KiB/s, and before 3.0 times are in microseconds."""
    idle = {"total_ios": 0}
    figures = values(document(job(read=old("lat_ns"), write=idle, trim=idle), version="fio-3.1"))
    assert figures == {**READ, "read bandwidth": 1953 * 1024 / 1e6}
    figures = values(document(job(read=old("lat"), write=idle, trim=idle), version="fio-2.16"))
    assert figures["read latency"] == 4000.0 and figures["read latency p99"] == 9000.0
    with pytest.raises(RunError, match=r"fio-2\.0\.10: it lacks 'total_ios'"):
        parse_report("fio", document(job(read={"bw": 1953}), version="fio-2.0.10"))
    with pytest.raises(RunError, match=r"fio-4.0: its form is unknown: use fio 2.2 to 3"):
        parse_report("fio", document(job(), version="fio-4.0"))


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ([job(error=22)], "fio-3.36: job j failed"),
        ([], "jobs are not a list"),
        ([{"jobname": "j"}], "it lacks 'read'"),
        ([job(read=side(iops="x"))], "its iops is not a number"),
        ([job(read=side(lat_ns=[]))], "its lat_ns is not an object"),
        ([job(read=side(lat_ns={"mean": 1.0, "percentile": 3}))], "no object of percentiles"),
        ([job(sync=3)], "it lacks 'lat_ns'"),
    ],
)
def test_what_can_not_be_read_is_named(jobs: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(RunError) as failure:
        parse_report("fio", document(*jobs))
    assert says in failure.value.message
