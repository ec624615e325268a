"""Interrupts of the process that asks, by real signals."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from kit.host.interrupt import checkpoint, interruptible, interrupts_held


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Python's own for SIGINT, also where who starts the tests has it ignored."""
    came_with = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    found = [(number, signal.getsignal(number)) for number, _ in before]
    signal.signal(signal.SIGINT, came_with)
    assert found == before


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_for_the_next_window(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        interrupt(number)
        reached.append("made")
        with interruptible():
            reached.append("waited")
    assert reached == ["made"]
    assert "ends what is in hand" in capfd.readouterr().err


def test_one_that_nobody_can_be_sent_waits_too() -> None:
    """Of kit … 2>&1 | tee, interrupted together."""
    kept, reached = os.dup(2), []
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 2)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_held():
            interrupt()
            reached.append("made")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(writer)
    assert reached == ["made"]


def test_within_a_window_it_comes_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_held(), interruptible():
        interrupt()
        pytest.fail("it went on")
    assert capfd.readouterr().err == ""


def test_a_window_in_a_window_leaves_the_outer_one_open() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_held(), interruptible():
        with interruptible():
            pass
        interrupt()
        pytest.fail("it went on")


def test_without_a_window_it_comes_at_the_end() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        interrupt()
        reached = True
    assert reached


def test_another_error_is_not_hidden_by_it() -> None:
    with pytest.raises(ValueError, match="first"), interrupts_held():
        interrupt()
        raise ValueError("first")


@pytest.mark.parametrize("wait", [checkpoint, interrupt])
def test_cleaning_up_is_not_interrupted_again(wait: Callable[[], None]) -> None:
    cleaned = False
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        try:
            with interruptible():
                interrupt()
        finally:
            wait()
            interrupt()
            with interruptible():
                cleaned = True
    assert cleaned


def test_where_nothing_is_held_a_window_changes_nothing() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGINT)
    checkpoint()


def test_another_thread_is_never_interrupted() -> None:
    reached = []

    def work() -> None:
        with interrupts_held():
            checkpoint()
            reached.append("done")

    with pytest.raises(KeyboardInterrupt), interrupts_held():
        interrupt()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        checkpoint()
        pytest.fail("it went on")
    assert reached == ["done"]


#: A process of the kit's own: what it says, each word by an interrupt later.
OWN = """
import os, signal
from kit.host.interrupt import interruptible, interrupts_held, take_interrupts

take_interrupts()
def ask():
    os.kill(os.getpid(), {number})
try:
    {block}
except KeyboardInterrupt:
    ask()  # in the midst of cleaning up, and of saying so
    print("interrupted")
ask()
with interrupts_held():
    ask()
with interruptible():
    print("ended")
"""
BLOCKS = {
    "at once": "ask(); print('it went on')",
    "in a window": "with interrupts_held():\n        with interruptible(): ask(); print('it went on')",
    "in the next window": "with interrupts_held():\n        ask(); print('made')\n        with interruptible(): pass",
    "at the end": "with interrupts_held():\n        ask(); print('made')",
    "after another error, in the window after it": (
        "try:\n        with interrupts_held():\n            ask(); raise ValueError\n    except ValueError:\n"
        "        print('made')\n    with interruptible(): print('it went on')"
    ),
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_a_process_of_the_kits_own_is_interrupted_once(block: str, number: signal.Signals) -> None:
    text = OWN.format(number=int(number), block=block)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [*["made"] * ("made" in block), "interrupted", "ended"])
    assert "Traceback" not in done.stderr


def test_what_is_started_after_an_interrupt_can_be_ended() -> None:
    text = (
        "import subprocess\nfrom kit.host.interrupt import take_interrupts\nimport os, signal\ntake_interrupts()\n"
        "try: os.kill(os.getpid(), signal.SIGTERM)\nexcept KeyboardInterrupt: pass\n"
        "print(subprocess.run(['sh', '-c', 'kill -TERM $$; echo deaf']).returncode)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"-{int(signal.SIGTERM)}\n", "")
