"""Arguments of another kind than a call takes: one error that says what was given and what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.stored import bodies
from tubeclient import (
    Admin,
    BrokerInfo,
    ClientBalanceConsumer,
    ClientSettings,
    ConfigurationError,
    GroupMembership,
    OffsetLookup,
    OffsetRange,
    OutgoingMessage,
    PartitionKey,
    Producer,
    PullConsumer,
    RangeReader,
    WantedRange,
    fetch_view,
    parse_master_servers,
)
from tubeclient.aio import AsyncProducer, AsyncPullConsumer, AsyncRangeReader

KEY = PartitionKey(1, "single", 0)
BROKER = BrokerInfo(1, "127.0.0.1", 1)

WITH_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "Producer": Producer,
    "Admin": Admin,
    "ClientBalanceConsumer": lambda settings: ClientBalanceConsumer(settings, "etl", ["single"]),
    "PullConsumer": lambda settings: PullConsumer(settings, "etl", ["single"]),
    "members": lambda settings: PullConsumer(settings, "etl", ["single"], membership="dynamic"),
    "GroupMembership": lambda settings: GroupMembership(settings, "etl", ["single"], 1),
    "OffsetLookup": lambda settings: OffsetLookup(settings, ["etl-r0"]),
    "RangeReader": lambda settings: RangeReader(settings, ("etl-r0",)),
    "fetch_view": lambda settings: fetch_view(settings, ["single"], ["etl-r0"]),
    "AsyncProducer": AsyncProducer,
    "AsyncPullConsumer": lambda settings: AsyncPullConsumer(settings, "etl", ["single"]),
    "AsyncRangeReader": lambda settings: AsyncRangeReader(settings, ("etl-r0",)),
}


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_an_address_in_place_of_the_settings(name: str) -> None:
    example = r'settings must be a ClientSettings, as ClientSettings\("10.0.0.1:8715"\); not '
    with pytest.raises(ConfigurationError, match=example + "a str") as caught:
        WITH_SETTINGS[name]("alice:secret@10.0.0.1:8715")
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=example + "None"):
        WITH_SETTINGS[name](None)


OF_SETTINGS: list[tuple[Callable[[], Any], str]] = [
    (lambda: ClientSettings("10.0.0.1", credentials="alice:secret"), "credentials must be a Credentials, as .*; not a"),  # type: ignore[arg-type]
    (lambda: ClientSettings("10.0.0.1", tls=True), "tls must be a TlsSettings, as .*; not a bool"),  # type: ignore[arg-type]
    (lambda: parse_master_servers(None), "master_servers must be a str, as .*; not None"),  # type: ignore[arg-type]
    (lambda: PartitionKey.parse(None), "None is not a partition key"),  # type: ignore[arg-type]
    (lambda: OffsetRange(KEY, 0, "28"), "the offset '28' of the end of a range .* is not a whole number"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "what"), OF_SETTINGS)
def test_values_that_are_none(make: Callable[[], Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what) as caught:
        make()
    assert "secret" not in str(caught.value)


MESSAGES: list[list[Any]] = [
    [("single",)],
    [("single", b"x")],
    [("single", b"x", 0, "", "", "")],  # the last one was taken for the answer, and the producer sent nothing more
    [None],
    ["single"],
    [b"x"],
]


@pytest.mark.parametrize("messages", MESSAGES, ids=repr)
def test_messages_that_are_none_are_refused_before_anything_is_sent(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[Any]
) -> None:
    good = OutgoingMessage.of("single", b"good")
    with Producer(settings) as producer:
        producer.publish(["single"])
        with pytest.raises(ConfigurationError, match=r"a message must be an OutgoingMessage, as .*\.of\(.*; not "):
            producer.submit_each([good, *messages])
        assert producer.send("single", b"after").offset is not None
    assert bodies(cluster, "single") == {b"after": 1}


@pytest.mark.parametrize("topics", [None, 5])
def test_topics_and_groups_that_are_none(settings: ClientSettings, topics: Any) -> None:
    with Producer(settings) as producer:
        with pytest.raises(ConfigurationError, match=f"topics are given as a list of names, .* not as {topics}"):
            producer.publish(topics)
        with pytest.raises(ConfigurationError, match="are given as a list of bodies, not as one "):
            producer.submit_many("single", topics)
    with pytest.raises(ConfigurationError, match="readerGroups are given as a list of names"):
        RangeReader(settings, topics)


def test_packs_that_are_none(settings: ClientSettings) -> None:
    with (
        PullConsumer(settings, "etl", ["single"], start_from="earliest") as consumer,
        Producer(settings) as producer,
    ):
        producer.publish(["single"])
        producer.send("single", b"x")
        delivery = consumer.get(timeout_ms=10_000)
        assert delivery is not None
        for wrong in (None, "single", KEY, next(delivery.received())):
            for confirm in (consumer.confirm, consumer.confirm_async):
                with pytest.raises(ConfigurationError, match=r"must be a Delivery, as get\(\) returns it"):
                    confirm(wrong)  # type: ignore[arg-type]
        assert consumer.confirm(delivery) == 28


def test_partitions_that_are_none(settings: ClientSettings) -> None:
    wanted = r'a partition must be a PartitionKey, as PartitionKey.parse\("1:clicks:0"\); not a '
    with ClientBalanceConsumer(settings, "etl", ["single"]) as consumer:
        for call in (consumer.connect, consumer.disconnect):
            with pytest.raises(ConfigurationError, match=wanted + "str"):
                call("1:single:0")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="the offset to connect at must be a whole number, not '28'"):
            consumer.connect(KEY, "28")  # type: ignore[arg-type]
    with RangeReader(settings, ("etl-r0",)) as reader:
        with pytest.raises(ConfigurationError, match=wanted + "str"):
            reader.has_partition(BROKER, "1:single:0")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="the broker of a range must be a BrokerInfo"):
            list(reader.read("127.0.0.1:1", OffsetRange(KEY, 0, 28)))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="a range must be an OffsetRange"):
            list(reader.read(BROKER, (KEY, 0, 28)))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="a range to read must be a WantedRange"):
            list(reader.read_all([(BROKER, OffsetRange(KEY, 0, 28))]))  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="offsets is a map from PartitionKey to offset; '1:single:0' is no"):
        Admin(settings).set_offsets("etl", {"1:single:0": 28})  # type: ignore[dict-item]
    assert WantedRange(BROKER, OffsetRange(KEY, 0, 28)).filters == frozenset()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"source_count": "2"}, "source_count must be a whole number, not '2'"),
        ({"source_count": 2, "node_id": "1"}, "node_id must be a whole number, not '1'"),
        ({"prefetch": "2"}, "prefetch must be a whole number, not '2'"),
        ({"metadata_interval_ms": "2"}, "metadata_interval_ms must be a number of milliseconds"),
        ({"strategy": 5}, "strategy must be a name, .*, or a function .*; not 5"),
        ({"hints": None}, "hints must be a Hints, as .*; not None"),
        ({"start_offsets": [KEY]}, "start_offsets is a map from PartitionKey to offset, as "),
    ],
)
def test_options_of_another_kind(settings: ClientSettings, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        PullConsumer(settings, "etl", ["single"], **options)


def test_a_user_that_is_none(settings: ClientSettings) -> None:
    with pytest.raises(ConfigurationError, match="modify_user None is not a user name"):
        Admin(settings, modify_user=None)  # type: ignore[arg-type]
