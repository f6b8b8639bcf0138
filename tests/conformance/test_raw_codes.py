"""Codes that our client keeps from its users, or meets only in a race: both servers give the same to plain calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import partition_of
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient import (
    BadRequest,
    ClientBalanceConsumer,
    NotAvailable,
    NothingToRead,
    PartitionOccupied,
    PartitionTaken,
    RegistrationLost,
    StatusError,
)
from tubeclient.flows.effects import checked
from tubeclient.flows.reader import REGISTER, UNREGISTER
from tubeclient.wire.methods import Method

pytestmark = pytest.mark.apache

KEY = partition_of("codes_raw")
GROUP = "codes_raw"


class Stranger:
    """A client that knows the protocol and nothing else, and reads no partition unless it says so."""

    def __init__(self, tube: Cluster, broker: RawClient, master: RawClient) -> None:
        self._authority = {"visitAuthorizedToken": tube.visit_token()}
        self._broker, self._master = broker, master

    def register(self, topic: str = KEY.topic, group: str = GROUP) -> Any:
        return self._ask(
            Method.PARTITION_REGISTER, topic, group, opType=REGISTER, readStatus=0, authInfo=self._authority
        )

    def unregister(self) -> Any:
        return self._ask(
            Method.PARTITION_REGISTER, KEY.topic, GROUP, opType=UNREGISTER, readStatus=1, authInfo=self._authority
        )

    def fetch(self) -> Any:
        return self._ask(Method.GET_MESSAGES, KEY.topic, GROUP, lastPackConsumed=False, manualCommitOffset=False)

    def commit(self) -> Any:
        return self._ask(Method.COMMIT_OFFSET, KEY.topic, GROUP, lastPackConsumed=True)

    def send(self, body: bytes, checksum: int = -1) -> Any:
        return self._broker.call(
            Method.SEND_MESSAGE,
            clientId="stranger",
            topicName=KEY.topic,
            partitionId=KEY.partition_id,
            data=body,
            flag=0,
            checkSum=checksum,
            sentAddr=0,
            authInfo=self._authority,
        )

    def beat(self, group: str) -> Any:
        """A heartbeat to the master."""
        return self._master.call(Method.CONSUMER_HEARTBEAT_V2, clientId="stranger", groupName=group)

    def _ask(self, method: Method, topic: str, group: str, **fields: Any) -> Any:
        return self._broker.call(
            method, clientId="stranger", groupName=group, topicName=topic, partitionId=KEY.partition_id, **fields
        )


@pytest.fixture
def stranger(tube: Cluster) -> Iterator[Stranger]:
    with tube.raw(1) as broker, tube.raw() as master:
        yield Stranger(tube, broker, master)


@pytest.fixture
def owner(tube: Cluster, consumer_of: MakeConsumer) -> ClientBalanceConsumer:
    """A consumer of ours that reads KEY up to its end."""
    consumer = consumer_of(GROUP, [KEY.topic])
    consumer.connect(KEY)
    return consumer


ASIDE = "codes_raw_aside"
"""A group without clients."""

ANSWERS: list[tuple[str, int, type[StatusError], Callable[[Stranger], Any]]] = [
    ("an empty message", 400, BadRequest, lambda stranger: stranger.send(b"")),
    ("a commit of somebody else's partition", 401, RegistrationLost, Stranger.commit),
    ("an unknown topic", 403, NotAvailable, lambda stranger: stranger.register("nowhere")),
    ("a wrong checksum", 403, NotAvailable, lambda stranger: stranger.send(b"body", 1)),
    ("somebody else's partition", 410, PartitionOccupied, Stranger.register),
    ("a client the master does not know", 411, RegistrationLost, lambda stranger: stranger.beat(GROUP)),
    ("a group the master does not know", 411, RegistrationLost, lambda stranger: stranger.beat(ASIDE)),
    ("a fetch from somebody else's partition", 412, PartitionTaken, Stranger.fetch),
]


@pytest.mark.parametrize(("code", "kind", "ask"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_beside_an_owner(
    owner: ClientBalanceConsumer,
    stranger: Stranger,
    code: int,
    kind: type[StatusError],
    ask: Callable[[Stranger], Any],
) -> None:
    answer = ask(stranger)
    assert answer.errCode == code
    with pytest.raises(kind) as caught:
        checked(answer, "asking")
    assert type(caught.value) is kind
    assert owner.registered() == [KEY]
    assert owner.get(timeout_ms=100) is None


def test_a_partition_that_nobody_reads(stranger: Stranger) -> None:
    assert stranger.fetch().errCode == 411
    assert stranger.commit().errCode == 401


def test_the_end_of_the_data(stranger: Stranger) -> None:
    assert stranger.register().errCode == 200
    try:
        answer = stranger.fetch()
        assert answer.errCode == 404
        with pytest.raises(NothingToRead):
            checked(answer, "reading")
    finally:
        stranger.unregister()
