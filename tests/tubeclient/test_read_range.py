"""Exact ranges, whatever the broker's packs look like, the network does, or others send meanwhile."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import GroupOffsets
from embedded_tubemq.common.catalogue import NOBODY, Catalogue, Peer, TopicConfig
from embedded_tubemq.storage.store import NewMessage, Store, StoreDirectory
from tests.examples import examples
from tests.tubeclient.simulation import Simulation, Weather
from tests.tubeclient.stored import records_of
from tubeclient.errors import CorruptMessage, DataLoss, DeadlineExceeded, TubeError
from tubeclient.flows.effects import Emit, Sleep
from tubeclient.flows.read_range import LostRange, Pack, RangeRead
from tubeclient.flows.read_session import ReaderNames
from tubeclient.keys import BrokerInfo, OffsetRange, PartitionKey
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

BROKER = BrokerInfo(1, "127.0.0.1", 8123)
TOPIC = "clicks"
GROUPS = ("g-r0", "g-r1", "g-r2")
CALM = Weather()
STORMY = Weather(lose_request=0.03, lose_answer=0.03, break_connection=0.03)
LATE = Weather(come_late=0.1)


class Bench:
    """A broker with one store of `partitions` partitions, and readers on it."""

    def __init__(self, folder: Path, partitions: int, seed: int, weather: Weather | None = None) -> None:
        self.partitions = partitions
        self.random = random.Random(seed)
        catalogue = Catalogue(0, [TopicConfig(TOPIC, 1, partitions)])
        self.broker = Broker(1, catalogue, StoreDirectory(folder, catalogue, lambda: 0), GroupOffsets())
        self.simulation = Simulation({BROKER.address: self.broker}, seed, weather)
        self._sent = 0
        self._readers = 0

    @property
    def store(self) -> Store:
        return self.broker.stores.get(TOPIC, 0)

    def append(self, count: int, size: int = 20) -> None:
        messages = []
        for _ in range(count):
            self._sent += 1
            body = b"%08d" % self._sent + bytes(self.random.randrange(size + 1))
            messages.append(NewMessage(self.random.randrange(self.partitions), body))
        self.store.append_all(messages, int(self.simulation.now_ms))

    def expected(self, offset_range: OffsetRange) -> list[bytes]:
        records = records_of(self.store, offset_range.start, offset_range.end)
        return [r.payload for r in records if r.partition_id == offset_range.partition.partition_id]

    def reading(self, offset_range: OffsetRange, **options: Any) -> RangeRead:
        self._readers += 1
        number, lives = self._readers, itertools.count(1)
        names = ReaderNames(options.pop("groups", GROUPS), lambda: f"reader-{number}.{next(lives)}")
        return RangeRead(BROKER, offset_range, names, self.simulation.random, **options)

    def read(self, offset_range: OffsetRange, **options: Any) -> list[Any]:
        """What reading the range emits; raises what it raises."""
        actor = self.simulation.start(whole(self.reading(offset_range, **options)))
        self.simulation.run()
        assert actor.done
        if actor.error is not None:
            raise actor.error
        return actor.emitted

    def range(self, partition_id: int, start: int, end: int) -> OffsetRange:
        return OffsetRange(PartitionKey(1, TOPIC, partition_id), start * 28, end * 28)


def whole(reading: RangeRead) -> Any:
    """Read and give the partition back, as the shell does."""
    try:
        yield from reading.run()
    finally:
        yield from reading.release()


def slowly(reading: RangeRead, pause_ms: float) -> Any:
    """As `whole`, for somebody who takes a while over each pack."""
    steps = reading.run()
    effect = next(steps)
    try:
        while True:
            try:
                result = yield effect
            except TubeError as error:
                effect = steps.throw(error)
                continue
            if isinstance(effect, Emit):
                yield Sleep(pause_ms)
            effect = steps.send(result)
    except StopIteration:
        return
    finally:
        yield from reading.release()


def payloads(emitted: list[Any]) -> list[bytes]:
    return [payload for pack in emitted if isinstance(pack, Pack) for payload in pack.columns.payloads]


def assert_no_gaps(emitted: list[Any], offset_range: OffsetRange) -> None:
    position = offset_range.start
    for piece in emitted:
        assert piece.start == position
        position = piece.end
    assert position == offset_range.end


def instead(broker: Broker, method: Method, change: Callable[[Any, int], None], *, after: int = 0) -> None:
    """Change the answers to `method` from the one after so many on; `change` is told how many there were."""
    handle, seen = broker.handle, 0

    def answer(asked: Method, request: Message, now_ms: int, peer: Peer = NOBODY) -> Message:
        nonlocal seen
        answered = handle(asked, request, now_ms, peer)
        if asked is method:
            seen += 1
            if seen > after:
                answered = type(answered).FromString(answered.SerializeToString())
                change(answered, seen)
        return answered

    broker.handle = answer  # type: ignore[assignment,method-assign]


def empty_at(start: int) -> Callable[[Any, int], None]:
    def change(answer: Any, _: int) -> None:
        answer.CopyFrom(broker_pb2.GetMessageResponseB2C(success=True, errCode=200, currOffset=start))

    return change


def slow_down(answer: Any, _: int) -> None:
    answer.CopyFrom(
        broker_pb2.GetMessageResponseB2C(success=False, errCode=452, errMsg="slow", currOffset=-1, minLimitTime=200)
    )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, partitions=3, seed=1)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    partitions=st.integers(1, 4),
    count=st.integers(1, 400),
    size=st.sampled_from([20, 3_000]),
    half_packs=st.booleans(),
    advancing_404=st.booleans(),
    weather=st.sampled_from([CALM, STORMY, LATE]),
    data=st.data(),
)
def test_any_cut_of_a_store(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    partitions: int,
    count: int,
    size: int,
    half_packs: bool,
    advancing_404: bool,
    weather: Weather,
    data: st.DataObject,
) -> None:
    """Any division of a store into ranges gives each message once and in order."""
    bench = Bench(tmp_path_factory.mktemp("store"), partitions, seed, weather)
    bench.broker.faults.half_packs = half_packs
    bench.broker.faults.advancing_404 = advancing_404
    bench.append(count, size)
    cuts = sorted({0, count, *data.draw(st.lists(st.integers(0, count), max_size=6))})
    ranges = [
        bench.range(partition_id, start, end)
        for partition_id in range(partitions)
        for start, end in itertools.pairwise(cuts)
    ]
    # In a storm one try in four fails and may take 10 s: six in a row are rare, but among some thousand not enough.
    actors = [bench.simulation.start(whole(bench.reading(piece, retry_limit_ms=900_000))) for piece in ranges]
    for delay_ms in range(0, 200, 10):  # a producer writes all the time
        bench.simulation.at(delay_ms, lambda: bench.append(7, size))
    bench.simulation.run()
    for piece, actor in zip(ranges, actors, strict=True):
        assert actor.error is None, actor.error
        assert actor.done
        assert payloads(actor.emitted) == bench.expected(piece)
        assert_no_gaps(actor.emitted, piece)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), partitions=st.integers(1, 2), groups=st.sampled_from([GROUPS, GROUPS[:1]]))
def test_whatever_comes_late_passes_over_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, partitions: int, groups: tuple[str, ...]
) -> None:
    bench = Bench(tmp_path_factory.mktemp("store"), partitions, seed, LATE)
    bench.append(300 * partitions, 30_000)
    piece = bench.range(0, 0, 300 * partitions - 10)
    actor = bench.simulation.start(slowly(bench.reading(piece, groups=groups, retry_limit_ms=900_000), 40))
    bench.simulation.run()
    assert actor.error is None
    assert payloads(actor.emitted) == bench.expected(piece)
    assert_no_gaps(actor.emitted, piece)


def test_reading_again_gives_the_same_messages(bench: Bench) -> None:
    bench.append(500, 2_000)
    piece = bench.range(1, 37, 411)
    first = payloads(bench.read(piece))
    bench.append(500, 2_000)
    assert payloads(bench.read(piece)) == first == bench.expected(piece)
    assert first


def test_more_readers_than_groups_wait_for_each_other(bench: Bench) -> None:
    bench.append(300)
    piece = bench.range(0, 0, 300)
    actors = [bench.simulation.start(whole(bench.reading(piece))) for _ in range(len(GROUPS) * 2)]
    bench.simulation.run()
    for actor in actors:
        assert actor.error is None
        assert payloads(actor.emitted) == bench.expected(piece)


def test_the_wait_for_a_turn_ends(bench: Bench) -> None:
    bench.append(10)
    bench.broker.faults.force(Method.PARTITION_REGISTER, 410, times=1_000)
    with pytest.raises(
        DeadlineExceeded,
        match=r"no progress for 9\d s .* at 0 .*410.*or wait until others have read the partition",
    ):
        bench.read(bench.range(0, 0, 10), retry_limit_ms=10_000, turn_limit_ms=90_000)


def test_other_groups(bench: Bench) -> None:
    """A read uses its reader group and leaves the user's group and others alone."""
    bench.append(50)
    bench.read(bench.range(0, 10, 40))
    assert {cursor.group for cursor in bench.broker.offsets.cursors()} == {GROUPS[0]}


