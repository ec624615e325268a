"""The timer that runs inside an arm (``probe.c``), and the parser of its answers.

Imports host and core."""

from kit.arms.probe.binary import Spin, compile_probe, probe_binary, probe_digest, program_name, spin
from kit.arms.probe.client import Probe, ProbeServer, Timing

__all__ = [
    "Probe",
    "ProbeServer",
    "Spin",
    "Timing",
    "compile_probe",
    "probe_binary",
    "probe_digest",
    "program_name",
    "spin",
]
