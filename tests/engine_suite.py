"""One suite that every engine passes, whatever it is. A subclass's ``arm`` fixture says which arm is tried."""

import os
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.engines import Sandbox
from kit.arms.filesystem import BackingOptions
from kit.arms.filesystem.backing import GIB
from kit.arms.image import ImageCache
from kit.arms.image.layout import CONTROL
from kit.arms.probe import Timing
from kit.core.errors import RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.cgroup.idle_load import IdleRate
from kit.host.machine import read_host
from kit.model.arm import RUNTIME, Arm, parse_arm
from kit.parsers import parse_report
from kit.session.measure.context import MachineLease
from kit.session.measure.phase import measure_phase
from kit.session.setup.provision import Provision, ProvisionSpec
from tests.waiting import wait_until

pytestmark = pytest.mark.machine


def sh(sandbox: Sandbox, script: str) -> tuple[Timing, str]:
    with tempfile.TemporaryFile() as output:
        timing = sandbox.run(["sh", "-c", script], ".", output)
        output.seek(0)
        return timing, output.read().decode()


def accounts_memory(group: Cgroup | None) -> bool:
    """Whether the kernel has a peak of it: not as memory.pressure, which is there without the controller."""
    names = "memory.peak", "memory.max_usage_in_bytes"
    return group is not None and any((path / name).exists() for path in group.paths.values() for name in names)


def names(group: Cgroup | None) -> list[str]:
    assert group
    return [Path(f"/proc/{pid}/comm").read_text().strip() for pid in group.pids()]


def spec_of(lease: MachineLease, image: Path, inputs: Path | None = None) -> ProvisionSpec:
    """What an engine is tried with: a tarball as its image, in filesystems of 16 GiB."""
    options = BackingOptions(size=16 * GIB, images=lease.paths.state / "loops")
    made = ImageCache(lease.paths.cache).from_tarball(image)
    return ProvisionSpec(lease.setting, read_host(), options, made, inputs)


def some_inputs(lease: MachineLease) -> Path:
    """A directory with the file ``given``."""
    inputs = lease.paths.cache / "some-inputs"
    inputs.mkdir(exist_ok=True)
    (inputs / "given").write_text("an input")
    return inputs


def rebuilt(provision: Provision, text: str) -> tuple[str, dict[str, float | None]]:
    """What a command prints in a rebuild, and the figures that the build tool reports of it. The provision has
    ``some_inputs``."""
    assert provision.ready(parse_arm(text)) is None
    command = ["sh", "-c", "echo it ran; cat /kit-inputs/given"]
    with provision.sandbox(parse_arm(text)) as sandbox, tempfile.TemporaryFile() as output:
        sandbox.rehearse([(command, ".")])
        assert sandbox.run(command, ".", output).ok
        output.seek(0)
        figures = parse_report(sandbox.report_format, sandbox.report()).summed().figures
        return output.read().decode(), {figure.name: figure.value for figure in figures}