def test_expired_start(bench: Bench) -> None:
    """An expired start raises DataLoss with the partition and the wanted and found offsets."""
    bench.append(100)
    bench.store.expire(30 * 28)
    with pytest.raises(DataLoss, match=r"1:clicks:0\[280, 2240\).*have expired.* has 840") as caught:
        bench.read(bench.range(0, 10, 80))
    assert (caught.value.partition, caught.value.wanted, caught.value.found) == ("1:clicks:0", 280, 840)


def test_expired_start_is_skipped(bench: Bench) -> None:
    """A read skips an expired start and counts it if fail_on_data_loss is false."""
    bench.append(100)
    bench.store.expire(30 * 28)
    piece = bench.range(0, 10, 80)
    emitted = bench.read(piece, fail_on_data_loss=False)
    assert emitted[0] == LostRange(piece.partition, 280, 840)
    assert emitted[0].max_messages == 20
    assert str(emitted[0]) == "1:clicks:0[280, 840), at most 20 messages"
    assert str(replace(emitted[0], within_packs=True)).endswith(
        "messages. The messages that were still there were read"
    )
    assert payloads(emitted) == bench.expected(bench.range(0, 30, 80))
    assert_no_gaps(emitted, piece)


@pytest.mark.parametrize("first", [80, 90])
def test_expired_range_is_skipped(bench: Bench, first: int) -> None:
    """Also where the broker's first offset is past its end: nothing is left to look for."""
    bench.append(100)
    bench.store.expire(first * 28)
    piece = bench.range(0, 10, 80)
    emitted = bench.read(piece, fail_on_data_loss=False)
    assert emitted == [LostRange(piece.partition, 280, 80 * 28)]
    with pytest.raises(DataLoss, match=f"its first messages have expired.* has {first * 28}"):
        bench.read(piece)


