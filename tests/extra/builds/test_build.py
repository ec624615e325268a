"""The Dockerfile of a step, and what of a build's output is the command's."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.engines.engine import Blocker, EngineConfig
from kit.arms.engines.sandbox import Invocation
from kit.arms.probe import ProbeServer, Timing, probe_binary
from kit.arms.probe.client import parse_answer
from kit.core.deadline import Deadline
from kit.core.errors import RunError, TimedOut
from kit.extra.builds.dockerfile import Chain
from kit.extra.builds.engine import PODMAN_BUILD
from kit.extra.builds.output import BuildOutput, printed_in_buildkit
from kit.extra.builds.probe import BuildDirs, BuildProbe
from kit.extra.builds.tool import BuildTool
from kit.host.cgroup.cgroup import Cgroup
from kit.host.machine import read_host
from kit.host.recovery.journal import Journal
from kit.model.arm import parse_arm

ENV = {"PATH": "/bin", "ODD": 'a "quoted" $word\\'}
MAKE = Invocation(("make", "-j2", "V=$x"), "/build/src", ENV)
PROBE = '"/kit-control/kit-probe", "step"'


def test_the_first_step_copies_the_context_and_the_others_go_on_from_its_image() -> None:
    chain = Chain("base")
    assert chain.dockerfile(MAKE).splitlines() == [
        "FROM base",
        r'ENV PATH="/bin" ODD="a \"quoted\" \$word\\"',
        "COPY . /",
        f'RUN [{PROBE}, "/build/src", "make", "-j2", "V=$x"]',
    ]
    later = chain.after(MAKE, "step:1")
    assert later.dockerfile(MAKE).splitlines() == [
        "FROM step:1",
        f'RUN [{PROBE}, "/build/src", "make", "-j2", "V=$x"]',
    ]


def test_a_step_of_another_user_or_environment_says_so() -> None:
    later = Chain("base").after(MAKE, "step:1")
    other = Invocation(("id",), "/build", {**ENV, "A": "b"}, 1000, 100)
    lines = later.dockerfile(other).splitlines()
    assert lines[1].endswith(' A="b"') and lines[2] == "USER 1000:100"
    assert "USER 0:0" in later.after(other, "step:2").dockerfile(MAKE)


def test_a_cache_mount_would_hide_the_sources_so_they_are_copied_into_it() -> None:
    mounted = "RUN --mount=type=cache,id=m,target=/build"
    lines = Chain("base", "m").dockerfile(MAKE).splitlines()
    assert lines[2:4] == ["COPY . /", f'{mounted} ["cp", "-a", "/kit-sources/.", "/build"]']
    assert lines[4].startswith(f"{mounted} [{PROBE}")


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return probe_binary(tmp_path_factory.mktemp("probe"))


def step(probe: Path, *command: str) -> bytes:
    """What a step with the timer prints."""
    return subprocess.run([probe, "step", "/", *command], capture_output=True, check=True).stdout


def read(text: bytes, kit_reads: BuildOutput) -> None:
    pipe = os.dup(kit_reads.pipe)
    kit_reads.begin()
    os.write(pipe, text)
    os.close(pipe)


@pytest.mark.parametrize("said", [b"", b"one\n", b"no end", b"a\n\n", b"kit: x = 1 s\nb"])
def test_the_command_has_its_own_output_and_the_tool_the_rest(probe: Path, said: bytes) -> None:
    with tempfile.TemporaryFile() as output:
        found = BuildOutput(output, lambda line: line)
        read(b"Step 1\n" + step(probe, "printf", "%s", said.decode()) + b"Successfully built x\n", found)
        found.end()
        output.seek(0)
        assert output.read() == said
    texts = [line.partition(" ")[2] for line in found.lines]
    kinds = ["kit-build began", "Step 1", "kit-step began", "kit-step ended", "Successfully built x", "kit-build ended"]
    assert [text if "step " not in text else " ".join(text.split()[:2]) for text in texts] == kinds
    assert found.answer is not None and parse_answer(found.answer, "printf", "/").ok


def test_the_timer_says_how_a_command_ended(probe: Path) -> None:
    def answer(*command: str) -> bytes:
        return step(probe, *command).rpartition(b"kit-step ended ")[2].partition(b" ")[2]

    assert parse_answer(answer("sh", "-c", "exit 3"), "sh", "/").exit_code == 3
    assert parse_answer(answer("sh", "-c", "kill -9 $$"), "sh", "/").signal == 9
    with pytest.raises(RunError, match="'no-such': No such file"):
        parse_answer(answer("no-such"), "no-such", "/")


def test_lines_of_a_step_are_distinguished_from_buildkits_own() -> None:
    assert printed_in_buildkit(b"#7 0.234 text of #3 a step") == b"text of #3 a step"
    assert printed_in_buildkit(b"#7 10.2 ") == b""
    for own in (b"#7 DONE 0.4s", b"#5 transferring context: 103B 0.0s done", b"", b"#8 exporting layers 0.3s done"):
        assert printed_in_buildkit(own) is None


def test_a_line_that_buildkit_prints_in_two_parts_is_one() -> None:
    text = (
        b"#4 0.1 kit-step began 1.5\n#4 0.2 one\n#4 0.3 two, its beginning#4 DONE 0.3s\n\n#8 exporting layers\n"
        b"#8 DONE 0.1s\n\n#4 [3/3] RUN make\n#4 sha256:0123\n and its end\n#4 0.3 three\n#4 0.3 \n"
        b"#4 0.3 kit-step ended 2.5 status=x\n"
    )
    with tempfile.TemporaryFile() as output:
        found = BuildOutput(output, printed_in_buildkit)
        read(text, found)
        found.end()
        output.seek(0)
        assert output.read() == b"one\ntwo, its beginning and its end\nthree\n"
    assert found.answer == b"status=x"


def test_the_log_of_a_failed_build_says_why() -> None:
    with tempfile.TemporaryFile() as output:
        found = BuildOutput(output, lambda line: line)
        read(b"no space left on device\n", found)
        found.end(failed=True)
        output.seek(0)
        assert b"no space left on device\n" in output.read()
    assert found.answer is None


@pytest.fixture
def build(probe: Path, tmp_path: Path) -> Iterator[Callable[[str], BuildProbe]]:
    """Makes a timer whose build tool is this script; ``step`` in it runs a command as a step does."""
    server = ProbeServer(tmp_path)
    process = subprocess.Popen([probe, "serve", server.path])
    connected = server.accept(lambda: "")

    def make(script: str) -> BuildProbe:
        path = tmp_path / "tool"
        path.write_text(f'step() {{ {probe} step / sh -c "$1"; }}\n{script}\n')
        tool = BuildTool("build-steps", ("sh", str(path)), Cgroup.named("none"), lambda image: 1, lambda images: None)
        dirs = BuildDirs(tmp_path, tmp_path, tmp_path)
        return BuildProbe(connected, replace(tool, env={"PATH": os.environ["PATH"]}), dirs, Chain("base"), "step")

    yield make
    connected.end()
    connected.connection.close()
    server.close()
    process.wait(60)


def run(build: BuildProbe, command: str = "true") -> Timing:
    with tempfile.TemporaryFile() as output:
        return build.run(["sh", "-c", command], cwd="/", env={}, output=output)


def test_a_step_that_fails_in_a_build_that_does_not_has_failed(build: Callable[[str], BuildProbe]) -> None:
    assert run(build("step 'exit 3'")).exit_code == 3
    assert run(build("exit 4")).exit_code == 4


def test_a_step_without_an_answer_is_no_result(build: Callable[[str], BuildProbe]) -> None:
    """Its output was cut, or another run had left it in the cache."""
    with pytest.raises(RunError, match="has no answer of the timer"):
        run(build("echo the output is cut"))


def test_a_rebuild_uses_its_cache_and_a_cached_step_costs_no_cpu(build: Callable[[str], BuildProbe]) -> None:
    first = 'case "$1" in *Dockerfile.1) step true;; esac'
    command = Invocation(("sh", "-c", "true"), "/", {})
    cached = build(f"{first}; for i in $(seq 20000); do :; done")
    cached.rehearse([command], None, lambda: "", None)
    timing = run(cached)
    assert timing.ok and not cached.ran and (timing.user, timing.sys, timing.max_rss) == (0, 0, 0) and timing.real > 0
    rebuilt = build("step true")
    rebuilt.rehearse([command], None, lambda: "", None)
    with pytest.raises(RunError, match="was not in the build cache"):
        run(rebuilt)


def test_a_rehearsal_ends_at_the_deadline(build: Callable[[str], BuildProbe]) -> None:
    command = Invocation(("sh", "-c", "true"), "/", {})
    with pytest.raises(TimedOut, match="too late"):
        build("step 'sleep 1000'").rehearse([command], Deadline(time.monotonic() + 0.1, "too late"), lambda: "", None)


def test_a_reporter_is_no_part_of_the_next_step(build: Callable[[str], BuildProbe], tmp_path: Path) -> None:
    made = build("step true")
    run(made)
    reported = made.report()
    with made.aside():
        run(made)
    assert made.report() == reported
    run(made)
    assert (tmp_path / "Dockerfile.3").read_text().startswith("FROM step:1\n")


def test_a_changed_file_is_new_in_the_sources(build: Callable[[str], BuildProbe], tmp_path: Path) -> None:
    sources, host = tmp_path / "sources", tmp_path / "host"
    sources.mkdir()
    host.write_text("of the host")
    build("step true").rehearse([], None, lambda: "", sources / ".kit-changed")
    assert (sources / ".kit-changed").read_text() == "step\n"
    (sources / ".kit-changed").unlink()
    (sources / ".kit-changed").symlink_to(host)
    with pytest.raises(RunError, match=r"\.kit-changed exists already"):
        build("step true").rehearse([], None, lambda: "", sources / ".kit-changed")
    assert host.read_text() == "of the host"


def test_a_podman_of_another_version_does_not_build(tmp_path: Path) -> None:
    """Its client is this machine's: the figure would be of no version's."""
    setting = EngineConfig("x", tmp_path, tmp_path, Journal(tmp_path / "journal" / "x.jsonl", {}), "none")
    arm = parse_arm("build:podman@5.8/overlay")
    blocked = PODMAN_BUILD(setting, version="5.8").check(arm, replace(read_host(), root=True))
    assert blocked == Blocker(
        "podman@5.8 builds with this machine's podman", "use build:podman/overlay, or a layer arm"
    )
