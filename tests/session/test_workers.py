"""What is made ready side by side, and what a thread's end does to the programs that it has started."""

import threading
from concurrent.futures import wait
from functools import partial
from tempfile import TemporaryFile
from typing import Any

import pytest

from kit.host.command import Process, spawn
from kit.session.setup.workers import Workers, one_at_a_time

PATIENCE = 60.0


def test_tasks_are_done_side_by_side_and_the_steps_of_each_in_order() -> None:
    all_here, done, workers = threading.Barrier(3), list[str](), Workers()

    def meet() -> None:
        all_here.wait(PATIENCE)
        done.append("met")

    workers.do([[meet, partial(done.append, "after")] for _ in range(3)])
    assert sorted(done) == ["after"] * 3 + ["met"] * 3 and done[0] == "met" and done[-1] == "after"
    workers.close()


def test_a_single_task_is_done_here() -> None:
    seen, workers = list[threading.Thread](), Workers()
    workers.do([[lambda: seen.append(threading.current_thread())] * 2])
    workers.do([])
    assert seen == [threading.current_thread()] * 2
    workers.close()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_has_begun_is_waited_for_and_nothing_more_begins(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ending, done, workers = threading.Event(), threading.Event(), list[str](), Workers()

    def wait_for_all(tasks: Any) -> None:
        ending.set()
        wait(tasks)

    def work() -> None:
        begun.set()
        ending.wait(PATIENCE)
        done.append("begun")

    def fail() -> None:
        begun.wait(PATIENCE)
        raise error

    monkeypatch.setattr("kit.session.setup.workers.wait", wait_for_all)
    with pytest.raises(error):
        workers.do([[fail], [work, partial(done.append, "next")]])
    assert done == ["begun"]
    workers.close()


def test_programs_live_as_long_as_the_workers() -> None:
    """Whoever starts some side by side must not let the threads go before."""
    started, workers = list[Process](), Workers()
    with TemporaryFile() as output:
        workers.do([[lambda: started.append(spawn(["sleep", "60"], output=output))] for _ in range(2)])
        for process in started:
            with open(f"/proc/{process.pid}/comm") as name:
                while name.read().strip() != "sleep":  # sh, setpriv: not yet what dies with its parent
                    name.seek(0)
        assert [process.poll() for process in started] == [None, None]
        workers.close()
        assert [process.wait(PATIENCE) for process in started] == [-9, -9]


def test_sentences_of_several_threads_do_not_mix() -> None:
    alone, found, workers = threading.Lock(), list[str](), Workers()

    def tell(text: str) -> None:
        assert alone.acquire(blocking=False)
        found.append(text)
        alone.release()

    told = one_at_a_time(tell)
    workers.do([[partial(told, str(i))] * 100 for i in range(4)])
    assert sorted(found) == sorted("0123" * 100)
    workers.close()
