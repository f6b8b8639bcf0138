"""Callers that are interrupted: in the midst of a flow, or at any line of what they call."""

from __future__ import annotations

import concurrent.futures
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tubeclient
from tubeclient.errors import TubeError
from tubeclient.flows.effects import Emit, Flow

__all__ = ["interrupted", "interrupted_at"]

_TRACED = (
    str(Path(tubeclient.__file__).parent),
    str(Path(concurrent.futures.__file__).parent),
)


def interrupted(flow: Flow[Any], after: int, inside: bool) -> Flow[bool]:
    """Run a flow up to a step and interrupt it there, in its own code (`inside`) or while it waits; whether it was."""
    effect = next(flow)
    for _ in range(after):
        try:
            try:
                result = yield effect
            except TubeError as error:
                effect = flow.throw(error)
            else:
                effect = flow.send(result)
        except (StopIteration, TubeError):
            return False
    if isinstance(effect, Emit):
        yield effect  # is handed on before anything can happen
    if inside:
        with pytest.raises(KeyboardInterrupt):
            flow.throw(KeyboardInterrupt())
    else:
        flow.close()
    return True


def interrupted_at(line: int, call: Callable[[], object]) -> bool:
    """Run `call` on this thread and interrupt it before its so manieth line of the client's or of Python's futures;
    whether it got so far. Lines of `with` are left out: Python enters and leaves a lock without looking for signals.
    """
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        code = frame.f_code
        if not code.co_filename.startswith(_TRACED):
            return None
        text = linecache.getline(code.co_filename, frame.f_lineno).strip()
        if event == "line" and not text.startswith("with ") and code.co_name not in ("__enter__", "__exit__"):
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
