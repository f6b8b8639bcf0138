"""Interrupts callers: during a flow, or at any line of the called code."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import tubeclient
from tubeclient import flows
from tubeclient.errors import TubeError
from tubeclient.flows.effects import Effect, Emit, Flow, Receive

__all__ = ["interrupted", "interrupted_at", "interrupted_at_check", "interrupted_in"]

_TRACED = str(Path(tubeclient.__file__).parent)
_FLOWS = str(Path(flows.__file__).parent)


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


def interrupted_in(flow: Flow[Any], kind: type[Effect]) -> Flow[None]:
    """Run a flow and interrupt it in its first effect of this kind. What is sent or emitted there is so nonetheless; an
    answer is not taken."""
    effect = next(flow)
    while not isinstance(effect, kind):
        try:
            result = yield effect
        except TubeError as error:
            effect = flow.throw(error)
        else:
            effect = flow.send(result)
    if kind is not Receive:
        yield effect
    flow.close()


def interrupted_at(place: int, call: Callable[[], object]) -> bool:
    """Run `call` on this thread and interrupt it before its so manieth line of the client, ends of functions counted
    too; whether it got so far. Lines of `with` are left out: Python enters and leaves a lock without looking for
    signals.
    """
    left = place

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        code = frame.f_code
        if not code.co_filename.startswith(_TRACED):
            return None
        if event == "return" or (event == "line" and frame.f_lineno not in _lines_of_with(code)):
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


@cache
def _lines_of_with(code: CodeType) -> frozenset[int]:
    """As they were compiled: the file may have been edited since."""
    return frozenset(
        step.positions.lineno
        for step in dis.get_instructions(code)
        if step.opname == "BEFORE_WITH" and step.positions is not None and step.positions.lineno is not None
    )


def interrupted_at_check(flow: Flow[Any], number: int) -> Flow[bool]:
    """Run a flow and interrupt it before line `number` in the code of flows, counted from 0. Whether there
    were so many."""
    left = number

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(_FLOWS):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    result: Any = None
    failure: TubeError | None = None
    while True:
        if left >= 0:
            sys.settrace(trace)
        try:
            effect = flow.send(result) if failure is None else flow.throw(failure)
        except (StopIteration, TubeError, KeyboardInterrupt):
            return left < 0
        finally:
            sys.settrace(None)
        assert left >= 0, "the flow went on after its interruption"
        result, failure = None, None
        try:
            result = yield effect
        except TubeError as error:
            failure = error
