"""Commands that run until a signal or the reader of their output ends them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Final

__all__ = ["discard_output", "stop_on_signals", "until_interrupted"]

_FREEING: Final = "output-at-the-end"
_TAKEN_WITHIN_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.25


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
        _discard(sys.stdout.fileno())


def _discard(number: int) -> None:
    """What is written to this file goes nowhere from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def stop_on_signals(stop: threading.Event) -> None:
    """Ctrl-C and SIGTERM set `stop`, from now on. A Spark session that starts later puts its own handler in place; then
    call it again.

    Once `stop` is set, output that nobody takes (`| less`, Ctrl-S, a pipe that is full) is discarded: it would hold up
    the end for ever.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if all(thread.name != _FREEING for thread in threading.enumerate()):
        threading.Thread(target=_free_output, args=(stop,), name=_FREEING, daemon=True).start()


def _free_output(stop: threading.Event) -> None:
    stop.wait()
    taken_at = dict.fromkeys((1, 2), time.monotonic())
    while True:
        time.sleep(_LOOK_SECONDS)
        for number, last in taken_at.items():
            if _takes_output(number):
                taken_at[number] = time.monotonic()
            elif time.monotonic() - last > _TAKEN_WITHIN_SECONDS:
                with contextlib.suppress(OSError):
                    _discard(number)
                # A write that waits goes on with the former file, until a signal has Python begin it anew.
                for thread in threading.enumerate():
                    with contextlib.suppress(OSError):  # it has ended meanwhile
                        signal.pthread_kill(thread.ident or 0, signal.SIGTERM)


def _takes_output(number: int) -> bool:
    """Whether a write to this file would not wait."""
    looking = select.poll()
    looking.register(number, select.POLLOUT)
    return bool(looking.poll(0))