class EngineSuite:
    def test_runs_commands_in_an_empty_tree(self, provision: Provision, arm: Arm) -> None:
        with provision.sandbox(arm) as sandbox:
            timing, said = sh(sandbox, "pwd; ls -A; echo here > file; cat file; exit 3")
            assert said == f"{sandbox.tree}\nhere\n"
            assert (timing.exit_code, timing.signal) == (3, None)
            assert sh(sandbox, "cat file")[1] == "here\n"

    @pytest.mark.promise("a workload", "A run changes nothing of the root filesystem that the next run sees.")
    def test_every_run_starts_from_the_same_state(self, provision: Provision, arm: Arm) -> None:
        if arm.placement == "host":
            pytest.skip("host has no root filesystem of its own: only its tree is new")
        look = "cat /etc/debian_version; ls -A / /build /tmp /usr/games; ls -l /etc/debian_version"
        with provision.sandbox(arm) as sandbox:
            first = sh(sandbox, look)[1]
            sh(
                sandbox,
                "echo changed > /etc/debian_version; rm -r /usr/games; echo x > /tmp/x; mkdir /new; echo > tree-file",
            )
            assert sh(sandbox, look)[1] != first
        with provision.sandbox(arm) as sandbox:
            assert sh(sandbox, look)[1] == first

    def test_sources_are_put_into_the_tree(self, provision: Provision, arm: Arm, tmp_path: Path) -> None:
        (tmp_path / "a.sh").write_text("echo from the source")
        (tmp_path / "a.sh").chmod(0o755)
        with tarfile.open(tmp_path / "src.tar", "w") as tar:
            tar.add(tmp_path / "a.sh", "dir/a.sh")
        with provision.sandbox(arm) as sandbox:
            sandbox.unpack(tmp_path / "src.tar")
            assert sh(sandbox, "test -x dir/a.sh && sh dir/a.sh")[1] == "from the source\n"

    def test_cgroup_counts_what_left_the_tree(self, provision: Provision, arm: Arm) -> None:
        burn = r"i=0; while [ \$i -lt 400000 ]; do i=\$((i+1)); done; touch done"
        script = f'(setsid sh -c "{burn}" &); while [ ! -e done ]; do sleep 0.02; done'
        with provision.sandbox(arm) as sandbox, tempfile.TemporaryFile() as output:
            phase = measure_phase("p", sandbox, ["sh", "-c", script], ".", output, IdleRate(0.0))
        assert phase.status == "ok"
        assert phase.cgroup_user is not None and phase.user is not None
        assert phase.cgroup_user > phase.user + 0.05

    def test_what_is_written_reaches_the_backing_device(self, provision: Provision, arm: Arm) -> None:
        with provision.sandbox(arm) as sandbox, tempfile.TemporaryFile() as output:
            sandbox.sync()
            words = ["dd", "if=/dev/zero", "of=big", "bs=16M", "count=1"]
            phase = measure_phase("p", sandbox, words, ".", output, IdleRate(0.0))
            accounted = accounts_memory(sandbox.cgroup)
        assert phase.flush is not None and phase.flush >= 0
        assert phase.outside is not None
        assert (phase.arm_memory is None) == (not accounted)
        if phase.arm_memory is not None:  # the buffer of dd and the page cache, with the programs of the arm
            assert 32 << 20 <= phase.arm_memory < 128 << 20
        assert (phase.daemon_memory is None) == (sandbox.daemons is None)
        if sandbox.backing.device is None or arm.placement == "tmpfs":
            return
        assert phase.write_bytes is not None and phase.flush_bytes is not None
        assert phase.write_bytes + phase.flush_bytes >= 16 << 20

    def test_programs_run_on_the_cpus_that_they_are_pinned_to(self, provision: Provision, arm: Arm) -> None:
        if arm.placement == "build":
            pytest.skip("a daemon starts the steps of a build")
        (last,) = sorted(os.sched_getaffinity(0))[-1:]
        with provision.sandbox(arm) as sandbox:
            sandbox.pin({last})
            sh(sandbox, "sleep 1000 > /dev/null 2>&1 &")
            assert sandbox.cgroup
            threads = [task for pid in sandbox.cgroup.pids() for task in os.listdir(f"/proc/{pid}/task")]
            assert len(threads) >= 2 and all(os.sched_getaffinity(int(task)) == {last} for task in threads)

    def test_copies_run_as_one(self, provision: Provision, arm: Arm) -> None:
        if arm.placement == "host":
            pytest.skip("host has no root filesystem of its own: its copies would have different paths")
        with provision.sandbox(arm, 2) as sandbox:
            timing, said = sh(sandbox, "mkdir /tmp/mine mine && ls; exec sleep 0.2")
            assert timing.ok and said == "mine\n", said  # the second is not in its way
            assert timing.copies == 2 and timing.real > timing.spread >= 0
            # A build's step ends with all that it started; outside, programs of gVisor have other names.
            if arm.placement != "build" and arm.option(RUNTIME) != "runsc":
                sh(sandbox, "sleep 1000 > /dev/null 2>&1 &")
                wait_until(lambda: names(sandbox.cgroup).count("sleep") == 2)

    def test_a_missing_command_is_explained(self, provision: Provision, arm: Arm) -> None:
        with provision.sandbox(arm) as sandbox, tempfile.TemporaryFile() as output:
            with pytest.raises(RunError, match="'no-such-command': No such file"):
                sandbox.run(["no-such-command"], ".", output)
            assert sandbox.run(["true"], ".", output).ok

    def test_commands_run_as_another_user_and_skip_syncs_on_request(self, provision: Provision, arm: Arm) -> None:
        with provision.sandbox(arm) as sandbox:
            sh(sandbox, f"chown 1234:1234 {sandbox.tree}")
            other = replace(sandbox, uid=1234, gid=1234)
            assert sh(other, "id -u; id -g; id -G; touch mine")[1] == "1234\n1234\n1234\n"
            if arm.placement == "build":
                return  # each step has a probe of its own
            sync = "exec dd if=/dev/null of=/dev/null conv=fsync 2>&1"  # which fails: no device can sync this
            if arm.option(RUNTIME) != "runsc":
                assert not sh(other, sync)[0].ok
            sandbox.probe.suppress_syncs()
            assert sh(other, sync)[0].ok and sh(sandbox, sync)[0].ok

    @pytest.mark.promise("a workload", "A workload writes nothing beside the kit's timer.")
    def test_nothing_is_written_beside_the_probe(self, provision: Provision, arm: Arm) -> None:
        if arm.placement == "host":
            pytest.skip("host is root on the machine itself")
        if arm.placement == "build":
            pytest.skip("a build step has no control directory: its timer is a file of the image")
        script = (
            "for file in new kit-probe s; do echo x 2>&- >> $0/$file && echo $file; done; rm -f $0/s; echo held; ls $0"
        )
        with provision.sandbox(arm) as sandbox, tempfile.TemporaryFile() as output:
            sandbox.run(["sh", "-c", script, CONTROL], ".", output)
            output.seek(0)
            said = output.read().decode().splitlines()
            written, held = said[: said.index("held")], said[said.index("held") + 1 :]
            assert {"new", "kit-probe"} & {*written} == set(), said
            assert held == ["kit-probe", "s"]
