"""Commands that run until a signal or the reader of their output ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["discard_output", "stop_on_signals", "until_interrupted"]


@contextlib.contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed pipe (`| head`) end the block quietly."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        discard_output()
    finally:
        signal.signal(signal.SIGTERM, before)


def discard_output() -> None:
    """Standard output goes nowhere from now on. Python flushes it at its end, which would fail again."""
    with contextlib.suppress(OSError):  # it has no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stop_on_signals(stop: threading.Event) -> None:
    """Ctrl-C and SIGTERM set `stop`, from now on; a second one ends the process at once, whatever holds it up, such as
    output that nobody takes. A Spark session that starts later puts its own handler in place; then call it again."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
