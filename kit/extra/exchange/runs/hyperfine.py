"""Reads the JSON of ``hyperfine --export-json``: schema 2, of hyperfine 2, and that of 1.x. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kit.core.codec import Amount, Code
from kit.core.errors import UsageError
from kit.extra.exchange.runs.json_document import Version, read_document
from kit.extra.exchange.runs.timed_run import TimedRun, distinct, exit_error, with_parameters
from kit.parsers.tried import Tried

TRIED = (
    Tried(
        "hyperfine", ("1.15.0", "2.0.0"), ("1.6", "1.20"), "schemas other than 1 and 2",
        "hyperfine --export-json both.json …", "each run, with memory and exit code; of hyperfine 2 also user and sys",
    ),
)  # fmt: skip
_VERSION = Version(("schema_version",), "2")  # 1.x states none


@dataclass(frozen=True)
class _Result1:
    """Of ``user`` and ``system`` only the means are known. ``parameter``: of 1.6 to 1.10."""

    command: str
    mean: Amount
    user: Amount | None = None
    system: Amount | None = None
    times: tuple[Amount, ...] | None = None
    memory_usage_byte: tuple[Amount, ...] | None = None
    exit_codes: tuple[Code | None, ...] = ()
    parameter: str | int | None = None
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def long_name(self) -> str:
        return with_parameters(
            self.command, self.parameters if self.parameter is None else {"parameter": str(self.parameter)}
        )


@dataclass(frozen=True)
class _Document1:
    results: tuple[_Result1, ...]


@dataclass(frozen=True)
class _Quantity:
    value: Amount
    unit: str = ""


@dataclass(frozen=True)
class _Measurement:
    time_wall_clock: _Quantity
    time_user: _Quantity | None = None
    time_system: _Quantity | None = None
    memory_peak_resident: _Quantity | None = None
    exit_code: Code | None = 0


@dataclass(frozen=True)
class _Parameter:
    value: str


@dataclass(frozen=True)
class _Result2:
    command: str
    measurements: tuple[_Measurement, ...]
    name: str | None = None
    parameters: dict[str, _Parameter] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        return self.name or self.command

    @property
    def long_name(self) -> str:
        parameters = {key: parameter.value for key, parameter in self.parameters.items()}
        return with_parameters(self.short_name, parameters | self.environment)


@dataclass(frozen=True)
class _Document2:
    results: tuple[_Result2, ...]


#: Metrics of a run of schema 2, each with its unit.
_QUANTITIES = {
    "real": ("time_wall_clock", "second"),
    "user": ("time_user", "second"),
    "sys": ("time_system", "second"),
    "max_rss": ("memory_peak_resident", "byte"),
}


def read_hyperfine(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every run; a result of 1.x without its runs as one, its mean."""
    document2 = read_document(_Document2, text, ("results", "measurements"), where, "hyperfine", _VERSION)
    if document2:
        names = distinct([(result.short_name, result.long_name) for result in document2.results])
        return tuple(
            _run(name, measurement, where)
            for name, result in zip(names, document2.results, strict=True)
            for measurement in result.measurements
        )
    document1 = read_document(_Document1, text, ("results", "command"), where, "hyperfine", _VERSION)
    if not document1:
        return ()
    names = distinct([(result.command, result.long_name) for result in document1.results])
    results = _without_inherited_memory(document1.results)
    return tuple(run for name, result in zip(names, results, strict=True) for run in _runs_of_1(name, result))


def _without_inherited_memory(results: tuple[_Result1, ...]) -> Iterator[_Result1]:
    """Before 1.21 the memory of a command is the maximum over all commands so far: one that has the maximum of those
    before it has no figure of its own."""
    most = 0.0
    for result in results:
        memory = result.memory_usage_byte or ()
        yield replace(result, memory_usage_byte=None) if most in memory else result
        most = max((most, *memory))


def _run(name: str, measurement: _Measurement, where: str) -> TimedRun:
    figures = {}
    for metric, (key, unit) in _QUANTITIES.items():
        quantity: _Quantity | None = getattr(measurement, key)
        if quantity and quantity.unit != unit:
            raise UsageError(f"{where}: {key} of '{name[:100]}' is not in {unit}s", "export it by hyperfine itself")
        if quantity:
            figures[metric] = quantity.value
    return TimedRun(name, figures, exit_error(measurement.exit_code))


def _runs_of_1(name: str, result: _Result1) -> Iterator[TimedRun]:
    times = result.times or (result.mean,)
    for number, real in enumerate(times):
        figures = {"real": real}
        if len(times) == 1 and result.user is not None and result.system is not None:
            figures |= {"user": result.user, "sys": result.system}
        if result.memory_usage_byte and len(result.memory_usage_byte) == len(times):
            figures["max_rss"] = result.memory_usage_byte[number]
        # A mean is also that of the runs that failed.
        codes = result.exit_codes[number : number + 1] if result.times else result.exit_codes
        failure = next((code for code in codes if code != 0), 0)
        yield TimedRun(name, figures, exit_error(failure), mean=not result.times)