def test_a_lost_tail_is_data_loss(bench: Bench) -> None:
    bench.append(100)
    bench.store.truncate(60 * 28)
    with pytest.raises(
        DataLoss,
        match=r"data ends before it.* has 1680\. .* skip the lost messages with fail_on_data_loss=False, in Spark ",
    ):
        bench.read(bench.range(0, 10, 80))


def test_lost_tail_is_skipped(bench: Bench) -> None:
    """A read skips a lost tail and gives what is left if fail_on_data_loss is false."""
    bench.append(100)
    bench.store.truncate(60 * 28)
    piece = bench.range(0, 10, 80)
    emitted = bench.read(piece, fail_on_data_loss=False)
    assert emitted[-1] == LostRange(piece.partition, 60 * 28, 80 * 28)
    assert payloads(emitted) == bench.expected(bench.range(0, 10, 60))
    assert_no_gaps(emitted, piece)


def test_damaged_message(bench: Bench) -> None:
    """A damaged message raises CorruptMessage with its place and is not delivered."""
    bench.append(100)
    whole_range = bench.range(0, 0, 50)
    bench.broker.faults.corrupt_checksums = 1
    with pytest.raises(CorruptMessage, match=r"1:clicks:0, offsets \[0, \d+\): .* does not match its checksum"):
        bench.read(whole_range)
    assert payloads(bench.read(whole_range)) == bench.expected(whole_range)  # it was damaged on its way only


