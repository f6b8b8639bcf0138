"""Fetches and commits: positions in both modes, packs, filters, and what expired or lost data does."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.codes import Code
from embedded_tubemq.storage.store import NewMessage
from tests.embedded_tubemq.machines import FakeBroker
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import checksum, decode_payload


def bodies(answer: Any) -> list[bytes]:
    """What a successful fetch brought."""
    assert answer.success, answer
    return [decode_payload(message.payLoadData, message.flag)[0] for message in answer.messages]


@pytest.fixture
def filled(broker: FakeBroker) -> FakeBroker:
    """Messages 0 to 5, the even ones in partition 0, the odd ones in partition 1; entry n at offset 28 n."""
    for n in range(6):
        broker.send(b"%d" % n, partition=n % 2)
    return broker


# Register


@pytest.mark.parametrize(
    ("status", "wanted", "expected"),
    [
        (0, None, 28),
        (1, None, 168),
        (2, None, 168),
        (0, 57, 56),
        (0, 5, 28),
        (0, 10_000, 168),
        (1, 56, 56),
        (2, 56, 168),
    ],
)
def test_where_a_new_group_starts(filled: FakeBroker, status: int, wanted: int | None, expected: int) -> None:
    filled.stores.get("flights", 0).expire(28)
    fields: dict[str, Any] = {} if wanted is None else {"currOffset": wanted}
    answer = filled.register(status=status, **fields)
    assert (answer.currOffset, answer.maxOffset) == (expected, 168)


# Auto mode


def test_a_pack_holds_the_partitions_messages_in_order(filled: FakeBroker) -> None:
    filled.register()
    answer = filled.fetch()
    assert bodies(answer) == [b"0", b"2", b"4"]
    assert (answer.errCode, answer.currOffset, answer.maxOffset, answer.currDataDlt) == (200, 0, 168, 0)
    assert answer.HasField("minLimitTime")
    assert all(message.checkSum == checksum(message.payLoadData) for message in answer.messages)
    assert len({message.messageId for message in answer.messages}) == 3


def test_last_pack_consumed_commits_before_reading(filled: FakeBroker) -> None:
    filled.register()
    filled.fetch()
    filled.send(b"6")
    answer = filled.fetch(lastPackConsumed=True)
    assert (answer.currOffset, bodies(answer)) == (168, [b"6"])


def test_a_commit_tells_the_packs_exact_end_and_may_be_repeated(filled: FakeBroker) -> None:
    filled.register()
    filled.fetch()
    for _ in range(2):
        answer = filled.commit()
        assert (answer.success, answer.currOffset, answer.maxOffset) == (True, 168, 168)


def test_a_pack_without_messages_is_a_200_and_committed_at_once(filled: FakeBroker) -> None:
    for _ in range(3):
        filled.send(b"x", partition=1)
    filled.register(currOffset=168)
    answer = filled.fetch()
    assert (answer.currOffset, bodies(answer)) == (168, [])
    assert filled.fetch().errCode == Code.NOT_FOUND
    assert filled.commit(lastPackConsumed=False).currOffset == 252


def test_at_the_end_there_is_a_404(filled: FakeBroker) -> None:
    filled.register(currOffset=168)
    answer = filled.fetch()
    assert (answer.success, answer.errCode, answer.currOffset, answer.HasField("maxOffset")) == (False, 404, -1, False)
    assert (answer.currDataDlt, answer.minLimitTime) == (-1, -1)


# Manual mode


# What is not there any more


def test_manual_mode_never_serves_what_expired(filled: FakeBroker) -> None:
    filled.register()
    filled.fetch(manualCommitOffset=True)
    for n in (6, 7):
        filled.send(b"%d" % n)
    filled.stores.get("flights", 0).expire(196)
    # The shift is counted from the committed position, so it ends below the start; reading begins at the start.
    answer = filled.fetch(manualCommitOffset=True)
    assert (answer.currOffset, bodies(answer)) == (196, [b"7"])


def test_a_pack_of_entries_without_data_is_committed_and_its_data_position_is_none(filled: FakeBroker) -> None:
    filled.faults.half_packs = True
    filled.faults.advancing_404 = True
    store = filled.stores.get("flights", 0)
    store.expire_data(84)
    filled.register()
    answer = filled.fetch(lastPackConsumed=False)
    # Lags count from the number that stands for no position, -2.
    assert (answer.errCode, answer.currOffset, bodies(answer)) == (200, 0, [])
    assert answer.currDataDlt == store.data_max + 2
    assert filled.commit(lastPackConsumed=False).currOffset == 84
    assert bodies(filled.fetch()) == [b"4"]
    store.expire_data(168)
    answer = filled.fetch(lastPackConsumed=True)
    assert (answer.errCode, answer.currOffset, bodies(answer)) == (200, 140, [])
    assert answer.currDataDlt == store.data_max - int(store.entries(112, 140)["position"][0]) - int(
        store.entries(112, 140)["size"][0]
    )


def test_offsets_of_a_lost_tail_are_given_again_with_other_ids(filled: FakeBroker) -> None:
    filled.register()
    lost = filled.fetch().messages[2].messageId
    filled.stores.get("flights", 0).truncate(112)
    assert filled.send(b"new").appendOffset == 112
    answer = filled.fetch()
    assert bodies(answer) == [b"0", b"2", b"new"]
    assert answer.messages[2].messageId != lost


# Packs


def test_the_first_pack_is_smaller_than_the_others(broker: FakeBroker) -> None:
    record = 1000 + 52
    for _ in range(1000):
        broker.send(bytes(1000))
    broker.register()
    first, second = -(-327_680 // record), -(-524_288 // record)
    assert len(broker.fetch(lastPackConsumed=True).messages) == first
    assert len(broker.fetch(lastPackConsumed=True).messages) == second
    broker.register()
    assert len(broker.fetch(lastPackConsumed=True).messages) == first


def test_a_message_larger_than_a_pack_comes_alone(broker: FakeBroker) -> None:
    broker.send(bytes(900_000))
    broker.send(b"small")
    broker.register()
    assert [len(body) for body in bodies(broker.fetch(lastPackConsumed=True))] == [900_000]
    assert bodies(broker.fetch(lastPackConsumed=True)) == [b"small"]


def test_a_fetch_looks_at_a_bounded_number_of_entries(broker: FakeBroker) -> None:
    broker.catalogue.put_topic(TopicConfig("flights", 1, 2))
    store = broker.stores.get("flights", 0)
    store.append_all((NewMessage(1, b"x") for _ in range(8_001)), broker.now_ms)
    store.append(NewMessage(0, b"m"), broker.now_ms)
    broker.register()
    assert bodies(broker.fetch()) == []
    assert bodies(broker.fetch()) == [b"m"]


def test_half_packs_depend_on_what_is_there(filled: FakeBroker) -> None:
    filled.faults.half_packs = True
    filled.register()
    assert bodies(filled.fetch()) == [b"0", b"2"]
    assert bodies(filled.fetch(lastPackConsumed=True)) == [b"4"]
    assert bodies(filled.fetch(lastPackConsumed=True)) == []
    filled.faults.half_packs = False
    filled.register(currOffset=0)
    assert bodies(filled.fetch()) == [b"0", b"2", b"4"]


def test_a_404_can_move_the_position(filled: FakeBroker) -> None:
    filled.faults.advancing_404 = True
    filled.register(currOffset=140)
    assert filled.fetch().errCode == Code.NOT_FOUND
    assert filled.commit(lastPackConsumed=False).currOffset == 168
    filled.register(currOffset=112)
    assert bodies(filled.fetch()) == [b"4"]


def test_a_corrupted_message_carries_a_wrong_checksum_once(filled: FakeBroker) -> None:
    filled.faults.corrupt_checksums = 1
    filled.register()
    first, *rest = filled.fetch().messages
    assert first.checkSum != checksum(first.payLoadData)
    assert all(message.checkSum == checksum(message.payLoadData) for message in rest)
    assert all(message.checkSum == checksum(message.payLoadData) for message in filled.fetch().messages)


# Filters


def test_filters_pass_tags_by_their_hash(broker: FakeBroker) -> None:
    # "Aa" and "BB" have one hash in Java: the broker cannot tell them apart, readers must.
    for tag in ("Aa", "BB", "other", ""):
        broker.send(tag.encode() or b"untagged", tag=tag)
    broker.register(filterCondStr=["Aa", " "])
    answer = broker.fetch()
    assert bodies(answer) == [b"Aa", b"BB"]
    assert answer.requireSlow
    assert broker.commit().currOffset == 112


def test_forced_answers_are_given_and_then_over(filled: FakeBroker) -> None:
    filled.register()
    filled.faults.force(Method.GET_MESSAGES, 452, wait_ms=77)
    filled.faults.force(Method.GET_MESSAGES, 503, times=2)
    answer = filled.fetch()
    assert (answer.errCode, answer.minLimitTime) == (452, 77)
    assert [filled.fetch().errCode for _ in range(3)] == [503, 503, 200]
    assert filled.commit().currOffset == 168
