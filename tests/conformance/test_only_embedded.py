"""What only the embedded servers can be brought to do: any answer at a word, and leases of seconds.

Apache's brokers do not go below 20 s for a lease, and check visit tokens from two minutes after their start on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.broker.offsets import Cursor
from tests.conformance.cluster import EmbeddedCluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import drain, partition_of, take
from tests.waiting import wait_for
from tubeclient import (
    AuthenticationFailed,
    BadRequest,
    GroupConflict,
    GroupForbidden,
    NodeIdConflict,
    NotAvailable,
    NothingToRead,
    PartitionKey,
    PartitionOccupied,
    PartitionTaken,
    RegistrationLost,
    ServerBusy,
    SourceCountConflict,
    SpeedLimited,
    StalePack,
    StatusError,
    TopicNotDeployed,
    TubeError,
)
from tubeclient.errors import STATUS_CLASSES
from tubeclient.wire.methods import Method

KEY = partition_of("one")


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("one")], check_visit_token=True) as servers:
        yield EmbeddedCluster(servers)


CODES: dict[type[StatusError], list[int]] = {
    AuthenticationFailed: [415],
    BadRequest: [400],
    GroupConflict: [424, 425, 426, 427, 428],
    GroupForbidden: [450, 455],
    NodeIdConflict: [430],
    NotAvailable: [403],
    NothingToRead: [404],
    PartitionOccupied: [410],
    PartitionTaken: [412],
    RegistrationLost: [401, 411],
    ServerBusy: [201, 301, 419, 500, 503, 510, 599],
    SourceCountConflict: [429],
    SpeedLimited: [452],
    TopicNotDeployed: [431],
    StatusError: [999],
}


@pytest.mark.parametrize(("kind", "code"), [(kind, code) for kind, codes in CODES.items() for code in codes])
def test_whatever_a_broker_answers_to_a_connect(
    tube: EmbeddedCluster, consumer_of: MakeConsumer, kind: type[StatusError], code: int
) -> None:
    consumer = consumer_of("forced", ["one"])
    tube.servers.broker_faults(1).force(Method.PARTITION_REGISTER, code)
    with pytest.raises(kind, match=f"1:one:0.*the server answered {code} ") as caught:
        consumer.connect(KEY)
    assert type(caught.value) is kind
    assert caught.value.code == code
    assert consumer.registered() == []
    assert consumer.connect(KEY) == 0


def test_every_code_of_a_server_was_tried() -> None:
    assert set(STATUS_CLASSES) == {code for codes in CODES.values() for code in codes} - {999}


@pytest.mark.parametrize("code", [500, 503])
def test_a_refused_confirm_is_told_and_the_pack_comes_again(
    tube: EmbeddedCluster, consumer_of: MakeConsumer, code: int
) -> None:
    """A broker that is about to stop refuses so."""
    tube.put(KEY, [b"again"])
    consumer = consumer_of("confirming", ["one"])
    consumer.connect(KEY)
    tube.servers.broker_faults(1).force(Method.COMMIT_OFFSET, code)
    with pytest.raises(ServerBusy, match=str(code)):
        consumer.confirm(take(consumer))
    assert drain(consumer, 1) == [(KEY, b"again")]


def test_a_lease_that_ended_is_taken_again_and_the_pack_comes_again(
    tube: EmbeddedCluster, consumer_of: MakeConsumer
) -> None:
    tube.put(KEY, [b"out"])
    consumer = consumer_of("ended", ["one"])
    consumer.connect(KEY)
    out = take(consumer)
    tube.servers.inspect(lambda broker: broker.ownership.release(Cursor("ended", "one", 0)))
    with pytest.raises(StalePack, match="1:one:0"):
        consumer.confirm(out)
    again = take(consumer)
    assert (again.start, again.bodies) == (out.start, [b"out"])
    assert consumer.confirm(again) == 28
    assert consumer.registered() == [KEY]


def test_a_lease_that_went_to_another_client_is_lost(tube: EmbeddedCluster, consumer_of: MakeConsumer) -> None:
    tube.put(KEY, [b"out"])
    lost: list[tuple[PartitionKey, TubeError]] = []
    first = consumer_of("taken", ["one"], on_lost=lambda key, error: lost.append((key, error)))
    first.connect(KEY)
    out = take(first)
    tube.servers.inspect(lambda broker: broker.ownership.release(Cursor("taken", "one", 0)))
    second = consumer_of("taken", ["one"])
    assert second.connect(KEY) == 0
    assert take(second).bodies == [b"out"]
    with pytest.raises(StalePack):
        first.confirm(out)
    wait_for(lambda: lost, "the loss to be told")
    assert first.registered() == []
    [(key, error)] = lost
    assert (key, getattr(error, "code", None)) == (KEY, 410)


def test_a_heartbeat_finds_out_that_a_partition_is_somebody_elses(
    tube: EmbeddedCluster, consumer_of: MakeConsumer
) -> None:
    tube.put(KEY, [b"out"])
    lost: list[TubeError] = []
    first = consumer_of("found_out", ["one"], on_lost=lambda key, error: lost.append(error))
    first.connect(KEY)
    take(first)  # while a pack is out nothing is fetched: only the heartbeat tells
    tube.servers.inspect(lambda broker: broker.ownership.release(Cursor("found_out", "one", 0)))
    second = consumer_of("found_out", ["one"])
    second.connect(KEY)
    wait_for(lambda: lost, "the loss to be told")
    assert [type(error) for error in lost] == [PartitionTaken]
    assert first.registered() == []
    assert second.registered() == [KEY]
