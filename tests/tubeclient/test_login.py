"""A cluster that asks who we are: every part of the client says it, and a wrong password is a clear error."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from tubeclient import (
    AuthenticationFailed,
    ClientSettings,
    Credentials,
    GroupMembership,
    OffsetLookup,
    OffsetRange,
    PartitionKey,
    Producer,
    RangeReader,
    fetch_view,
)
from tubeclient.keys import BrokerInfo

SECRET = "s3cret-horse"
WRONG = "s3cret-mouse"
GROUPS = ("etl-r0", "etl-r1")
KEY = PartitionKey(1, "clicks", 0)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tubemq", [TopicConfig("clicks")], users={"alice": SECRET}) as running:
        yield running


@pytest.fixture
def checking(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    """A cluster that asks for visit tokens instead."""
    with EmbeddedTubeMQ(tmp_path / "tubemq", [TopicConfig("clicks")], check_visit_token=True) as running:
        yield running


@pytest.fixture
def settings(guarded: EmbeddedTubeMQ) -> ClientSettings:
    """Without a user; the brokers are asked over the protocol, as their web ports ask nobody."""
    return ClientSettings((guarded.master_address,), master_web_port=1, rpc_timeout_ms=2_000, retry_limit_ms=5_000)


def broker_of(cluster: EmbeddedTubeMQ) -> BrokerInfo:
    host, port = cluster.broker_addresses[1].split(":")
    return BrokerInfo(1, host, int(port))


def read(settings: ClientSettings, broker: BrokerInfo) -> int:
    with RangeReader(settings, GROUPS) as reader:
        return sum(len(pack.messages) for pack in reader.read(broker, OffsetRange(KEY, 0, 280)))


def send(settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        for number in range(10):
            producer.send("clicks", str(number).encode())


def join(settings: ClientSettings) -> None:
    with closing(GroupMembership(settings, "etl", ["clicks"], 2)) as membership:
        membership.join()
        membership.refreshed_view()


def test_right_user(guarded: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """The right user can send, join, find offsets, and read."""
    settings = replace(settings, credentials=Credentials("alice", password=SECRET))
    send(settings)
    join(settings)
    view = fetch_view(settings, ["clicks"], GROUPS)
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        assert lookup.bounds(view)[KEY.store] == (0, 280)
    assert read(settings, view.brokers[1]) == 10


LOGINS: dict[str, Callable[[ClientSettings, EmbeddedTubeMQ], object]] = {
    "producing": lambda settings, cluster: send(settings),
    "joining": lambda settings, cluster: join(settings),
    "viewing": lambda settings, cluster: fetch_view(settings, ["clicks"], GROUPS),
    "reading": lambda settings, cluster: read(settings, broker_of(cluster)),
}


@pytest.mark.parametrize("what", LOGINS)
@pytest.mark.parametrize(
    "credentials", [None, Credentials("alice", password=WRONG), Credentials("bob", password=WRONG)]
)
def test_without_the_right_password_nothing_is_done(
    guarded: EmbeddedTubeMQ,
    settings: ClientSettings,
    caplog: pytest.LogCaptureFixture,
    what: str,
    credentials: Credentials | None,
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = replace(settings, credentials=credentials)
    with pytest.raises(AuthenticationFailed, match=r"415 .*Check the user, the password") as caught:
        LOGINS[what](settings, guarded)
    shown = [*map(str, caplog.records), caplog.text, *traceback.format_exception(caught.value), repr(caught.value)]
    assert WRONG not in "".join(shown)
    assert WRONG.encode() not in pickle.dumps(caught.value)


def test_brokers_are_shown_the_masters_visit_token(checking: EmbeddedTubeMQ) -> None:
    settings = ClientSettings((checking.master_address,), master_web_port=1, retry_limit_ms=5_000)
    send(settings)
    with closing(GroupMembership(settings, "etl", ["clicks"], 1)) as membership:
        view = membership.join()
        token = membership.visit_token
        with RangeReader(settings, GROUPS, visit_token=token) as reader:
            assert sum(len(pack.messages) for pack in reader.read(view.brokers[1], OffsetRange(KEY, 0, 280))) == 10
    assert token is not None
    assert fetch_view(settings, ["clicks"], GROUPS).visit_token == token
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        assert lookup.bounds(view)[KEY.store] == (0, 280)
    with (
        closing(OffsetLookup(settings, GROUPS)) as lookup,
        pytest.raises(AuthenticationFailed, match="visit token"),
    ):
        lookup.bounds(replace(view, visit_token=token - 1))
    with pytest.raises(AuthenticationFailed, match="visit token"):
        read(settings, view.brokers[1])
