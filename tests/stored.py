"""A session and a sample as a store keeps them."""

from kit.model.profile import LOOP, WORKLOAD, make_profile
from kit.model.sample import COPY_UP, FAULT, Call, Phase, Sample
from kit.model.session import NotRun, Request, Session
from kit.parsers.figure import MORE, Reported
from kit.parsers.task import BuildTask

SESSION = Session(
    id="20260101-000000-aaaa",
    created=1000.0,
    kit_version="0",
    title="smoke",
    status="running",
    request=Request(
        scenario="smoke", params=(("jobs", "2"),), arms=("bare", "layer:overlay2"), mkfs=(("ext4", "-O x"),)
    ),
    arms=("bare", "layer:overlay2"),
    baselines=(("layer:overlay2", "bare"),),
    seed=5,
    facts={"kernel": "6"},
    not_run=(NotRun("layer:aufs", "no", "boot"),),
)
FIGURES = (Reported("read bandwidth", 12.5, "MB/s", MORE), Reported("stat", None, "files/s", MORE))
TASKS = (
    BuildTask("unpack", "zip-native", 0.5, 0.25),
    BuildTask("compile", "zip-native", 1.5, 2.0, 1.5, 0.25, 0.0, 4096.0),
)
CALLS = (
    Call("openat", 3, 2.5e-5, 1e-6, 2e-6, 3e-6, 4e-6, ((12, 2), (13, 1)), (("EXDEV", 1),)),
    Call("page fault", 2, 0.25, 0.25, kind=FAULT),
    Call("file", 2, kind=COPY_UP, bytes=4096.0),
)
PROFILES = (make_profile("cpu-clock", {(WORKLOAD, "cc1", "ovl_open"): 0.25, (LOOP, "kworker"): 0.002}, 126, 3),)
SAMPLE = Sample(
    "bare", 1, "measured", "ok", 1.5,
    (
        Phase("build", "ok", real=1.25, exit_code=0, reported=FIGURES, tasks=TASKS, calls=CALLS, profiles=PROFILES),
        Phase("clean", "ok", real=0.5, max_rss=7.0, signal=None),
    ),
    calibration_before=0.04, digests=(("image", "abc"),), log="/l",
)  # fmt: skip
