"""The codes of refusals: both servers give the same, and each becomes its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.apache.server import ApacheTubeMQ
from tests.conformance.clients import partition_of
from tests.conformance.cluster import Cluster
from tests.conformance.conftest import ON_APACHE, MakeConsumer
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient import (
    BadRequest,
    ClientBalanceConsumer,
    DeadlineExceeded,
    GroupConflict,
    GroupForbidden,
    NodeIdConflict,
    NoSuchPartition,
    NotAvailable,
    NothingToRead,
    OffsetRange,
    PartitionKey,
    PartitionOccupied,
    PartitionTaken,
    RangeReader,
    RegistrationLost,
    SourceCountConflict,
    StatusError,
    TopicNotDeployed,
)
from tubeclient.flows.effects import checked
from tubeclient.flows.reader import REGISTER, UNREGISTER
from tubeclient.wire.methods import Method

pytestmark = [pytest.mark.apache, pytest.mark.merge]

Topics = list[str] | dict[str, list[str]]

JOINS: list[tuple[int, type[StatusError], tuple[Topics, int, int], tuple[Topics, int, int]]] = [
    # The code, what it becomes, who is in the group, and who wants to join: topics, source count and node.
    (425, GroupConflict, (["codes"], -1, -1), (["codes", "calls"], -1, -1)),
    (426, GroupConflict, ({"codes": ["one"]}, -1, -1), ({"codes": ["two"]}, -1, -1)),
    (429, SourceCountConflict, (["codes"], 2, 0), (["codes"], 3, 1)),
    (430, NodeIdConflict, (["codes"], 2, 1), (["codes"], 2, 1)),
    (431, TopicNotDeployed, (["codes"], -1, -1), (["nowhere"], -1, -1)),
]


def refused(code: int, kind: type[StatusError], action: Callable[[], object]) -> None:
    """What may pass is tried again until time is up; the error that says so was caused by the last refusal."""
    with pytest.raises((kind, DeadlineExceeded)) as caught:
        action()
    error = caught.value if isinstance(caught.value, StatusError) else caught.value.__cause__
    assert isinstance(error, StatusError)
    assert (type(error), error.code) == (kind, code)
    assert f"the server answered {code} (" in str(caught.value)


@pytest.mark.parametrize(("code", "kind", "member", "other"), JOINS, ids=[str(row[0]) for row in JOINS])
def test_who_does_not_fit_the_group(
    consumer_of: MakeConsumer,
    code: int,
    kind: type[StatusError],
    member: tuple[Topics, int, int],
    other: tuple[Topics, int, int],
) -> None:
    def join(topics: Topics, source_count: int, node_id: int) -> ClientBalanceConsumer:
        return consumer_of(f"codes_{code}", topics, source_count=source_count, node_id=node_id)

    join(*member)
    refused(code, kind, lambda: join(*other))


@ON_APACHE
def test_groups_and_tags_without_leave(tube: Cluster, consumer_of: MakeConsumer) -> None:
    assert isinstance(tube.servers, ApacheTubeMQ)
    modify = tube.servers.admin.modify
    for topic in ("guarded", "guarded_tags"):
        modify("admin_set_topic_authorize_control", topicName=topic, isEnable=True)
    modify("admin_add_authorized_consumergroup_info", topicName="guarded", groupName="insiders")
    consumer_of("insiders", ["guarded"])
    refused(450, GroupForbidden, lambda: consumer_of("strangers", ["guarded"]))
    may = {"consumeEnable": True, "filterEnable": True, "filterConds": ["one", "two"]}
    modify("admin_add_group_csmctrl_info", topicName="guarded_tags", groupName="tagged", **may)
    consumer_of("tagged", {"guarded_tags": ["two"]}).close()
    refused(455, GroupForbidden, lambda: consumer_of("tagged", {"guarded_tags": ["three"]}))


def test_a_partition_that_the_topic_does_not_have(tube: Cluster) -> None:
    settings = replace(tube.settings, retry_limit_ms=300)
    piece = OffsetRange(PartitionKey(1, "codes", 77), 0, 28)
    with RangeReader(settings, ("codes-r0",), visit_token=tube.visit_token()) as reader:
        refused(500, NoSuchPartition, lambda: list(reader.read(tube.brokers[1], piece)))


# What our client keeps from its users, or meets only in a race

KEY = partition_of("codes_raw")
GROUP = "codes_raw"


class Plain:
    """A client that knows the protocol and nothing else, and reads no partition unless it says so."""

    def __init__(self, tube: Cluster, broker: RawClient, master: RawClient) -> None:
        self._authority = {"visitAuthorizedToken": tube.visit_token()}
        self._broker, self._master = broker, master

    def register(self, topic: str = KEY.topic, *, op: int = REGISTER) -> Any:
        return self._ask(Method.PARTITION_REGISTER, topic, opType=op, readStatus=1, authInfo=self._authority)

    def fetch(self) -> Any:
        return self._ask(Method.GET_MESSAGES, lastPackConsumed=False, manualCommitOffset=False)

    def commit(self) -> Any:
        return self._ask(Method.COMMIT_OFFSET, lastPackConsumed=True)

    def send(self, body: bytes, checksum: int = -1) -> Any:
        where = {"topicName": KEY.topic, "partitionId": KEY.partition_id, "authInfo": self._authority}
        what = {"data": body, "checkSum": checksum, "flag": 0, "sentAddr": 0}
        return self._broker.call(Method.SEND_MESSAGE, clientId="plain", **where, **what)

    def beat(self, group: str) -> Any:
        """A heartbeat to the master."""
        return self._master.call(Method.CONSUMER_HEARTBEAT_V2, clientId="plain", groupName=group)

    def _ask(self, method: Method, topic: str = KEY.topic, **fields: Any) -> Any:
        where = {"groupName": GROUP, "topicName": topic, "partitionId": KEY.partition_id}
        return self._broker.call(method, clientId="plain", **where, **fields)


@pytest.fixture
def plain(tube: Cluster) -> Iterator[Plain]:
    with tube.raw(1) as broker, tube.raw() as master:
        yield Plain(tube, broker, master)


ANSWERS: list[tuple[str, int, type[StatusError], Callable[[Plain], Any]]] = [
    ("an empty message", 400, BadRequest, lambda plain: plain.send(b"")),
    ("a commit of somebody else's partition", 401, RegistrationLost, Plain.commit),
    ("an unknown topic", 403, NotAvailable, lambda plain: plain.register("nowhere")),
    ("a wrong checksum", 403, NotAvailable, lambda plain: plain.send(b"body", 1)),
    ("somebody else's partition", 410, PartitionOccupied, Plain.register),
    ("a client the master does not know", 411, RegistrationLost, lambda plain: plain.beat(GROUP)),
    ("a group the master does not know", 411, RegistrationLost, lambda plain: plain.beat("codes_raw_aside")),
    ("a fetch from somebody else's partition", 412, PartitionTaken, Plain.fetch),
]


@pytest.mark.parametrize(("code", "kind", "ask"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_beside_an_owner(
    consumer_of: MakeConsumer, plain: Plain, code: int, kind: type[StatusError], ask: Callable[[Plain], Any]
) -> None:
    owner = consumer_of(GROUP, [KEY.topic])
    owner.connect(KEY)
    answer = ask(plain)
    assert answer.errCode == code
    with pytest.raises(kind) as caught:
        checked(answer, "asking")
    assert type(caught.value) is kind
    assert owner.registered() == [KEY]
    assert owner.get(timeout_ms=100) is None


def test_fetch_codes_unregistered_and_at_the_end(plain: Plain) -> None:
    """A fetch returns 411 if nobody has the partition registered, and 404 at the end of the data."""
    assert plain.fetch().errCode == 411
    assert plain.commit().errCode == 401
    assert plain.register().errCode == 200
    try:
        answer = plain.fetch()
        assert answer.errCode == 404
        with pytest.raises(NothingToRead):
            checked(answer, "reading")
    finally:
        plain.register(op=UNREGISTER)
