"""Callers that are interrupted in the midst of a flow."""

from __future__ import annotations

from typing import Any

import pytest

from tubeclient.errors import TubeError
from tubeclient.flows.effects import Emit, Flow

__all__ = ["interrupted"]


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
