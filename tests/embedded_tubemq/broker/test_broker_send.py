"""Messages that a broker does not take."""

from __future__ import annotations

import errno
import os

import pytest

from embedded_tubemq.common.catalogue import MAX_MESSAGE_BYTES
from embedded_tubemq.common.refusal import Code
from tests.embedded_tubemq.machines import FakeBroker


def test_empty_and_oversized_messages_are_a_400(broker: FakeBroker) -> None:
    assert broker.send(b"").errCode == Code.BAD_REQUEST
    assert broker.send(bytes(MAX_MESSAGE_BYTES + 10_240)).success
    assert broker.send(bytes(MAX_MESSAGE_BYTES + 10_241)).errCode == Code.BAD_REQUEST


def test_full_disk_is_a_500(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients try that again; and the next message has the offset."""
    broker.send(b"m")

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        answer = broker.send(b"m")
    assert (answer.success, answer.errCode) == (False, Code.INTERNAL_SERVER_ERROR)
    assert answer.errMsg == "Put message failed: [Errno 28] No space left on device"
    assert "a message to flights could not be written" in caplog.text
    assert broker.send(b"m").appendOffset == 28
