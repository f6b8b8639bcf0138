"""Messages on their way in: what is taken, what is refused, what the producer is told."""

from __future__ import annotations

import errno
import os

import pytest

from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.codes import Code
from tests.embedded_tubemq.machines import START_MS, FakeBroker
from tubeclient.wire.payload import checksum, java_string_hash


def test_offsets_are_counted_by_store_not_by_partition(broker: FakeBroker) -> None:
    answers = [broker.send(b"m", partition=n % 2) for n in range(4)]
    assert [answer.appendOffset for answer in answers] == [0, 28, 56, 84]
    assert all(answer.appendTime == START_MS for answer in answers)
    assert all(answer.errMsg == str(answer.messageId) for answer in answers)


def test_message_ids_are_unique_and_not_in_order(broker: FakeBroker) -> None:
    ids = [broker.send(b"m").messageId for _ in range(100)]
    assert len(set(ids)) == 100
    assert ids != sorted(ids)
    assert all(0 <= message_id < 1 << 63 for message_id in ids)


@pytest.mark.parametrize("given", [-1, checksum(b"m")])
def test_a_checksum_is_checked_where_one_is_given(broker: FakeBroker, given: int) -> None:
    assert broker.send(b"m", checkSum=given).success
    assert broker.send(b"other", checkSum=checksum(b"m")).errCode == Code.FORBIDDEN


def test_empty_and_oversized_messages_are_a_400(broker: FakeBroker) -> None:
    broker.catalogue.put_topic(TopicConfig("flights", 1, 2, max_message_bytes=100))
    assert broker.send(b"").errCode == Code.BAD_REQUEST
    assert broker.send(bytes(100 + 10_240)).success
    assert broker.send(bytes(100 + 10_241)).errCode == Code.BAD_REQUEST


def test_the_tag_is_stored_as_javas_hash_of_the_trimmed_text(broker: FakeBroker) -> None:
    broker.send(b"m", msgType=" späti ")
    broker.send(b"m")
    entries = broker.stores.get("flights", 0).entries(0, 56)
    assert entries["tag_hash"].tolist() == [java_string_hash("späti"), -1]


def test_a_message_that_a_full_disk_does_not_take_is_a_500(
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
