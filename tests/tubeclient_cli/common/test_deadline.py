"""Calls with a deadline."""

from __future__ import annotations

import threading

import pytest

from tubeclient_cli.common.deadline import within


def test_a_call_that_ends_gives_what_it_gave() -> None:
    assert within(10, lambda: 7) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        within(10, lambda: int("x"))


def test_a_call_that_does_not_end_is_left() -> None:
    let_go = threading.Event()
    try:
        with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
            within(0.01, let_go.wait)
    finally:
        let_go.set()
