"""Commands that run until a signal or the reader of their output ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

__all__ = ["until_interrupted"]


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
        # Python flushes standard output at its end, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGTERM, before)
