"""Output of perf 6.1, cut from a run on this kit's machine, and what is made of it."""

from __future__ import annotations

import pytest

from kit.extra.tracing.cpu_attribution import Parts
from kit.extra.tracing.perf import fold_script, sampling_rate
from kit.extra.tracing.perf_script import Fork, Lost, StackSample, read_script
from kit.model.profile import ENGINE, FUSE, KERNEL, KIT, LOOP, REST, WORKLOAD

SCRIPT = """\
         swapper     0/0         0.000000: PERF_RECORD_FORK(2:2):(0:0)
        kthreadd     0/0         0.000000: PERF_RECORD_COMM: kthreadd:2/2
        kthreadd     0/0         0.000000: PERF_RECORD_FORK(70:70):(2:2)
    kworker/u4:1    70/70       10.000000: PERF_RECORD_COMM: kworker/u4:1:70/70
              sh   500/500      10.000001: PERF_RECORD_FORK(501:501):(500:500)
ls 501/501    10.100000:    2004008 cpu-clock:I:
\tffffffff816dfdb6 __d_lookup_rcu ([kernel.kallsyms])
\tffffffff816d0e66 ovl_lookup ([overlay])
\tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t            828e [unknown] (/usr/bin/ls (deleted))
\t            9282 [unknown] (/usr/bin/ls (deleted))
\t    7ff0f685fa80 [unknown] ([unknown])

Web Content 9/12    10.200000:    2004008 cpu-clock:I:
\t           f82ec operator()(int) const (/usr/lib/x86_64-linux-gnu/libc.so.6)

   kworker/u4:1    70/70       10.300000:    2004008 cpu-clock:I:
\tffffffff816dfdb6 ext4_file_read_iter (/usr/lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz)
\tffffffff816d0e66 loop_process_work ([kernel.kallsyms])
          python  5287/5287  51964.452281: PERF_RECORD_LOST lost 120
ls 501/501    10.400000:    2004008 cpu-clock:I:
\tffffffffa16dfdb6 bpf_prog_e7e71ca3ea06cb38_tracepoint (bpf_prog_e7e71ca3ea06cb38_tracepoint)
\tffffffff816d0e66 trace_call_bpf ([kernel.kallsyms])
\tffffffff81000130 do_syscall_64 ([kernel.kallsyms])

swapper     0/0    10.410000:    2004008 cycles:
\tffffffff816dfdb6 pv_native_safe_halt ([kernel.kallsyms])

ls 501/501    99.000000:    2004008 cpu-clock:I:

"""


def test_every_record_is_read() -> None:
    found = list(read_script(SCRIPT.splitlines(keepends=True)))
    assert [item for item in found if isinstance(item, Fork)] == [
        Fork(2, 0, 0),
        Fork(70, 2, 0),
        Fork(501, 500, 10.000001),
    ]
    assert [item for item in found if isinstance(item, Lost)] == [Lost(120)]
    samples = [item for item in found if isinstance(item, StackSample)]
    assert samples[0] == StackSample(
        501, "ls", 10.1, "cpu-clock", 2004008,
        ("[ls]", "entry_SYSCALL_64_after_hwframe", "ovl_lookup", "__d_lookup_rcu"),
    )  # fmt: skip
    assert samples[1].process == "Web Content" and samples[1].functions == ("operator()(int) const (libc.so.6)",)
    assert samples[2].functions == ("loop_process_work", "ext4_file_read_iter")
    assert samples[3].functions == ("do_syscall_64", "[tracing]")
    assert samples[-1].functions == ()


def test_what_is_no_record_is_passed_over() -> None:
    assert list(read_script(["Warning: something\n", "\n", "\tffff0 f (x)\n", "a 1/1 2.0: nothing known\n"])) == []


def test_samples_of_the_phase_are_folded_by_part_and_process() -> None:
    profile = fold_script(iter(SCRIPT.splitlines(keepends=True)), Parts([500], [], 1), (10.0, 11.0), 5.0)
    assert (profile.event, profile.samples, profile.lost) == ("cpu-clock", 4, 120)
    stacks = profile.stacks()
    assert {stack[:2] for stack in stacks} == {(WORKLOAD, "ls"), (LOOP, "kworker"), (REST, "Web Content")}
    assert profile.seconds == pytest.approx(4 * 0.002004008)
    assert profile.quantum == pytest.approx(0.002004008)


def test_cycles_stand_for_the_cpu_of_the_machine() -> None:
    script = SCRIPT.replace("cpu-clock:I", "cycles")
    profile = fold_script(iter(script.splitlines(keepends=True)), Parts([500], [], 1), (10.0, 11.0), 6.0)
    assert profile.event == "cycles" and profile.seconds == pytest.approx(6.0)


def test_a_process_belongs_where_the_one_that_started_it_does() -> None:
    parts = Parts([100], [200], 300)
    parts.forked(50, 2, before=True)
    parts.forked(101, 100, before=False)
    parts.forked(102, 101, before=False)  # its parent may end before it
    parts.forked(201, 200, before=False)
    parts.forked(900, 1, before=True)
    names = {50: "kswapd0", 101: "sh", 102: "cc1", 201: "runc:[2:INIT]", 300: "python", 900: "sshd"}
    found = {pid: parts.of(pid, name, ())[0] for pid, name in names.items()}
    assert found == {50: KERNEL, 101: WORKLOAD, 102: WORKLOAD, 201: ENGINE, 300: KIT, 900: REST}
    parts.forked(101, 1, before=False)  # the number is another's now
    assert parts.of(101, "cron", ())[0] == REST


@pytest.mark.parametrize(
    ("pid", "process", "functions", "said"),
    [
        (50, "kworker/u4:1-loop0", ("loop_process_work",), (LOOP, "kworker")),
        (50, "kworker/0:2", ("wb_workfn",), (KERNEL, "kworker")),
        (50, "jbd2/loop0-8", (), (KERNEL, "jbd2")),
        (50, "kswapd0", (), (KERNEL, "kswapd")),
        (100, "fuse-overlayfs", (), (FUSE, "fuse-overlayfs")),
        (1, "dockerd", (), (ENGINE, "dockerd")),
        (1, "containerd-shim", (), (ENGINE, "containerd-shim")),
        (200, "bpftrace", (), (KIT, "bpftrace")),
    ],
)
def test_parts_by_name(pid: int, process: str, functions: tuple[str, ...], said: tuple[str, str]) -> None:
    parts = Parts([100], [200], 300)
    parts.forked(50, 2, before=True)
    assert parts.of(pid, process, functions) == said


def test_a_long_phase_is_sampled_less_often() -> None:
    assert [sampling_rate(seconds) for seconds in (0, 10, 4_000, 1e9)] == [499, 499, 50, 19]
