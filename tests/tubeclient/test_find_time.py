"""Looking for a time on a broker, whatever its answers look like, and whatever happens to the store meanwhile."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedded_tubemq.common.catalogue import NOBODY, Peer
from embedded_tubemq.storage.store import NewMessage
from tests.examples import examples
from tests.tubeclient import test_read_range
from tests.tubeclient.simulation import Actor, Weather
from tests.tubeclient.test_read_range import BROKER, CALM, GROUPS, LATE, STORMY, TOPIC
from tubeclient.errors import DeadlineExceeded, NoMessageTime
from tubeclient.flows.find_time import TimeProbe
from tubeclient.flows.read_session import ReaderNames
from tubeclient.keys import INDEX_ENTRY_BYTES as ENTRY
from tubeclient.keys import PartitionKey, StoreBounds
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import encode_attributes, encode_payload


class Bench(test_read_range.Bench):
    """A broker with one store. Messages are (partition, minute of 1970-01-01); None stands for no time."""

    def __init__(self, folder: Path, partitions: int = 2, seed: int = 1, weather: Weather | None = None) -> None:
        super().__init__(folder, partitions, seed, weather)

    def write(self, messages: Sequence[tuple[int, int | None]], size: int = 20) -> None:
        self.store.append_all(
            (NewMessage(partition, *with_minute(minute, size)) for partition, minute in messages),
            int(self.simulation.now_ms),
        )

    def look(self, partition: int, work: Callable[[TimeProbe], Any], **more: Any) -> Actor:
        key, lives = PartitionKey(1, TOPIC, partition), itertools.count(1)
        names = ReaderNames(GROUPS, lambda: f"looker-{next(lives)}")
        look = TimeProbe(BROKER, key, names, random.Random(1), zone=UTC, **more)

        def whole() -> Any:
            """As the shell does."""
            try:
                return (yield from work(look))
            finally:
                yield from look.release()

        return self.simulation.start(whole())

    def start(self, partition: int, minute: int, **more: Any) -> Actor:
        bounds = StoreBounds(*self.store.bounds)
        return self.look(partition, lambda look: look.find(bounds, minute), **more)

    def find(self, partition: int, minute: int, **more: Any) -> Any:
        """The entry that is found; raises what the search raises."""
        actor = self.start(partition, minute, **more)
        self.simulation.run()
        return found_by(actor)


def with_minute(minute: int | None, size: int = 20) -> tuple[bytes, int]:
    time = "" if minute is None else f"19700101{minute // 60:02d}{minute % 60:02d}"
    return encode_payload(bytes(size), encode_attributes({}, "tag", time))


def found_by(actor: Actor) -> Any:
    assert actor.done
    if actor.error is not None:
        raise actor.error
    return None if actor.result is None else actor.result // ENTRY


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 0, 1, 5])), min_size=1, max_size=300),
    minute=st.integers(0, 100),
    size=st.sampled_from([20, 30_000]),
    half_packs=st.booleans(),
    advancing_404=st.booleans(),
    weather=st.sampled_from([CALM, STORMY, LATE]),
)
def test_first_message_of_minute(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    steps: list[tuple[int, int]],
    minute: int,
    size: int,
    half_packs: bool,
    advancing_404: bool,
    weather: Weather,
) -> None:
    """The search finds the entry after the partition's last message older than the minute."""
    bench = Bench(tmp_path_factory.mktemp("store"), 3, seed, weather)
    bench.broker.faults.half_packs = half_packs
    bench.broker.faults.advancing_404 = advancing_404
    messages, now = [], 0
    for partition, step in steps:
        now += step
        messages.append((partition, now))
    bench.write(messages, size)
    for partition in range(3):
        found = bench.find(partition, minute, retry_limit_ms=900_000)
        own = [(at, time) for at, (owner, time) in enumerate(messages) if owner == partition]
        older = [at for at, time in own if time < minute]
        # Behind the last older one of its own: what lies between that and the first of the minute is its siblings'.
        assert found == (None if len(older) == len(own) else older[-1] + 1 if older else 0)


def test_an_empty_partition_and_one_that_is_all_older(bench: Bench) -> None:
    assert bench.find(0, 5) is None
    assert bench.simulation.calls == []
    bench.write([(0, 4)] * 10)
    assert bench.find(0, 5) is None
    assert bench.find(1, 5) is None
    assert bench.find(0, 4) == 0


@pytest.mark.parametrize("text", ["", "2024", "202413010000"])
def test_messages_without_a_time_are_named(bench: Bench, text: str) -> None:
    payload, flag = encode_payload(b"body", encode_attributes({}, "tag", text))
    bench.store.append_all([NewMessage(1, payload, flag)], 0)
    said = f"has the time '{text}', which is not yyyyMMddHHmm" if text else "carries no time"
    with pytest.raises(NoMessageTime, match=rf"of partition 1:clicks:1 \(topic clicks\).*{said}") as caught:
        bench.find(1, 5)
    assert caught.value.partition == "1:clicks:1"
    assert bench.find(0, 5) is None  # its sibling has none at all


def test_what_expires_meanwhile_counts_as_older(bench: Bench) -> None:
    bench.write([(0, 10 + n // 100) for n in range(2_000)])
    actor = bench.start(0, 12)  # entry 200
    while bench.simulation.calls.count(Method.GET_MESSAGES) < 5:
        bench.simulation.run(for_ms=0.1)
    bench.store.expire(1_500 * ENTRY)
    bench.simulation.run()
    assert found_by(actor) == 1_500


@pytest.mark.parametrize(
    ("method", "field", "answers", "said"),
    [
        (Method.PARTITION_REGISTER, "currOffset", lambda real: -28, "currOffset -28"),
        (Method.PARTITION_REGISTER, "maxOffset", lambda real: real - 9, "maxOffset .*multiples of 28"),
        (Method.GET_MESSAGES, "currOffset", lambda real: real + 5, "currOffset .*multiples of 28"),
    ],
)
def test_answers_that_cannot_be_true_end_the_search(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    method: Method,
    field: str,
    answers: Callable[[int], int],
    said: str,
) -> None:
    answered = bench.broker.handle

    def handle(asked: Method, request: Message, now_ms: int, peer: Peer = NOBODY) -> Message:
        answer: Any = answered(asked, request, now_ms, peer)
        assert len(bench.simulation.calls) < 1_000, "goes on and on"
        if asked is method and answer.errCode == 200:
            setattr(answer, field, answers(getattr(answer, field)))
        assert isinstance(answer, Message)
        return answer

    monkeypatch.setattr(bench.broker, "handle", handle)
    bench.write([(0, n // 100) for n in range(2_000)])
    with pytest.raises(DeadlineExceeded, match=rf"looking for a time in partition 1:clicks:0.*{said}"):
        bench.find(0, 12, retry_limit_ms=10_000)
