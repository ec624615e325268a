"""What a worker with --examine learns from kit doctor."""

from __future__ import annotations

import json
from dataclasses import asdict

from kit.extra.fleet.service.capabilities import Working, read_working
from kit.session.trial import Diagnosis
from tests.json_schemas import check_document


def test_what_doctor_writes_is_read() -> None:
    found = [
        Diagnosis("filesystem", "ext4", True, "made"),
        Diagnosis("filesystem", "zfs", False, "missing", "load it"),
        Diagnosis("driver", "docker/overlay2", True, "ran"),
        Diagnosis("union", "overlay", True, "ran"),
    ]
    said = json.dumps({"schema": 1, "diagnoses": [asdict(item) for item in found]})
    check_document("doctor", said)
    assert read_working(said) == Working(("docker/overlay2", "union/overlay"), ("ext4",))