@pytest.mark.parametrize("code", [404, 410, 411, 412, 452, 500, 503])
def test_a_passing_refusal_costs_time_but_no_message(bench: Bench, code: int) -> None:
    bench.append(400, 3_000)
    piece = bench.range(0, 3, 390)
    for method in (Method.PARTITION_REGISTER, Method.GET_MESSAGES):
        bench.broker.faults.force(method, code, times=2, wait_ms=50)
    assert payloads(bench.read(piece)) == bench.expected(piece)


@pytest.mark.parametrize("change", [empty_at(0), slow_down])
def test_broker_that_gives_nothing(bench: Bench, change: Callable[[Any, int], None]) -> None:
    """A read gives up if the broker never gives it anything."""
    bench.append(50)
    instead(bench.broker, Method.GET_MESSAGES, change)
    with pytest.raises(
        DeadlineExceeded, match=r"no progress for [56] s reading 1:clicks:0\[0, 1400\) at 0 .*(404|452)"
    ):
        bench.read(bench.range(0, 0, 50), retry_limit_ms=5_000)
    assert bench.simulation.calls.count(Method.GET_MESSAGES) < 100


def test_tail_lost_during_read(bench: Bench) -> None:
    """A read raises DataLoss without a wait if the tail is lost while it runs."""
    bench.append(50)

    def lose(_: Any, seen: int) -> None:
        if seen == 1:
            bench.store.truncate(20 * 28)

    instead(bench.broker, Method.PARTITION_REGISTER, lose)
    before = bench.simulation.now_ms
    with pytest.raises(DataLoss, match=r"data ends before it.* has 560"):
        bench.read(bench.range(0, 0, 50))
    assert bench.simulation.now_ms - before < 5_000


@pytest.mark.parametrize("partitions", [1, 3])
def test_reading_around_damage(tmp_path: Path, partitions: int) -> None:
    """In a store of one partition that is the message alone."""
    bench = Bench(tmp_path, partitions, 1)
    bench.append(300)
    whole = bench.range(0, 0, 300)
    victim = [one for one in records_of(bench.store, 0, 300 * 28) if one.partition_id == 0][40]

    def damage(answer: Any, _: int) -> None:
        for one in answer.messages:
            one.checkSum ^= one.messageId == victim.message_id

    instead(bench.broker, Method.GET_MESSAGES, damage)
    with pytest.raises(CorruptMessage, match=f"the message with id {victim.message_id} does not match") as caught:
        bench.read(whole)
    start, end = (int(text) for text in str(caught.value).split("offsets [")[1].split(")")[0].split(", "))
    assert start <= victim.index_offset < end
    assert partitions > 1 or end - start == 28
    around = bench.range(0, 0, start // 28), bench.range(0, end // 28, 300)
    read = [body for piece in around for pack in bench.read(piece) for body in pack.columns.payloads]
    assert victim.payload not in read
    assert partitions > 1 or read == [body for body in bench.expected(whole) if body != victim.payload]
