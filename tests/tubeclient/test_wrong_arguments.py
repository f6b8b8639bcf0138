"""Arguments of another kind than a call takes: one error that says what was given and what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.stored import bodies
from tubeclient import (
    Admin,
    ClientBalanceConsumer,
    ClientSettings,
    ConfigurationError,
    GroupMembership,
    OffsetLookup,
    OutgoingMessage,
    Producer,
    PullConsumer,
    RangeReader,
    fetch_view,
)

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
}


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_an_address_in_place_of_the_settings(name: str) -> None:
    example = r'settings must be a ClientSettings, as ClientSettings\("10.0.0.1:8715"\); not '
    with pytest.raises(ConfigurationError, match=example + "a str") as caught:
        WITH_SETTINGS[name]("alice:secret@10.0.0.1:8715")
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=example + "None"):
        WITH_SETTINGS[name](None)


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
