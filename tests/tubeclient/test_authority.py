"""What requests say of who we are, and what masters' answers bring; without any server."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from tubeclient import ClientSettings, TlsSettings
from tubeclient.access import masters_of
from tubeclient.flows.authority import Authority
from tubeclient.flows.effects import Flow, Receive, Send
from tubeclient.flows.master import GroupNode, MetadataCache, query_view
from tubeclient.flows.produce import ProducerSession
from tubeclient.wire.proto import broker_pb2, master_pb2
from tubeclient.wire.signature import parse_joined, sign

T = TypeVar("T")

SIGNED = sign("alice", "secret", 1_700_000_000_000, 7)


def answered(flow: Flow[T], answer: Any) -> T:
    """Run a flow that makes one call, and answer it."""
    effect = flow.send(None)
    while True:
        assert isinstance(effect, Send | Receive)
        try:
            effect = flow.send("ticket" if isinstance(effect, Send) else answer)
        except StopIteration as stop:
            result: T = stop.value
            return result


def test_without_a_user_masters_are_told_nothing_and_brokers_the_token_alone() -> None:
    to_master, to_broker = master_pb2.CloseRequestC2M(), broker_pb2.HeartBeatRequestC2B()
    nobody = Authority()
    nobody.to_master(to_master)
    nobody.to_broker(to_broker)
    assert not to_master.HasField("authInfo")
    assert to_broker.authInfo.visitAuthorizedToken == -2
    assert not to_broker.authInfo.HasField("authAuthorizedToken")


def test_masters_get_the_signature_in_fields_and_brokers_joined() -> None:
    to_master, to_broker = master_pb2.CloseRequestC2M(), broker_pb2.HeartBeatRequestC2B()
    alice = Authority(lambda: SIGNED, visit_token=5)
    alice.to_master(to_master)
    alice.to_broker(to_broker)
    info = to_master.authInfo.authInfo
    assert (info.userName, info.timestamp, info.nonce, info.signature) == (
        "alice",
        1_700_000_000_000,
        7,
        SIGNED.signature,
    )
    assert info.IsInitialized()
    assert to_broker.authInfo.visitAuthorizedToken == 5
    assert parse_joined(to_broker.authInfo.authAuthorizedToken) == SIGNED


def test_the_token_of_the_last_answer_that_had_one_counts() -> None:
    authority = Authority()
    answer = master_pb2.HeartResponseM2CV2(errCode=200, errMsg="")
    answer.authorizedInfo.visitAuthorizedToken = 9
    authority.take(answer)
    authority.take(master_pb2.HeartResponseM2CV2(errCode=200, errMsg=""))
    authority.take(master_pb2.CloseResponseM2C(success=True, errCode=200, errMsg=""))
    assert authority.visit_token == 9


@pytest.mark.parametrize(("tls", "port"), [(None, 8123), (TlsSettings(), 8124)])
def test_a_broker_without_a_port_is_on_the_default_one(tls: TlsSettings | None, port: int) -> None:
    masters = masters_of(ClientSettings(("a:1",), tls=tls))
    metadata = master_pb2.GetPartMetaResponseM2C(errCode=200, errMsg="", brokerConfigId=1, brokerConfigList=["1:b: "])
    view = answered(query_view(masters, GroupNode("c", "g", ("t",), "h"), MetadataCache()), metadata)
    assert view.brokers[1].address == f"b:{port}"
    session = ProducerSession(masters, "p", "h")
    registered = master_pb2.RegisterResponseM2P(
        success=True, errCode=200, errMsg="", brokerCheckSum=1, brokerInfos=["1:b: "]
    )
    answered(session.register(), registered)
    assert session.brokers[1].address == f"b:{port}"
